"""A run followed in lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from pyrite.train import Failed, Logged, PlainView, Reading, RunEnded, RunStarted
from pyrite.train.event import EpochEnded
from pyrite.train.view.watch.lines import follow
from pyrite.train.view.watch.machine import MachineWatch


def test_it_waits_for_a_run_and_follows_it_to_its_end(
    tmp_path: Path, write_run: Any, run_of: Any
) -> None:
    told, stream = run_of(2), io.StringIO()
    parts = iter([told[:5], told[5:9], told[9:]])

    def wait(seconds: float) -> None:
        write_run(tmp_path, next(parts))

    assert follow(tmp_path / "events.jsonl", PlainView(stream), wait)
    lines = stream.getvalue().splitlines()
    assert lines[0] == f"waiting for {tmp_path / 'events.jsonl'}"
    assert lines[1].startswith("training on cpu")
    assert [line[:9] for line in lines[2:]] == ["epoch 1/2", "epoch 2/2", "completed"]


def test_a_process_that_is_gone_ends_it(
    finished: Path, run_of: Any, tmp_path: Path, write_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed").mkdir()
    path = write_run(tmp_path / "killed", run_of(2)[:5])
    monkeypatch.setattr(MachineWatch, "is_alive", property(lambda self: False))
    stream = io.StringIO()
    assert not follow(path, PlainView(stream), lambda seconds: None)
    assert stream.getvalue().endswith("the process of the run has ended without a word\n")


def test_an_error_ends_it_and_a_run_of_no_time_has_no_speed(tmp_path: Path, write_run: Any) -> None:
    began = (1.0, RunStarted("cpu", 0, 1, 1, None))
    for last, words in (
        (Failed("ValueError: broken"), "failed: ValueError: broken"),
        (RunEnded("completed", 0.0, 5), "completed: 5 steps in 0.0 s"),
    ):
        stream, folder = io.StringIO(), tmp_path / words[:6]
        folder.mkdir()
        path = write_run(folder, [began, (2.0, last)])
        assert follow(path, PlainView(stream), lambda seconds: None)
        assert stream.getvalue().splitlines()[1:] == [words]


def test_nothing_in_a_file_commands_the_terminal(tmp_path: Path, write_run: Any) -> None:
    bad, stream = "\x1b[2J\x9b\u202e", io.StringIO()
    path = write_run(
        tmp_path,
        [
            (1.0, RunStarted(bad, 0, 1, 1, Path(bad))),
            (2.0, EpochEnded(bad, 1, (Reading(bad, 1.0, bad),), 1.0)),
            (3.0, Logged(bad, bad, bad)),
        ],
    )

    def wait(seconds: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        follow(path, view := PlainView(stream), wait)
    view.close()
    assert {c for c in stream.getvalue() if not c.isprintable()} == {"\n"}
