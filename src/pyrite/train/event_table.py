"""EventTable: a whole file of events, its steps as columns of numbers.

A run may have a million steps.  Their lines are decoded by the thousand into arrays, in less than
half the time of one event each, and a fraction of the memory.  Invariant: what it says is what
`read_events` says; lines that are not as a run writes them are left to `EventReader`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from typing import Any, BinaryIO, get_type_hints

import numpy as np
from numpy.typing import NDArray

from pyrite.opening import open_file
from pyrite.train.event import Resumed, StepEnded
from pyrite.train.event_file import MALFORMED, Entry, EventReader, is_void
from pyrite.train.reading import Better

#: Lines that are decoded together.
_LINES = 2000
#: How the lines of steps begin, in files that a run has written.
_STEP = b'{"event": "step_ended"'

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
                lines = [line for line in lines if not line.startswith(_STEP)]
            builder.add(lines)
    return builder.table()


def _blocks(file: BinaryIO) -> Iterator[list[bytes]]:
    while lines := list(islice(file, _LINES)):
        if not lines[-1].endswith(b"\n"):
            lines.pop()  # torn, or being written
        yield lines


@dataclass
class _Rows:
    """Steps of one split as they come: blocks of columns."""

    blocks: list[Steps] = field(default_factory=list)

    def joined(self) -> Steps:
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


def _column(block: Steps, name: str) -> Numbers:
    found = block.values.get(name)
    return np.full(len(block), np.nan) if found is None else found


class _Builder:
    def __init__(self, path: str | PathLike[str]) -> None:
        self.reader = EventReader(path)
        self.entries: list[Entry] = []
        self.rows: dict[str, _Rows] = {}

    def add(self, lines: Sequence[bytes]) -> None:
        """Take in lines: runs of steps as columns, every other one as an event."""
        first = 0
        for number, line in enumerate(lines):
            if not line.startswith(_STEP):
                self._add_steps(lines[first:number])
                self._add_line(line)
                first = number + 1
        self._add_steps(lines[first:])

    def table(self) -> EventTable:
        steps = {split: rows.joined() for split, rows in self.rows.items() if rows.blocks}
        return EventTable(self.entries, steps, self.reader.metrics, self.reader.skipped)

    def _add_steps(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        try:
            told = json.loads(b"[%s]" % b",".join(lines))
            if len(told) != len(lines):
                raise ValueError
            blocks = _by_split(told)
        except MALFORMED:
            for line in lines:
                self._add_line(line)
            return
        for split, block in blocks.items():
            self.rows.setdefault(split, _Rows()).blocks.append(block)

    def _add_line(self, line: bytes) -> None:
        entry = self.reader.decode(line)
        if entry is None:
            return
        event = entry.event
        if isinstance(event, StepEnded):
            block = _of_step(entry.time, event)
            self.rows.setdefault(event.split, _Rows()).blocks.append(block)
            return
        if isinstance(event, Resumed):
            self._void(event)
        self.entries.append(entry)

    def _void(self, resumed: Resumed) -> None:
        self.entries = [entry for entry in self.entries if not is_void(entry.event, resumed)]
        for split, rows in self.rows.items():
            if rows.blocks:
                steps = rows.joined()
                epoch, step = steps.fields["epoch"], steps.fields["step"]
                kept = epoch <= resumed.epoch
                if split == "train":
                    kept |= (epoch - 1 == resumed.epoch) & (step <= resumed.step)
                rows.blocks = [steps.select(kept)]


def _by_split(told: Sequence[Any]) -> dict[str, Steps]:
    """Columns of steps, as long as all are as a run writes them; else some error."""
    splits: dict[str, list[Any]] = {}
    for one in told:
        splits.setdefault(one["split"], []).append(one)
    return {split: _columns(ones) for split, ones in splits.items()}


def _columns(told: Sequence[Any]) -> Steps:
    if any(one.keys() != _KINDS.keys() for one in told):
        raise ValueError
    columns = {name: _column_of([one[name] for one in told], _KINDS[name]) for name in _KINDS}
    names = columns["readings"][0].keys()
    if any(each.keys() != names for each in columns["readings"]):
        raise ValueError  # a metric that came or went: one by one
    readings = {name: [each[name] for each in columns["readings"]] for name in names}
    return Steps(
        {name: np.array(columns[name], np.float64) for name in _FIELDS},
        {name: np.array(_column_of(each, _NUMBER), np.float64) for name, each in readings.items()},
    )


def _column_of(values: list[Any], kinds: frozenset[type]) -> list[Any]:
    """The values; an error where one is of another kind, as NaN, which is told as text."""
    found = set(map(type, values))
    if not found <= kinds:
        raise TypeError
    if int in found and any(type(value) is int and abs(value) > 2**53 for value in values):
        raise ValueError
    return values


_NUMBER = frozenset({int, float})
_KIND_OF = {int: frozenset({int}), float: _NUMBER, str: frozenset({str})}
#: The fields of a line, and of which kinds their values are.
_KINDS = {
    "event": frozenset({str}),
    "time": _NUMBER,
    **{
        name: _KIND_OF.get(hint, _NUMBER | {type(None)})
        for name, hint in get_type_hints(StepEnded).items()
    },
    "readings": frozenset({dict}),
}


def _of_step(time: float, event: StepEnded) -> Steps:
    told = {"time": time, **vars(event)}
    return Steps(
        {name: np.array([told[name]], np.float64) for name in _FIELDS},
        {reading.name: np.array([reading.value]) for reading in event.readings},
    )
