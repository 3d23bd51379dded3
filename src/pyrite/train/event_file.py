"""events.jsonl: what a run tells, appended as it happens, one JSON object a line.

Each line has ``event``, the kind in snake case; ``time``, in seconds since 1970; and the fields of
the event's class, `pyrite.train.event`; of a step as a row, `pyrite.train.event_row`.
docs/guide/runs.md lists them.  Three rules make the file one that can be read at any moment, from
anywhere:

- A line is appended by one write.  A line that is torn, or that says nothing known, is skipped.
- Readings are numbers by name; a line ``metrics`` has told their units before.  JSON has no number
  for NaN and infinities, so these are the strings "NaN", "Infinity" and "-Infinity".
- A line ``resumed`` voids the lines before it that tell of later steps than its own.

Steps are written whose readings are new: one in ``read_every``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

from pyrite.opening import open_file, regular
from pyrite.train.event import (
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Resumed,
    Sampled,
    StepEnded,
)
from pyrite.train.event_json import (
    DECODERS,
    EVENT,
    KIND,
    MALFORMED,
    encoded,
    metric_table,
    number,
    only,
)
from pyrite.train.event_row import Columns, RowWriter, row_line
from pyrite.train.reading import Better, Reading
from pyrite.train.sample import ImageSample, Sample
from pyrite.train.sample_folder import SampleFolder

logger = logging.getLogger("pyrite.train")

_UNKNOWN = ("", None)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event, and when it happened, in seconds since 1970."""

    time: float
    event: Event


