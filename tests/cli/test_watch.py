"""``pyrite watch`` where it cannot draw: lines, and why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

LINES = "pyrite: log lines instead of the dashboard: this is no terminal\n"


def test_a_finished_run_is_told_in_lines_as_it_was(command: Any, run_directory: Path) -> None:
    done = command("watch", run_directory)
    assert done.returncode == 0
    assert done.stderr == LINES
    first, one, two, *rest = done.stdout.splitlines()
    assert first.startswith("training on numpy: 6,186 parameters, 2 epochs")
    assert one.startswith("epoch 1/2  train: Loss")
    assert two.startswith("epoch 2/2  train: Loss")
    assert rest[0].startswith("completed: ")
    assert command("watch", run_directory, "--plain").stderr == ""


def test_a_killed_run_is_told_to_be_one(pyrite: Any, tmp_path: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    told = {"event": "run_started", "time": 2e9, "device": "cpu", "seed": 0, "epochs": 2,
            "parameters": 1, "directory": None, "lacking": 0, "pid": killed.pid,
            "host": os.uname().nodename}  # fmt: skip
    (tmp_path / "events.jsonl").write_text(json.dumps(told) + "\n")
    program = [sys.executable, "-m", "pyrite", "watch", str(tmp_path), "--plain"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("training on cpu")
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert watching.stdout.read() == "the process of the run has ended without a word\n"
    assert watching.returncode == 1


def test_what_is_no_run_is_one_line(command: Any, run_directory: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, said in (
        ([tmp_path / "file"], "which is no directory"),
        ([run_directory, "--compare", tmp_path], "which holds no events.jsonl"),
    ):
        done = command("watch", *arguments)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert said in line
