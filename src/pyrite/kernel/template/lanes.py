"""Parts and sums of vectors."""

from __future__ import annotations

from pyrite.kernel.build import Value


def part_of(value: Value, start: int, width: int) -> Value:
    """Return some lanes of a vector."""
    if width == value.width:
        return value
    lanes = [value[start + i] for i in range(width)]
    return value.builder.make(lanes) if width > 1 else lanes[0]


def sum_of_lanes(x: Value) -> Value:
    """Return the sum of a vector's lanes: halves are added until one is left."""
    while x.width > 1:
        half = x.width // 2
        x = part_of(x, 0, half) + part_of(x, half, half)
    return x