class EventWriter:
    """A context that appends events to a file, which is made at the first; None writes nothing.

    A disk that is full, or a folder that is gone, ends no training: it is logged once, and the next
    event tries again.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self.path = None if path is None else Path(path)
        self._samples = SampleFolder(self.path.parent / "samples") if self.path else None
        self._descriptor: int | None = None
        self._is_torn = False
        self._failed = False
        self._lock = threading.Lock()  # what a view tells comes from a thread of its own
        self._known: dict[str, tuple[str, Better | None]] = {}
        self._rows = RowWriter()
        self._written: tuple[Reading, ...] = ()

    def append(self, event: Event) -> None:
        """Write an event, unless it is a step whose readings are those of the last that was."""
        if self.path is None:
            return
        if isinstance(event, StepEnded):
            if event.readings is self._written or not event.readings:
                return
            self._written = event.readings
        with self._lock:
            self._append(event)

    def _append(self, event: Event) -> None:
        now = round(time.time(), 6)
        told = self._new_metrics(getattr(event, "readings", ()))
        lines = [{"event": "metrics", "time": now, "metrics": told}] if told else []
        if isinstance(event, StepEnded):
            self._write(_text(lines) + self._row(event, now))
            return
        if isinstance(event, Sampled):
            self._store(event.sample)
        lines.append({"event": KIND[type(event)], "time": now, **encoded(event)})
        self._write(_text(lines))

    def _row(self, event: StepEnded, now: float) -> str:
        """The line of a step, after that of its columns where they are new."""
        columns = Columns.of(event)
        number, is_new = self._rows.number(columns)
        told = {"event": "columns", "time": now, "number": number, **columns.to_json()}
        return _text([told] if is_new else []) + row_line(now, number, event)

    def _store(self, sample: Sample) -> None:
        """Write the file of an image; where that fails, readers find none, and the run goes on."""
        if self._samples is None or not isinstance(sample, ImageSample):
            return
        try:
            self._samples.store(sample)
        except OSError as error:
            logger.error("%s cannot be written: %s", sample.file, error.strerror)

    def restart(self) -> None:
        """Begin a new file: of a run that is not resumed."""
        self._close()
        self._forget()
        with suppress(OSError):  # what cannot be removed cannot be written either, which is told
            if self._samples is not None:
                self._samples.clear()
            if self.path is not None:
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _new_metrics(self, readings: tuple[Reading, ...]) -> dict[str, Any]:
        found = {reading.name: (reading.unit, reading.better) for reading in readings}
        new = {name: what for name, what in found.items() if self._known.get(name) != what}
        self._known.update(new)
        return {name: {"unit": unit, "better": better} for name, (unit, better) in new.items()}

    def _forget(self) -> None:
        """Tell again what readers need to know beforehand: it may not stand in the file."""
        self._known.clear()
        self._rows.forget()

    def _write(self, lines: str) -> None:
        try:
            if self._descriptor is None:
                self._open()
            assert self._descriptor is not None
            left = (b"\n" if self._is_torn else b"") + lines.encode()
            self._is_torn = True
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._is_torn = self._failed = False
        except OSError as error:
            self._forget()
            if not self._failed:
                logger.error(
                    "%s cannot be written, the training goes on: %s", self.path, error.strerror
                )
            self._failed = True

    def _open(self) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = regular(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        size = os.fstat(self._descriptor).st_size
        if size:
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            self._is_torn = os.read(self._descriptor, 1) != b"\n"


class EventReader:
    """Reads a file of events, while it grows or when it is whole.

    ``skipped`` counts the lines that say nothing known; ``files`` the files of a run that stood at
    the path: a run that begins anew replaces the one before.  ``metrics`` has the unit and the
    direction of each metric by name.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.skipped = 0
        self.files = 0
        self._position = 0
        self._first = b""
        self.metrics: dict[str, tuple[str, Better | None]] = {}
        self.columns: dict[int, Columns] = {}

    def new(self) -> Iterator[Entry]:
        """Give the entries that were appended since the last call, void ones too.

        A last line that has no end yet is left for the next call.  Raises OSError where the file
        cannot be read.
        """
        with open_file(self.path) as file:
            first = file.readline()
            if first != self._first:  # of another run: each line has its time
                self._first, self._position = first, 0
                self.files += 1
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                entry = self.decode(line)
                if entry is not None:
                    yield entry

    def decode(self, line: bytes) -> Entry | None:
        """Return what a line says; None where it says nothing known, or how others are read."""
        try:
            told = json.loads(line)
            match told["event"]:
                case "metrics":
                    self.metrics.update(metric_table(told["metrics"]))
                    return None
                case "columns":
                    self.columns[only(int)(told["number"])] = Columns.from_json(told)
                    return None
                case "step_ended" if "row" in told:
                    columns = self.columns[only(int)(told["columns"])]
                    event: Event = columns.step(told["row"], self.metrics)
                case name:
                    event = self._decoded(EVENT[name], told)
            return Entry(number(told["time"]), event)
        except MALFORMED:
            self.skipped += bool(line.strip())
            return None

    def _decoded(self, kind: type[Event], told: Mapping[str, Any]) -> Event:
        given = {}
        for name, decode in DECODERS[kind].items():
            if name == "readings":
                given[name] = self._readings(told[name])
            elif name in told:
                given[name] = decode(told[name])
        return kind(**given)

    def _readings(self, values: Mapping[str, Any]) -> tuple[Reading, ...]:
        return tuple(
            Reading(name, number(value), *self.metrics.get(name, _UNKNOWN))
            for name, value in values.items()
        )


def read_events(path: str | PathLike[str]) -> list[Entry]:
    """Return all entries of a file but those that a resumed run voids.

    Raises OSError where the file cannot be read.
    """
    entries: list[Entry] = []
    for entry in EventReader(path).new():
        if isinstance(entry.event, Resumed):
            entries = [kept for kept in entries if not is_void(kept.event, entry.event)]
        entries.append(entry)
    return entries


def is_void(event: Event, resumed: Resumed) -> bool:
    """Whether an event tells of steps that a run which resumes does again."""
    reached = (resumed.epoch, resumed.step)
    match event:
        case (
            StepEnded(split="train", epoch=epoch, step=step)
            | Sampled(split="train", epoch=epoch, step=step)
            | EpochStarted(epoch, _, step)
        ):
            return (epoch - 1, step) > reached
        case Checkpointed(_, epoch, step):
            return (epoch, step) > reached
        case StepEnded(epoch=epoch) | Sampled(epoch=epoch) | EpochEnded(epoch=epoch):
            return epoch > resumed.epoch
    return False


def _text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
