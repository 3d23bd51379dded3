"""RecordedRun: a run as its folder tells it, whole, damaged or still going on."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from pyrite.errors import TrainError
from pyrite.train.directory import RunDirectory
from pyrite.train.event import EpochEnded, RunStarted
from pyrite.train.event_table import EventTable, read_event_table
from pyrite.train.history import Goal, History, SplitResult
from pyrite.train.reading import Reading
from pyrite.train.view.watch.machine import MachineWatch
from pyrite.train.view.watch.run import RunState

Setting = str | int | float

#: How deep runs may lie below the folder that is searched.
DEPTH = 5
#: Folders that hold no runs, though they may hold files of that name.
_SKIPPED = {"checkpoints", "samples", "node_modules", "__pycache__"}


@dataclass(frozen=True)
class RecordedRun:
    """What the files of a run say.

    manifest: run.json, empty where it cannot be read.  notes: what could not be read, in words.
    """

    path: Path
    manifest: Mapping[str, Any] = field(default_factory=dict)
    table: EventTable = field(default_factory=EventTable)
    notes: tuple[str, ...] = ()

    @cached_property
    def state(self) -> RunState:
        """All events but steps, taken in."""
        state = RunState()
        for entry in self.table.entries:
            state.take(entry)
        return state

    @cached_property
    def status(self) -> str:
        """How the run ended; or "running", "paused", "killed", or "unknown" of another machine."""
        state = self.state
        if state.started is None:
            return "unknown"
        if state.is_over:
            return state.status
        alive = MachineWatch(state.started, state.began).is_alive
        if alive is None:
            return "unknown"
        return state.status if alive else "killed"

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970: in the first of its processes."""
        told = (entry.time for entry in self.table.entries if isinstance(entry.event, RunStarted))
        return next(told, self.state.began)

    @cached_property
    def history(self) -> History:
        """The results of all epochs."""
        ended = (entry.event for entry in self.table.entries)
        return History(tuple(SplitResult.of(e) for e in ended if isinstance(e, EpochEnded)))

    @property
    def seconds(self) -> float:
        """How long it went on, without pauses."""
        return self.state.seconds(self.state.heard)

    @property
    def epochs_done(self) -> int:
        """The number of the last epoch that was trained to its end."""
        done = (result.epoch for result in self.history if result.split == "train")
        return max(done, default=0)

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The arguments with which the caller began it, by name, with dots where they nest."""
        arguments = self.manifest.get("arguments")
        return dict(_flat(arguments)) if isinstance(arguments, dict) else {}

    def best(self, metric: str, split: str | None = None) -> tuple[int, Reading] | None:
        """Return the best reading of a metric and its epoch: of validation where there is one.

        If the metric knows no better, it is the latest; None where it was not read.
        """
        history = self.history
        for each in [split] if split else [s for s in ("valid", "train") if s in history.splits()]:
            readings = history.readings(metric, each)
            if readings and readings[-1][1].better is not None:
                return Goal(metric, each).best(history)
            if readings:
                return readings[-1]
        return None

    def metrics(self) -> list[str]:
        """Return the names of the metrics of its epochs."""
        return list(dict.fromkeys(r.name for result in self.history for r in result.readings))


def read_run(path: str | PathLike[str], *, steps: bool = True) -> RecordedRun:
    """Return what the files of a run say; what cannot be read is a note of it.

    steps: False leaves out single steps, and reads a long run in a moment.
    """
    directory, notes = RunDirectory(path), []
    manifest: dict[str, Any] = {}
    try:
        manifest = directory.read_manifest()
    except TrainError as error:
        notes.append(str(error))
    table = EventTable()
    try:
        table = read_event_table(directory.events, steps=steps)
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        notes.append(f"events.jsonl cannot be read: {reason}")
    if table.skipped:
        lines = "1 line" if table.skipped == 1 else f"{table.skipped} lines"
        notes.append(f"{lines} of events.jsonl could not be understood, and were left out")
    if not notes and not table.entries and not table.steps:
        notes.append("events.jsonl is empty")
    return RecordedRun(directory.path, manifest, table, tuple(notes))


def find_runs(place: str | PathLike[str]) -> Iterator[Path]:
    """Give the folders of runs at a place and below it, in order of their names."""
    top = Path(place)
    for folder, folders, files in os.walk(top):
        path = Path(folder)
        if "events.jsonl" in files or "run.json" in files:
            yield path
            folders.clear()
        elif len(path.parts) - len(top.parts) >= DEPTH:
            folders.clear()
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith("."))


def _flat(
    arguments: Mapping[Any, Any], prefix: str = ""
) -> Iterator[tuple[str, str | int | float]]:
    for name, value in arguments.items():
        if isinstance(value, dict) and len(prefix) < 200:
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", str(value)


def differing(runs: list[RecordedRun]) -> list[str]:
    """Return the names of the settings that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if len({_same(run.settings.get(name)) for run in runs}) > 1]


def _same(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value
