"""Rows: steps in events.jsonl, in a third of the bytes that a name beside each number takes.

A line ``columns`` says once what the numbers of rows mean, and a row names it by its number:

    {"event": "columns", "time": …, "number": 40312, "split": "train", "steps": 937,
     "fields": ["epoch", "step", "seconds", …], "readings": ["Loss", "Accuracy"]}
    {"event":"step_ended","time":1763885700.1234,"columns":40312,"row":[1,10,0.003015,…,0.75]}

A writer counts from a number that it draws.  So a row whose columns are lost, or are those of
another process, is skipped, and never read by the wrong names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyrite.train.event import StepEnded
from pyrite.train.event_json import DECODERS, SPELLING, number, only, whole
from pyrite.train.reading import Better, Reading

#: What a row has before its readings: the fields of a step that `Columns` does not say for all.
FIELDS = tuple(
    each.name for each in fields(StepEnded) if each.name not in ("split", "steps", "readings")
)
#: How a row begins, in files that a run has written.
ROW = b'{"event":"step_ended",'

Metrics = Mapping[str, tuple[str, Better | None]]
"""Unit and direction of each metric, by name."""

_UNKNOWN = ("", None)


@dataclass(frozen=True)
class Columns:
    """What the numbers of a row mean: fields of `StepEnded`, then readings by name."""

    split: str
    steps: int
    readings: tuple[str, ...]
    fields: tuple[str, ...] = FIELDS

    @classmethod
    def of(cls, event: StepEnded) -> Columns:
        """Return the columns in which a step is written."""
        return cls(event.split, event.steps, tuple(reading.name for reading in event.readings))

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Columns:
        """Return what a line of columns says, or raise an error of `MALFORMED`."""
        names = [tuple(map(only(str), only(list)(told[each]))) for each in ("readings", "fields")]
        if any(len(set(each)) < len(each) for each in names):
            raise ValueError(told)
        return cls(only(str)(told["split"]), whole(told["steps"]), *names)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def step(self, row: Any, metrics: Metrics) -> StepEnded:
        """Return the step that a row tells of, or raise an error of `MALFORMED`."""
        values = dict(zip(self.fields, only(list)(row), strict=False))
        readings = zip(self.readings, row[len(self.fields) :], strict=True)
        return StepEnded(
            self.split,
            steps=self.steps,
            readings=tuple(
                Reading(name, number(value), *metrics.get(name, _UNKNOWN))
                for name, value in readings
            ),
            **{name: _DECODERS[name](value) for name, value in values.items() if name in _DECODERS},
        )


_DECODERS = {name: DECODERS[StepEnded][name] for name in FIELDS}


@dataclass
class RowWriter:
    """Gives each set of columns a number, once."""

    _next: int = field(default_factory=lambda: int.from_bytes(os.urandom(2), "big"))
    _numbers: dict[Columns, int] = field(default_factory=dict)

    def number(self, columns: Columns) -> tuple[int, bool]:
        """Return the number of some columns, and whether they have it only now."""
        is_new = columns not in self._numbers
        if is_new:
            self._numbers[columns] = self._next
            self._next += 1
        return self._numbers[columns], is_new

    def forget(self) -> None:
        """Give new numbers: the lines that told the others may not stand in the file."""
        self._numbers.clear()


def row_line(time: float, columns: int, event: StepEnded) -> str:
    """Return the line of a step.

    Readings have nine digits, which tell any two of float32 apart, and seconds six after the point.
    """
    row = [_FORMS[name](getattr(event, name)) for name in FIELDS]
    row += [_nine_digits(reading.value) for reading in event.readings]
    told = f'"time":{time:.4f},"columns":{columns},"row":[{",".join(row)}]'
    return f'{{"event":"step_ended",{told}}}\n'


def _nine_digits(value: float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(int(value))
    return f"{value:.9g}" if math.isfinite(value) else f'"{SPELLING[str(float(value))]}"'


def _microseconds(value: float) -> str:
    return _nine_digits(round(value, 6))


_FORMS: Mapping[str, Callable[[Any], str]] = {
    name: _microseconds if name in ("seconds", "waited") else _nine_digits for name in FIELDS
}
