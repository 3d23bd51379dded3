"""EventTable: a whole file of events, its steps as columns of numbers.

A run may have a million steps.  Their lines are decoded by the thousand into arrays, in less than
half the time of one event each, and a fraction of the memory.  Invariant: what it says is what
`read_events` says; lines that are not as a run writes them are left to `EventReader`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pyrite.opening import open_file
from pyrite.train.event import Resumed, StepEnded
from pyrite.train.event_file import Entry, EventReader, is_void
from pyrite.train.event_json import MALFORMED, NUMBERS
from pyrite.train.event_row import FIELDS, ROW, Columns
from pyrite.train.reading import Better

#: Lines that are decoded together.
_LINES = 2000
#: How the lines of steps begin: rows, and of files from before 23 November 2026.
_STEPS = (ROW, b'{"event": "step_ended"')

Numbers = NDArray[np.float64]


#: What is kept of a step beside its readings.
_FIELDS = ("epoch", "step", "steps", "time", "seconds", "items", "learning_rate", "gradient_norm")


@dataclass(frozen=True)
class Steps:
    """Steps of one split whose readings were new, in order, as columns.

    fields: by the name of the event's field, and the time; NaN for None.
    values: by the metric's name; NaN where a step has no reading of it.
    """

    fields: Mapping[str, Numbers]
    values: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.fields["epoch"])

    @property
    def epochs(self) -> Numbers:
        """How far training was at each step, in epochs: 1.5 is the middle of the second."""
        within = self.fields["step"] / np.maximum(self.fields["steps"], 1)
        return np.asarray(self.fields["epoch"] - 1 + within)

    def select(self, kept: NDArray[np.bool_]) -> Steps:
        """Return the steps for which `kept` (N,) holds."""
        return Steps(
            {name: column[kept] for name, column in self.fields.items()},
            {name: column[kept] for name, column in self.values.items()},
        )


@dataclass
class EventTable:
    """All that a file tells, without what a resumed run voids.

    entries: every event but steps.  steps: by split.  metrics: unit and direction by name.
    skipped: lines that say nothing known.
    """

    entries: list[Entry] = field(default_factory=list)
    steps: dict[str, Steps] = field(default_factory=dict)
    metrics: Mapping[str, tuple[str, Better | None]] = field(default_factory=dict)
    skipped: int = 0


def read_event_table(path: str | PathLike[str], *, steps: bool = True) -> EventTable:
    """Return what a file of events tells; without its steps in a fraction of the time.

    Raises OSError where the file cannot be read.
    """
    builder = _Builder(path)
    with open_file(path) as file:
        for lines in _blocks(file):
            if not steps:
                lines = [line for line in lines if not line.startswith(_STEPS)]
            builder.add(lines)
    return builder.table()


def _blocks(file: BinaryIO) -> Iterator[list[bytes]]:
    while lines := list(islice(file, _LINES)):
        if not lines[-1].endswith(b"\n"):
            lines.pop()  # torn, or being written
        yield lines


#: Steps that were decoded one by one, before they are made columns.
_SINGLE = 2000


@dataclass
class _Split:
    """Steps of one split as they come: blocks of columns, and after them single ones."""

    blocks: list[Steps] = field(default_factory=list)
    single: list[tuple[float, StepEnded]] = field(default_factory=list)

    def add_block(self, steps: Steps) -> None:
        self._gather()
        self.blocks.append(steps)

    def add(self, time: float, event: StepEnded) -> None:
        self.single.append((time, event))
        if len(self.single) == _SINGLE:
            self._gather()

    def joined(self) -> Steps:
        self._gather()
        names = dict.fromkeys(name for block in self.blocks for name in block.values)
        return Steps(
            {
                name: np.concatenate([block.fields[name] for block in self.blocks])
                for name in _FIELDS
            },
            {
                name: np.concatenate([_column(block, name) for block in self.blocks])
                for name in names
            },
        )

    def _gather(self) -> None:
        if self.single:
            self.blocks.append(_of_steps(self.single))
            self.single = []


def _column(block: Steps, name: str) -> Numbers:
    found = block.values.get(name)
    return np.full(len(block), np.nan) if found is None else found


class _Builder:
    def __init__(self, path: str | PathLike[str]) -> None:
        self.reader = EventReader(path)
        self.entries: list[Entry] = []
        self.splits: dict[str, _Split] = {}

    def add(self, lines: Sequence[bytes]) -> None:
        """Take in lines: runs of rows as columns, every other one as an event."""
        first = 0
        for number, line in enumerate(lines):
            if not line.startswith(ROW):
                self._add_rows(lines[first:number])
                self._add_line(line)
                first = number + 1
        self._add_rows(lines[first:])

    def table(self) -> EventTable:
        steps = {name: split.joined() for name, split in self.splits.items()}
        return EventTable(self.entries, steps, self.reader.metrics, self.reader.skipped)

    def _add_rows(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        try:
            told = json.loads(b"[%s]" % b",".join(lines))
            if len(told) != len(lines):
                raise ValueError
            blocks = _blocks_of(told, self.reader.columns)
        except MALFORMED:
            for line in lines:
                self._add_line(line)
            return
        for split, block in blocks:
            self._split(split).add_block(block)

    def _add_line(self, line: bytes) -> None:
        entry = self.reader.decode(line)
        if entry is None:
            return
        event = entry.event
        if isinstance(event, StepEnded):
            self._split(event.split).add(entry.time, event)
            return
        if isinstance(event, Resumed):
            self._void(event)
        self.entries.append(entry)

    def _void(self, resumed: Resumed) -> None:
        self.entries = [entry for entry in self.entries if not is_void(entry.event, resumed)]
        for name, split in self.splits.items():
            steps = split.joined()
            epoch, step = steps.fields["epoch"], steps.fields["step"]
            kept = epoch <= resumed.epoch
            if name == "train":
                kept |= (epoch - 1 == resumed.epoch) & (step <= resumed.step)
            split.blocks = [steps.select(kept)]

    def _split(self, name: str) -> _Split:
        return self.splits.setdefault(name, _Split())


def _blocks_of(told: Sequence[Any], columns: Mapping[int, Columns]) -> list[tuple[str, Steps]]:
    """A block of each split, as long as all rows are as a run writes them; else some error."""
    groups: dict[int, list[Any]] = {}
    for one in told:
        if one.keys() != _KEYS or type(one["columns"]) is not int:
            raise ValueError
        groups.setdefault(one["columns"], []).append(one)
    blocks = [_block(columns[number], group) for number, group in groups.items()]
    if len({split for split, _ in blocks}) < len(blocks):
        raise ValueError  # a metric came or went: one by one, in their order
    return blocks


def _block(columns: Columns, told: Sequence[Any]) -> tuple[str, Steps]:
    if columns.fields != FIELDS or any(type(one["row"]) is not list for one in told):
        raise ValueError
    turned = list(zip(*(one["row"] for one in told), strict=True))
    if len(turned) != len(FIELDS) + len(columns.readings):
        raise ValueError
    named = dict(zip(FIELDS, turned, strict=False))
    named["time"] = tuple(one["time"] for one in told)
    fields = {name: _numbers(named[name], _KINDS.get(name, _NUMBER)) for name in named}
    fields["steps"] = np.full(len(told), columns.steps, np.float64)
    readings = zip(columns.readings, turned[len(FIELDS) :], strict=True)
    return columns.split, Steps(
        {name: fields[name] for name in _FIELDS},
        {name: _numbers(values, _NUMBER) for name, values in readings},
    )


#: The keys of a row's line, and of which kinds the fields are that are no plain numbers.
_KEYS = {"event", "time", "columns", "row"}
_NUMBER = frozenset({int, float, str})
_OPTIONAL = _NUMBER | {type(None)}
_WHOLE = frozenset({int})
_KINDS = {
    "epoch": _WHOLE,
    "step": _WHOLE,
    "items": _WHOLE,
    "learning_rate": _OPTIONAL,
    "gradient_norm": _OPTIONAL,
}


def _numbers(values: Sequence[Any], kinds: frozenset[type]) -> Numbers:
    """Return a column; raise an error where a value is of another kind than a run writes."""
    found = set(map(type, values))
    if not found <= kinds:
        raise TypeError
    if str in found:
        values = [NUMBERS[value] if type(value) is str else value for value in values]
    column = np.array(values, np.float64)
    # Few columns have anything that large, and so a reason to look at each value.
    is_large = int in found and bool((np.abs(column) >= 2**53).any())
    if is_large and any(type(value) is int and abs(value) > 2**53 for value in values):
        raise ValueError
    return column


def _of_steps(told: Sequence[tuple[float, StepEnded]]) -> Steps:
    """Return columns of steps that were decoded one by one; readings may come and go."""
    rows = [{"time": time, **vars(event)} for time, event in told]
    names = dict.fromkeys(reading.name for _, event in told for reading in event.readings)
    readings = [{each.name: each.value for each in event.readings} for _, event in told]
    return Steps(
        {name: np.array([row[name] for row in rows], np.float64) for name in _FIELDS},
        {name: np.array([row.get(name, math.nan) for row in readings]) for name in names},
    )
