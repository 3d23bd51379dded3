"""Parts, sums and mixtures of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.kernel.builder import Value


def part_of(value: Value, start: int, width: int) -> Value:
    """Return some lanes of a vector."""
    if width == value.width:
        return value
    lanes = [value[start + i] for i in range(width)]
    return value.builder.make(lanes) if width > 1 else lanes[0]


def mixed(value: Value, lanes: Sequence[int]) -> Value:
    """Return a vector's lanes in another order."""
    return value.builder.make([value[lane] for lane in lanes])


def sum_of_lanes(x: Value) -> Value:
    """Return the sum of a vector's lanes: halves are added until one is left."""
    while x.width > 1:
        half = x.width // 2
        x = part_of(x, 0, half) + part_of(x, half, half)
    return x


def interleaved(values: Sequence[Value]) -> list[Value]:
    """Return as many vectors, of which lane by lane each comes from the next of the values."""
    if len(values) == 1:
        return list(values)
    width = values[0].width
    lanes = [value[i] if width > 1 else value for i in range(width) for value in values]
    parts = range(0, len(lanes), width)
    return [values[0].builder.make(lanes[i : i + width]) if width > 1 else lanes[i] for i in parts]
