"""Runs for a dashboard to show: files of events, written with a clock of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyrite.train import (
    EpochEnded,
    EpochStarted,
    Event,
    Reading,
    RunEnded,
    RunStarted,
    StepEnded,
)
from pyrite.train.event_file import EventWriter

BEGAN = 1_700_000_000.0
Told = tuple[float, Event]


def readings(loss: float) -> tuple[Reading, ...]:
    return (Reading("Loss", loss, "", "lower"), Reading("Accuracy", 1 - loss / 4, "%", "higher"))


def epoch(number: int, epochs: int, began: float, steps: int = 8) -> Iterator[Told]:
    """An epoch of `steps` seconds of training and two of validation."""
    yield began, EpochStarted(number, epochs, 0, steps)
    loss = 1.0
    for step in range(1, steps + 1):
        loss = 1 / (number - 1 + step / steps + 0.5)
        told = StepEnded(
            "train", number, step, steps, readings(loss), 1.0, 0.25, 32, 0.01 / number, 1.5
        )
        yield began + step, told
    yield began + steps, EpochEnded("train", number, readings(loss), float(steps))
    yield began + steps + 1, StepEnded("valid", number, 1, 2, readings(loss), 1.0, 0.0, 64)
    yield began + steps + 2, EpochEnded("valid", number, readings(loss * 1.2), 2.0)


def whole_run(epochs: int = 4, path: Path | None = None) -> list[Told]:
    told: list[Told] = [(BEGAN, RunStarted("cpu", 0, epochs, 6186, path, 0))]
    for number in range(1, epochs + 1):
        told += epoch(number, epochs, BEGAN + 10 * (number - 1))
    return [*told, (BEGAN + 10 * epochs, RunEnded("completed", 10.0 * epochs, 8 * epochs))]


def write(folder: Path, told: list[Told]) -> Path:
    """Append events to the file of a folder, each with its time."""
    path = folder / "events.jsonl"
    before = path.read_text().splitlines() if path.exists() else []
    with EventWriter(path) as writer:
        for _, event in told:
            writer.append(event)
    times, lines = iter([time for time, _ in told]), before
    for text in path.read_text().splitlines()[len(before) :]:
        line = json.loads(text)
        if line["event"] not in ("metrics", "columns"):
            line["time"] = next(times)
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def run_of() -> Callable[..., list[Told]]:
    """The events of a run that ended."""
    return whole_run


@pytest.fixture
def epoch_of() -> Callable[..., Iterator[Told]]:
    """The events of an epoch."""
    return epoch


@pytest.fixture
def write_run() -> Callable[[Path, list[Told]], Path]:
    """Writes events into a folder."""
    return write


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a run that ended."""
    write(tmp_path, whole_run())
    return tmp_path
