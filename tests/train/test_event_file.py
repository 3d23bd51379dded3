"""events.jsonl: whole whenever it is read, whatever ended the run, whoever wrote into it."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.errors import TrainError
from pyrite.train import RunDirectory
from pyrite.train.event import (
    EVENTS,
    CheckpointDamaged,
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Failed,
    Interrupted,
    Logged,
    Paused,
    PauseEnded,
    Resumed,
    RunEnded,
    RunStarted,
    Sampled,
    StepEnded,
    StoppedEarly,
    StopRequested,
)
from pyrite.train.event_file import EventReader, EventWriter, read_events
from pyrite.train.reading import Reading
from pyrite.train.sample import ImageSample, TableSample, TextSample

LOSS = Reading("Loss", 0.25, "", "lower")
SPEED = Reading("Speed [bold]\x1b[31m", 50.0, "steps/s")
ONE_OF_EACH: list[Event] = [
    RunStarted("cpu", 2**63, 5, 10, Path("runs/ä b"), 3),
    Resumed(Path("c"), 1, 0),
    CheckpointDamaged(Path("c"), "torn\nin two"),
    EpochStarted(2, 5, 0, 9),
    StepEnded("train", 2, 1, 9, (LOSS, SPEED), 0.5, 0.1, 32, 1e-3, math.inf),
    Sampled("train", 2, 9, ImageSample.of("x", np.eye(3))),
    Sampled("valid", 2, 1, TextSample("x", "\x1b[31m<b>\n")),
    Sampled("valid", 2, 1, TableSample("x", ["a", "b"], [["c", 1.5], [None, 2]])),
    EpochEnded("train", 2, (Reading("Loss", math.nan, "", "lower"), SPEED), 1.0),
    EpochEnded("valid", 2, (Reading("Loss", math.inf, "", "lower"),), 1.0),
    EpochEnded("test", 2, (Reading("Loss", -math.inf, "", "lower"),), 1.0),
    Checkpointed(Path("c"), 2, 0),
    Paused(2, 0),
    PauseEnded(1.5),
    Logged("warning", "UserWarning", "\x1b[31mred"),
    StopRequested("Ctrl-C"),
    Interrupted("Ctrl-C", 3, 1, None),
    StoppedEarly(2, "no better"),
    RunEnded("completed", 3.5, 18, {"sort": 2}),
    Failed("ValueError: \x1b[31m <b>"),
]


def written(path: Path, events: list[Event]) -> list[str]:
    with EventWriter(path) as writer:
        for event in events:
            writer.append(event)
    return path.read_text("utf-8", errors="replace").splitlines()


def read(path: Path) -> list[Event]:
    return [entry.event for entry in read_events(path)]


def step(epoch: int, number: int, split: str = "train", loss: float = 0.5) -> StepEnded:
    return StepEnded(split, epoch, number, 4, (Reading("Loss", loss, "", "lower"),), 0.1)


def test_every_kind_of_event_comes_back_as_it_was(tmp_path: Path) -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(EVENTS) == set(Event.__subclasses__())
    written(tmp_path / "e", ONE_OF_EACH)
    reader = EventReader(tmp_path / "e")
    assert repr([entry.event for entry in reader.new()]) == repr(ONE_OF_EACH)  # NaN != NaN
    assert reader.skipped == 0


def test_lines_are_json_that_any_reader_takes(tmp_path: Path) -> None:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    lines = written(tmp_path / "e", ONE_OF_EACH)
    told = [json.loads(line, parse_constant=refuse) for line in lines]
    assert all(set(line) >= {"event", "time"} for line in told)
    assert [line["values"] for line in told if "values" in line] == []
    assert told[4]["metrics"]["Loss"] == {"unit": "", "better": "lower"}
    assert [line["event"] for line in told[4:7]] == ["metrics", "columns", "step_ended"]
    named = dict(zip(told[5]["fields"] + told[5]["readings"], told[6]["row"], strict=True))
    assert told[6]["columns"] == told[5]["number"]
    assert (named["Loss"], named["items"], named["gradient_norm"]) == (0.25, 32, "Infinity")
    spelled = [line["readings"]["Loss"] for line in told if line["event"] == "epoch_ended"]
    assert spelled == ["NaN", "Infinity", "-Infinity"]


def test_the_image_of_a_sample_lies_beside_the_file(tmp_path: Path) -> None:
    sample = ImageSample.of("x", np.eye(3))
    written(tmp_path / "events.jsonl", [Sampled("valid", 1, 1, sample)])
    assert (tmp_path / "samples" / sample.file).read_bytes() == sample.png
    with EventWriter(tmp_path / "events.jsonl") as writer:
        writer.restart()
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_cannot_be_written_ends_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "samples").write_text("in the way")
    told = Sampled("valid", 1, 1, ImageSample.of("x", np.eye(3)))
    written(tmp_path / "events.jsonl", [told, step(1, 1)])
    assert read(tmp_path / "events.jsonl") == [told, step(1, 1)]
    assert "cannot be written" in caplog.text


def test_a_step_is_written_when_its_readings_are_new(tmp_path: Path) -> None:
    first, second = (Reading("Loss", 1.0),), (Reading("Loss", 1.0),)
    steps: list[Event] = [
        StepEnded("train", 1, n, 5, readings, 0.1)
        for n, readings in enumerate([(), first, first, second, second], start=1)
    ]
    written(tmp_path / "e", steps)
    assert read(tmp_path / "e") == [steps[1], steps[3]]


def test_what_a_resumed_run_does_again_is_void(tmp_path: Path) -> None:
    kept: list[Event] = [
        EpochStarted(1, 3, 0, 4), step(1, 2), step(1, 4), step(1, 1, "valid"),
        EpochEnded("train", 1, (), 1.0), EpochEnded("valid", 1, (), 1.0),
        Checkpointed(Path("a"), 1, 0), EpochStarted(2, 3, 0, 4), step(2, 2),
        Checkpointed(Path("b"), 1, 2), Sampled("train", 2, 1, TextSample("x", "y")),
        Sampled("valid", 1, 9, TextSample("x", "y")),
    ]  # fmt: skip
    void: list[Event] = [
        step(2, 3), step(2, 4), EpochEnded("train", 2, (), 1.0), step(2, 1, "valid"),
        EpochEnded("valid", 2, (), 1.0), Checkpointed(Path("c"), 2, 0), step(3, 1),
        EpochEnded("test", 2, (), 1.0), Sampled("train", 2, 3, TextSample("x", "y")),
        Sampled("valid", 2, 1, TextSample("x", "y")),
    ]  # fmt: skip
    resumed = Resumed(Path("b"), 1, 2)
    written(tmp_path / "e", [*kept, *void, resumed, step(2, 3)])
    assert read(tmp_path / "e") == [*kept, resumed, step(2, 3)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "step_ended", "time": 1, "split": "train"', b"", b"\x00\xff", b"[]", b"null",
        b'{"event": "step_ended"}', b'{"event": "dance", "time": 1}',
        b'{"event": "stop_requested", "time": "soon", "reason": "x"}',
        b'{"event": "stop_requested", "time": 1, "reason": ["x"]}',
        b'{"event": "checkpointed", "time": 1, "path": 7, "epoch": 1, "step": 1}',
        b'{"event": "checkpointed", "time": 1, "path": "p", "epoch": true, "step": 1}',
        b'{"event": "metrics", "time": 1, "metrics": {"Loss": {"unit": 3, "better": "up"}}}',
        b"[" * 100_000,
        b'{"event": "epoch_ended", "split": "x", "epoch": 1, "seconds": 1, "readings": {"L": "1"}}',
        b'{"event": "columns", "number": 1, "split": "x", "steps": 1, "fields": [], "readings": 1}',
        b'{"event": "columns", "number": 1, "split": "x", "steps": 1, "fields": ["a", "a"], '
        b'"readings": []}',
        b'{"event": "columns", "number": true, "split": "x", "steps": 1, "fields": [], '
        b'"readings": []}',
        b'{"event":"step_ended","time":1,"columns":-1,"row":[1,1,0.1,0,0,null,null,0.5]}',
        b'{"event":"step_ended","time":1,"columns":[],"row":[1,1,0.1,0,0,null,null,0.5]}',
    ],
)  # fmt: skip
def test_a_line_that_says_nothing_known_is_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "e"
    written(path, [step(1, 1)])
    path.write_bytes(path.read_bytes() + line + b"\n")
    written(path, [step(1, 2)])
    reader = EventReader(path)
    assert [entry.event for entry in reader.new()] == [step(1, 1), step(1, 2)]
    assert reader.skipped == bool(line)


def test_a_torn_last_line_is_read_when_it_is_whole_and_closed_by_the_next_writer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "e"
    written(path, [step(1, 1), step(1, 2)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    reader = EventReader(path)
    assert [entry.event for entry in reader.new()] == [step(1, 1)]
    path.write_bytes(whole)
    assert [entry.event for entry in reader.new()] == [step(1, 2)]
    assert list(reader.new()) == []

    path.write_bytes(whole[:-9])
    written(path, [step(1, 3)])
    assert read(path) == [step(1, 1), step(1, 3)]


def test_a_reader_begins_anew_with_the_file_of_another_run(tmp_path: Path) -> None:
    path = tmp_path / "e"
    written(path, [step(1, 1)])
    reader = EventReader(path)
    assert len(list(reader.new())) == 1
    with EventWriter(path) as writer:
        writer.restart()
        for number in range(1, 4):
            writer.append(step(1, number))
    assert [entry.event for entry in reader.new()] == [step(1, 1), step(1, 2), step(1, 3)]


def test_a_disk_that_is_full_is_logged_once_and_the_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2])

    write, path = os.write, tmp_path / "e"
    with EventWriter(path) as writer:
        writer.append(step(1, 1))
        monkeypatch.setattr(os, "write", half)
        writer.append(step(1, 2))
        writer.append(step(1, 3))
        monkeypatch.undo()
        writer.append(step(1, 4))
    (record,) = caplog.records
    assert "cannot be written, the training goes on: No space left" in record.message
    assert read(path) == [step(1, 1), step(1, 4)]


def test_what_a_full_disk_has_cut_off_is_told_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "e"
    with EventWriter(path) as writer:
        monkeypatch.setattr(os, "write", full)
        writer.append(step(1, 1))  # the lines before it say what its numbers mean
        monkeypatch.undo()
        writer.append(step(1, 2))
    assert read(path) == [step(1, 2)]


METRICS = {"Loss": 0.3015113445777636, "Accuracy": 0.8125, "F1": 0.79032258064, "AUROC": 0.913,
           "Perplexity": 1.35188}  # fmt: skip


def test_a_million_steps_of_five_metrics_take_at_most_200_mb(tmp_path: Path) -> None:
    """As with read_every=1, in epochs of a hundred steps, a fifth of them of validation."""
    path = tmp_path / "e"
    with EventWriter(path) as writer:
        for number in range(500):
            epoch, at = number // 100 + 1, number % 100 + 1
            split, rate = ("train", 0.001 / (1 + number)) if at <= 80 else ("valid", None)
            readings = tuple(Reading(name, value / (1 + number)) for name, value in METRICS.items())
            norm = None if rate is None else 1.2345678901 / rate
            times = 0.00123456789 * (1 + at), 0.000123456
            writer.append(StepEnded(split, epoch, at, 80, readings, *times, 64, rate, norm))
    assert path.stat().st_size <= 200 * 500


def test_a_row_tells_any_two_float32_apart_and_integers_whole(tmp_path: Path) -> None:
    values = [float(np.float32(1) / np.float32(n)) for n in range(1, 200)] + [2**53, -0.0, 1e-38]
    readings = tuple(Reading(str(n), value) for n, value in enumerate(values))
    written(tmp_path / "e", [StepEnded("train", 1, 1, 1, readings, 0.25, items=2**60)])
    (event,) = read(tmp_path / "e")
    assert isinstance(event, StepEnded)
    assert event.items == 2**60
    assert [np.float32(reading.value) for reading in event.readings] == [
        np.float32(value) for value in values
    ]


def test_columns_are_told_once_and_again_where_a_step_has_others(tmp_path: Path) -> None:
    speed = (LOSS, SPEED)
    steps = [step(1, 1), step(1, 2), step(1, 1, "valid"), step(2, 1), step(2, 1, "valid"),
             StepEnded("train", 2, 2, 4, speed, 0.1), step(2, 3)]  # fmt: skip
    lines = [json.loads(line) for line in written(tmp_path / "e", [*steps])]
    assert [line["split"] for line in lines if line["event"] == "columns"] == [
        "train", "valid", "train",
    ]  # fmt: skip
    assert read(tmp_path / "e") == steps


def test_rows_whose_columns_are_lost_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "e"
    first, second = step(1, 1), StepEnded("train", 1, 2, 4, (Reading("Other", 1.0),), 0.1)
    lines = written(path, [first, second])
    assert [json.loads(line)["event"] for line in lines[2:]] == [
        "step_ended", "metrics", "columns", "step_ended",
    ]  # fmt: skip
    path.write_text("\n".join([*lines[:4], *lines[5:]]) + "\n")
    reader = EventReader(path)
    assert [entry.event for entry in reader.new()] == [first]
    assert reader.skipped == 1


def test_fields_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "e"
    columns = {"event": "columns", "time": 1, "number": 1, "split": "train", "steps": 4,
               "fields": ["epoch", "mood", "step", "seconds"], "readings": ["Loss"]}  # fmt: skip
    row = {"event": "step_ended", "time": 1, "columns": 1, "row": [1, "good", 2, 0.1, 0.5]}
    path.write_text(json.dumps(columns) + "\n" + json.dumps(row) + "\n")
    assert read(path) == [StepEnded("train", 1, 2, 4, (Reading("Loss", 0.5),), 0.1)]


def test_the_history_is_that_of_the_events(task, tmp_path: Path) -> None:
    result = task.fit(task.learner(directory=tmp_path))
    assert RunDirectory(tmp_path).read_history() == result.history


def test_a_run_that_is_resumed_reads_as_one_that_was_never_interrupted(
    task, tmp_path: Path
) -> None:
    def told(path: Path) -> list[Any]:
        events = read(path / "events.jsonl")
        steps = [e for e in events if isinstance(e, StepEnded)]
        ends = [e for e in events if isinstance(e, EpochEnded)]
        return [(e.split, e.epoch, e.step, e.readings) for e in steps] + [
            (e.split, e.epoch, e.readings) for e in ends
        ]

    task.fit(task.learner(directory=tmp_path / "whole"))
    for call in (2, 3, 7, 8, 13):
        there = tmp_path / str(call)
        task.interrupted_at(call, there)
        task.fit(task.learner(directory=there), resume=True)
        assert told(there) == told(tmp_path / "whole")


def test_a_test_after_the_training_stands_in_the_file(task, tmp_path: Path) -> None:
    learner = task.learner(directory=tmp_path)
    task.fit(learner)
    readings = learner.evaluate(task.valid)
    last = RunDirectory(tmp_path).read_history().results[-1]
    assert (last.split, last.epoch, last.readings) == ("test", 3, readings)


KILLED = """
import os, signal, sys
from pyrite.train.event_file import EventWriter
from pyrite.train.event import StepEnded
from pyrite.train.reading import Reading
from pyrite.train.sample import ImageSample, TableSample, TextSample
with EventWriter(sys.argv[1]) as writer:
    for number in range(1, 1001):
        writer.append(StepEnded("train", 1, number, 1000, (Reading("Loss", 1 / number),), 0.1))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_line_that_it_has_written(tmp_path: Path) -> None:
    path = tmp_path / "e"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, path], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(read(path)) == 1000


@pytest.mark.parametrize("text", ["", "nothing of a run\n"])
def test_a_file_without_a_run_is_one_clear_error(tmp_path: Path, text: str) -> None:
    directory = RunDirectory(tmp_path)
    with pytest.raises(TrainError, match=r"requires a readable events\.jsonl, got .*No such file"):
        directory.read_history()
    directory.events.write_text(text)
    with pytest.raises(TrainError, match="no line of it is an event; name a directory that"):
        directory.read_history()
