"""A file that grows, is torn, is replaced, or is not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyrite.train.view.watch.follower import Follower


def test_it_waits_for_a_file_and_follows_it(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    follower = Follower(tmp_path / "events.jsonl")
    assert follower.read(1.0)
    assert follower.problem == "No such file or directory"
    told = run_of(3)
    write_run(tmp_path, told[:10])
    assert follower.read(1.0)
    assert follower.problem is None
    assert follower.state.status == "running"
    write_run(tmp_path, told[10:])
    follower.read(1.0)
    assert follower.state.status == "completed"
    assert len(follower.state.curves["train", "Loss"]) == 24


def test_a_torn_line_is_taken_when_it_is_whole(finished: Path) -> None:
    path = finished / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    follower = Follower(path)
    follower.read(1.0)
    assert follower.state.status == "running"
    path.write_bytes(whole)
    follower.read(1.0)
    assert follower.state.status == "completed"
    assert follower.skipped == 0


def test_another_run_in_the_same_place_begins_anew(
    finished: Path, write_run: Any, run_of: Any
) -> None:
    follower = Follower(finished / "events.jsonl")
    follower.read(1.0)
    (finished / "events.jsonl").unlink()
    write_run(finished, [(time + 100, event) for time, event in run_of(2)[:8]])
    follower.read(1.0)
    assert follower.state.status == "running"
    assert len(follower.state.curves["train", "Loss"]) == 6


def test_a_large_file_is_read_in_slices(tmp_path: Path, write_run: Any, run_of: Any) -> None:
    path = write_run(tmp_path, run_of(100))
    follower, slices = Follower(path), 0
    while not follower.read(0.0):
        slices += 1
    assert slices > 3
    assert len(follower.state.curves["train", "Loss"]) == 800
