"""Errors are one line and a status; the program starts without what it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyrite as package


def test_the_version_is_that_of_the_package(pyrite: Any) -> None:
    assert pyrite("--version").stdout == f"pyrite {package.__version__}\n"


def test_it_starts_without_torch_and_scipy() -> None:
    program = "import sys, pyrite.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "scipy", "matplotlib", "wgpu", "llvmlite"} & set(loaded)


def test_an_unknown_device_is_one_line(pyrite: Any, tmp_path: Path) -> None:
    done = pyrite("train", "digits", "--device", "gpu9", "--out", tmp_path / "run")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyrite: device requires one of numpy")
    assert "got 'gpu9'; try 'pyrite devices'" in line
    assert not (tmp_path / "run").exists()


def test_wrong_usage_is_status_two(command: Any) -> None:
    for arguments in (["train", "nothing"], ["train", "digits", "--epochs", "0"], ["predict"]):
        done = command(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_traceback_is_shown_to_those_who_ask(pyrite: Any, tmp_path: Path) -> None:
    command = ["predict", tmp_path, tmp_path / "x.png"]
    for done in (pyrite("--traceback", *command), pyrite(*command, PYRITE_FULL_TRACEBACK="1")):
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "TrainError: run directory requires a readable run.json" in done.stderr


def test_devices_are_listed_with_the_default(pyrite: Any) -> None:
    lines = [line.split() for line in pyrite("devices").stdout.splitlines()]
    assert ["numpy", "works", "default"] in lines


def test_the_doctor_names_versions_and_how_to_get_what_is_missing(pyrite: Any) -> None:
    done = pyrite("doctor")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["ok", "pyrite", package.__version__] in lines
    assert ["ok", "numpy", "device", "works"] in lines
