"""Intervals of integers, and what operations make of them.

Exact bounds of what is computed without overflow; who uses them says what happens where a result
may leave its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Interval(NamedTuple):
    """The integers from ``low`` to ``high``, both included; empty if high < low."""

    low: int
    high: int

    def meet(self, other: Interval) -> Interval:
        """Return what is in both."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def join(self, other: Interval) -> Interval:
        """Return the least interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def is_inside(self, other: Interval) -> bool:
        """Whether all of it is in the other."""
        return self.high < self.low or (other.low <= self.low and self.high <= other.high)

    def multiples(self, divisor: int) -> Interval:
        """Return the least interval that holds the multiples of a number in it."""
        if abs(divisor) < 2:
            return self
        n = abs(divisor)
        return Interval(-(-self.low // n) * n, self.high // n * n)

    def times(self, factor: int) -> Interval:
        """Return the products with a number."""
        ends = (self.low * factor, self.high * factor)
        return Interval(min(ends), max(ends))


def joined(first: Interval, *others: Interval) -> Interval:
    """Return the least interval that holds all of them."""
    for other in others:
        first = first.join(other)
    return first


def exactly(value: int) -> Interval:
    """Return the interval of one integer."""
    return Interval(value, value)


def _add(x: Interval, y: Interval) -> Interval:
    return Interval(x.low + y.low, x.high + y.high)


def _sub(x: Interval, y: Interval) -> Interval:
    return Interval(x.low - y.high, x.high - y.low)


def _mul(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in x for b in y]
    return Interval(min(ends), max(ends))


def _quotient(x: int, y: int) -> int:
    return -(-x // y) if x < 0 else x // y


def _div(x: Interval, y: Interval) -> Interval | None:
    """Truncated, of a divisor that is positive."""
    if y.low <= 0 or y.high < y.low:
        return None
    ends = [_quotient(a, b) for a in x for b in y]
    return Interval(min(ends), max(ends))


def _rem(x: Interval, y: Interval) -> Interval | None:
    """Return the bounds of a remainder with the sign of x, None unless the divisor is positive."""
    if y.low <= 0 or y.high < y.low:
        return None
    if x.low >= 0 and x.high < y.low:
        return x
    low = 0 if x.low >= 0 else max(x.low, 1 - y.high)
    return Interval(low, min(max(x.high, 0), y.high - 1))


def _min(x: Interval, y: Interval) -> Interval:
    return Interval(min(x.low, y.low), min(x.high, y.high))


def _max(x: Interval, y: Interval) -> Interval:
    return Interval(max(x.low, y.low), max(x.high, y.high))


def _and(x: Interval, y: Interval) -> Interval | None:
    highs = [i.high for i in (x, y) if i.low >= 0]
    return Interval(0, min(highs)) if highs else None


def _or(x: Interval, y: Interval) -> Interval | None:
    if x.low < 0 or y.low < 0:
        return None
    bits = max(x.high, y.high).bit_length()
    return Interval(max(x.low, y.low), (1 << bits) - 1)


def _shl(x: Interval, y: Interval) -> Interval | None:
    return x.times(1 << y.low) if y.low == y.high and 0 <= y.low < 64 else None


def _shr(x: Interval, y: Interval) -> Interval | None:
    if y.low < 0 or y.high > 63:
        return None
    ends = [a >> b for a in x for b in y]
    return Interval(min(ends), max(ends))


def _neg(x: Interval) -> Interval:
    return Interval(-x.high, -x.low)


#: What an opcode makes of intervals; None where it may be anything.
RULES: dict[str, Callable[..., Interval | None]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "rem": _rem, "min": _min, "max": _max,
    "and": _and, "or": _or, "shl": _shl, "shr": _shr,
    "neg": _neg,
}  # fmt: skip
