"""Example calls in the record of an op: what the tests of every backend are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyrite.types import (
    Number,
    Shape,
)


@dataclass(frozen=True, slots=True)
class Spec:
    """A test input: what values an op's example takes, by default from the op's domain."""

    shape: Shape
    kind: Literal["float", "int", "uint", "bool"] = "float"
    low: float | None = None
    high: float | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One example call of an op, from which the test suites of all backends are generated."""

    inputs: tuple[Spec | Number | None, ...]
    attrs: Mapping[str, Any]


def sample(*inputs: Shape | Spec | Number | None, **attrs: Any) -> Sample:
    """Return an example call: a shape stands for floats of that shape in the op's domain.

    ``Spec`` says more: integers, bools, a range, distinct values (where ties would have no
    gradient).
    """
    specs = tuple([Spec(i) if isinstance(i, tuple) else i for i in inputs])
    return Sample(specs, attrs)


def integers(shape: Shape, low: int, high: int) -> Spec:
    """Return the Spec of integers low <= i < high."""
    return Spec(shape, "int", low, high)


def bools(shape: Shape) -> Spec:
    """Return the Spec of bools."""
    return Spec(shape, "bool", 0, 2)


def distinct(shape: Shape, low: float = -2.0, high: float = 2.0) -> Spec:
    """Return the Spec of floats of which no two are close."""
    return Spec(shape, "float", low, high, distinct=True)
