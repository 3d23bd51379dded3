"""events.jsonl: what a run tells, appended as it happens, one JSON object a line.

Each line has ``event``, the kind in snake case; ``time``, in seconds since 1970; and the fields of
the event's class, `pyrite.train.event`.  docs/guide/runs.md lists them.  Three rules make the file
one that can be read at any moment, from anywhere:

- A line is appended by one write.  A line that is torn, or that says nothing known, is skipped.
- Readings are numbers by name; a line ``metrics`` has told their units before.  JSON has no number
  for NaN and infinities, so these are the strings "NaN", "Infinity" and "-Infinity".
- A line ``resumed`` voids the lines before it that tell of later steps than its own.

Of the steps, those are written whose readings are new: one in ``read_every``.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Self, get_type_hints

from pyrite.opening import open_file, regular
from pyrite.train.event import (
    EVENTS,
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Resumed,
    Sampled,
    StepEnded,
)
from pyrite.train.reading import Better, Reading
from pyrite.train.sample import ImageSample, Sample, sample_from_json, sample_to_json
from pyrite.train.sample_folder import SampleFolder

logger = logging.getLogger("pyrite.train")

_UNKNOWN = ("", None)

#: What decoding a line raises that no run wrote.
MALFORMED = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


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
        if isinstance(event, Sampled):
            self._store(event.sample)
        lines.append({"event": _KIND[type(event)], "time": now, **_encoded(event)})
        self._write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())

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

    def _write(self, lines: bytes) -> None:
        try:
            if self._descriptor is None:
                self._open()
            assert self._descriptor is not None
            left = b"\n" + lines if self._is_torn else lines
            self._is_torn = True
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._is_torn = self._failed = False
        except OSError as error:
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
        """Return what a line says; None where it says nothing known, or tells of metrics."""
        try:
            told = json.loads(line)
            if told["event"] == "metrics":
                self.metrics.update(_metrics(told["metrics"]))
                return None
            kind = _EVENT[told["event"]]
            return Entry(_number(told["time"]), self._decoded(kind, told))
        except MALFORMED:
            self.skipped += bool(line.strip())
            return None

    def _decoded(self, kind: type[Event], told: Mapping[str, Any]) -> Event:
        given = {}
        for name, decode in _DECODERS[kind].items():
            if name == "readings":
                given[name] = self._readings(told[name])
            elif name in told:
                given[name] = decode(told[name])
        return kind(**given)

    def _readings(self, values: Mapping[str, Any]) -> tuple[Reading, ...]:
        return tuple(
            Reading(name, _number(value), *self.metrics.get(name, _UNKNOWN))
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


# ---- one event as JSON, and back ----


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_KIND = {kind: _snake(kind.__name__) for kind in EVENTS}
_EVENT = {name: kind for kind, name in _KIND.items()}


def _encoded(event: Event) -> dict[str, Any]:
    return {field.name: _json(getattr(event, field.name)) for field in fields(event)}


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _SPELLING[str(value)]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return {reading.name: _json(reading.value) for reading in value}
    if isinstance(value, Sample):
        return sample_to_json(value)
    return dict(value) if isinstance(value, Mapping) else value


_SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NUMBERS = {spelled: float(number) for number, spelled in _SPELLING.items()}


def _number(told: Any) -> float:
    if isinstance(told, str):
        return _NUMBERS[told]
    if type(told) is float:  # most numbers of most lines
        return told
    return float(_whole_or_not(told))


def _of(*kinds: type) -> Callable[[Any], Any]:
    """A decoder that refuses what is of no such type; a bool is no number."""

    def decode(told: Any) -> Any:
        if type(told) not in kinds:
            raise TypeError(told)
        return told

    return decode


_whole_or_not = _of(float, int)


def _whole(told: Any) -> int:
    """A count or a seed; what is larger than any would overflow in whoever computes with it."""
    number: int = _of(int)(told)
    if not -(2**64) < number < 2**64:
        raise ValueError(told)
    return number


def _optional_path(told: Any) -> Path | None:
    return None if told is None else Path(_of(str)(told))


def _optional_number(told: Any) -> float | None:
    return None if told is None else _number(told)


def _counts(told: Any) -> dict[str, int]:
    return {_of(str)(name): _whole(count) for name, count in _of(dict)(told).items()}


def _metrics(told: Any) -> dict[str, tuple[str, Better | None]]:
    directions: dict[Any, Better | None] = {"lower": "lower", "higher": "higher", None: None}
    return {name: (_of(str)(of["unit"]), directions[of["better"]]) for name, of in told.items()}


def _decoder(hint: Any) -> Callable[[Any], Any]:
    if hint is int:
        return _whole
    if hint is float:
        return _number
    if hint == float | None:
        return _optional_number
    if hint == Path | None or hint is Path:
        return _optional_path
    if hint == Sample:
        return sample_from_json
    return _counts if hint == Mapping[str, int] else _of(str)


_DECODERS = {
    kind: {name: _decoder(hint) for name, hint in get_type_hints(kind).items()} for kind in EVENTS
}
