"""Events as JSON values, and back: what a line of events.jsonl holds, field by field.

Decoding refuses what no run wrote: a value of another type is an error and no number, a bool is
none either, and what raises is one of `MALFORMED`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from pyrite.train.event import EVENTS, Event
from pyrite.train.reading import Better
from pyrite.train.sample import Sample, sample_from_json, sample_to_json

#: What decoding a line raises that no run wrote.
MALFORMED = (
    ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


KIND = {kind: _snake(kind.__name__) for kind in EVENTS}
EVENT = {name: kind for kind, name in KIND.items()}


def encoded(event: Event) -> dict[str, Any]:
    """Return the fields of an event as JSON values, readings as numbers by name."""
    return {field.name: _json(getattr(event, field.name)) for field in fields(event)}


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else SPELLING[str(value)]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return {reading.name: _json(reading.value) for reading in value}
    if isinstance(value, Sample):
        return sample_to_json(value)
    return dict(value) if isinstance(value, Mapping) else value


#: JSON has no number for these.
SPELLING = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
NUMBERS = {spelled: float(number) for number, spelled in SPELLING.items()}


def number(told: Any) -> float:
    """Return a number, which may be one of the three that are spelled."""
    if isinstance(told, str):
        return NUMBERS[told]
    if type(told) is float:  # most numbers of most lines
        return told
    return float(_whole_or_not(told))


def only(*kinds: type) -> Callable[[Any], Any]:
    """A decoder that refuses what is of no such type; a bool is no number."""

    def decode(told: Any) -> Any:
        if type(told) not in kinds:
            raise TypeError(told)
        return told

    return decode


_whole_or_not = only(float, int)


def whole(told: Any) -> int:
    """A count or a seed; what is larger than any would overflow in whoever computes with it."""
    count: int = only(int)(told)
    if not -(2**64) < count < 2**64:
        raise ValueError(told)
    return count


def _optional_path(told: Any) -> Path | None:
    return None if told is None else Path(only(str)(told))


def _optional_number(told: Any) -> float | None:
    return None if told is None else number(told)


def _counts(told: Any) -> dict[str, int]:
    return {only(str)(name): whole(count) for name, count in only(dict)(told).items()}


def metric_table(told: Any) -> dict[str, tuple[str, Better | None]]:
    """Return unit and direction of metrics by name."""
    directions: dict[Any, Better | None] = {"lower": "lower", "higher": "higher", None: None}
    return {name: (only(str)(of["unit"]), directions[of["better"]]) for name, of in told.items()}


def _decoder(hint: Any) -> Callable[[Any], Any]:
    if hint is int:
        return whole
    if hint is float:
        return number
    if hint == float | None:
        return _optional_number
    if hint == Path | None or hint is Path:
        return _optional_path
    if hint == Sample:
        return sample_from_json
    return _counts if hint == Mapping[str, int] else only(str)


#: By kind and field, what makes a value of JSON's.
DECODERS = {
    kind: {name: _decoder(hint) for name, hint in get_type_hints(kind).items()} for kind in EVENTS
}
