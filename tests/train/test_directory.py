"""A run's folder belongs to one run at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyrite.errors import TrainError
from pyrite.train import RunDirectory

pytest.importorskip("fcntl")

HOLDER = """
import sys, time
from pyrite.train import RunDirectory
with RunDirectory(sys.argv[1]).held():
    print("held", flush=True)
    time.sleep(600)
"""


def test_no_two_processes_train_in_one_folder_until_the_first_is_killed(
    task: Any, tmp_path: Path
) -> None:
    task.interrupted_at(3, tmp_path)
    before = (tmp_path / "events.jsonl").read_bytes()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TrainError, match="in which no other run trains, got"):
            task.fit(task.learner(directory=tmp_path), resume=True)
        with pytest.raises(TrainError, match="in which no other run trains"):
            RunDirectory(tmp_path).clear()
        assert (tmp_path / "events.jsonl").read_bytes() == before
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert task.fit(task.learner(directory=tmp_path), resume=True).outcome == "completed"


def test_a_file_system_without_locks_keeps_nobody_out(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    with RunDirectory(tmp_path).held(), RunDirectory(tmp_path).held():
        assert task.fit(task.learner(directory=tmp_path)).outcome == "completed"
