"""``pyrite train digits``: what it learns, what it keeps, and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.backend import device
from pyrite.cli import train
from pyrite.cli.digits import network_on
from pyrite.config import config
from pyrite.record import load_safetensors
from pyrite.train import PlainView, RunDirectory

ACCURACY = 0.975


def test_digits_are_learned_and_reported_as_json(pyrite: Any, tmp_path: Path) -> None:
    done = pyrite("train", "digits", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    assert report["metrics"]["test"]["accuracy"] >= ACCURACY
    assert set(report["metrics"]) == {"train", "valid", "test"}
    assert (report["device"], report["seed"], report["epochs"]) == ("numpy", 0, 5)
    assert report["seconds"] > 0
    assert report["steps_per_second"] > 0
    assert "epoch 5/5" in done.stderr


def test_a_device_that_is_named_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is the best is not tried: that takes seconds, and another may not work."""

    def fail() -> str:
        pytest.fail("another device was looked for")

    monkeypatch.setattr(config, "device", None)
    monkeypatch.setattr(import_module("pyrite.backend.device"), "_best", fail)

    net = network_on(device("cpu"))

    assert net.num_params() == 6186
    assert {p.device.name for p in net.parameters()} == {"cpu"}
    assert net.conv1.weight.numpy().std() > 0


def test_a_run_keeps_its_files_and_says_how_to_use_them(run_directory: Path) -> None:
    assert {path.name for path in run_directory.iterdir()} == {
        "checkpoints", "events.jsonl", "model.safetensors", "run.json", "samples",
    }  # fmt: skip
    manifest = json.loads((run_directory / "run.json").read_text())
    assert manifest["arguments"] == {
        "task": "digits", "epochs": 2, "batch_size": 32, "learning_rate": 0.003, "seed": 0,
    }  # fmt: skip
    results = RunDirectory(run_directory).read_history()
    assert [(result.epoch, result.split) for result in results] == [
        (1, "train"), (1, "valid"), (2, "train"), (2, "valid"), (2, "test"),
    ]  # fmt: skip


def test_a_run_is_neither_written_over_nor_mixed_with_another(
    command: Any, run_directory: Path
) -> None:
    before = (run_directory / "model.safetensors").read_bytes()
    done = command("train", "digits", "--out", run_directory)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "--resume" in line
    assert "--overwrite" in line
    other = command("train", "digits", "--out", run_directory, "--resume", "--batch-size", "16")
    assert other.returncode == 1
    assert "got batch_size=16 instead of 32" in other.stderr
    assert (run_directory / "model.safetensors").read_bytes() == before


def test_resuming_a_run_that_is_done_only_tests_it(
    pyrite: Any, run_directory: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "digits"
    shutil.copytree(run_directory, copy)
    done = pyrite("train", "digits", "--out", copy, "--resume", "--plain")
    assert done.returncode == 0, done.stderr
    assert "continuing after 2 epochs" in done.stdout
    assert "completed: 0 steps" in done.stdout
    assert f"pyrite predict {copy} IMAGE.png" in done.stdout


def start(out: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pyrite", "train", "digits", "--out", str(out), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_checkpoint(process: subprocess.Popen[str], out: Path) -> None:
    while not list(out.glob("checkpoints/epoch-*.safetensors")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(
    pyrite: Any, run_directory: Path, tmp_path: Path, how: signal.Signals
) -> None:
    with start(tmp_path, "--epochs", "2") as process:
        wait_for_checkpoint(process, tmp_path)
        os.kill(process.pid, how)
        output, errors = process.communicate(timeout=120)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted in epoch" in output
        assert errors == f"continue it with: pyrite train digits --out {tmp_path} --resume\n"
    else:
        assert process.returncode == -signal.SIGKILL

    done = pyrite("train", "digits", "--out", tmp_path, "--resume")

    assert done.returncode == 0, done.stderr
    assert "continuing after" in done.stdout
    resumed = load_safetensors(tmp_path / "model.safetensors")
    whole = load_safetensors(run_directory / "model.safetensors")
    assert resumed.keys() == whole.keys()
    assert all(np.array_equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.parametrize("resume", [False, True])
def test_a_directory_that_cannot_be_one_is_one_line(
    command: Any, tmp_path: Path, resume: bool
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    flag = ["--resume"] if resume else []
    done = command("train", "digits", "--out", file / "run", *flag)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert str(file / "run") in done.stderr


def test_there_is_nothing_to_resume_in_an_empty_directory(command: Any, tmp_path: Path) -> None:
    done = command("train", "digits", "--out", tmp_path, "--resume")
    assert done.returncode == 1
    assert "requires a readable run.json" in done.stderr


def test_a_terminal_that_cannot_draw_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(train._view(plain=False, as_json=False), PlainView)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert not isinstance(train._view(plain=False, as_json=False), PlainView)
