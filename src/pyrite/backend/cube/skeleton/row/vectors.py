"""Vectors of a row inside a kernel, and states that take them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrite.kernel import Value


@dataclass(frozen=True, slots=True)
class At:
    """Neighbours in a row: the place of the first, how many, and which exist, None for all.

    The mask is one for each, or one for all of them together.  Of a row in pieces ``piece`` says
    which one they are in, and the first is counted from where that begins.
    """

    first: Value
    width: int
    mask: Value | None = None
    piece: Value | None = None


Make = Callable[[At], Value]
Store = Callable[[At, Value], None]
Join = Callable[[Value, Value], Value]
Values = Sequence[Value]
MakeAll = Callable[[At], Values]
JoinAll = Callable[[Values, Values], Values]


def joined(states: Sequence[Values], join: JoinAll) -> Values:
    """Return what joining all states gives, halves at a time."""
    states = list(states)
    while len(states) > 1:
        half = len(states) // 2
        pairs, rest = zip(states[:half], states[half : 2 * half], strict=True), states[2 * half :]
        states = [*(join(s, t) for s, t in pairs), *rest]
    return states[0]


def apart(states: Values, size: int) -> list[Values]:
    """Return states of so many values each, which stand one after another."""
    return [states[i : i + size] for i in range(0, len(states), size)]
