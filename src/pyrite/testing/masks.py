"""Kernels that convert vectors and store or load them under every kind of mask.

Each access has a row of the buffer to itself, with elements around it that must stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import vector
from pyrite.testing.programs import LaunchCase
from pyrite.types import Array, DType, bool_, float32, int32

#: Elements before and after those that an access may touch.
AROUND = 4


def masks(width: int) -> list[tuple[bool, ...]]:
    """Return masks of so many lanes: beginnings, single lanes, the even lanes, all, none.

    Beginnings and single lanes are those at the ends and beside the middle: what a compiler does
    with a lane depends on whether it is the first, the last, or on which side of a half.

    >>> masks(2)
    [(True, False), (True, True), (False, True), (False, False)]
    """
    lanes, half = range(width), width // 2
    found = [tuple(lane < n for lane in lanes) for n in (1, 2, 3, half, half + 1, width - 1)]
    found += [tuple(lane == n for lane in lanes) for n in (0, 1, half - 1, half, width - 1)]
    found += [tuple(lane % 2 == 0 for lane in lanes), (True,) * width, (False,) * width]
    return list(dict.fromkeys(found))


def masked_stores(source: DType, to: DType, width: int) -> LaunchCase:
    """Return a program that casts a vector and stores it under masks of every kind."""
    author = _Author(source, to, width)
    for at, mask in author.accesses():
        # Each store has its own: a conversion that others need too is not made a part of it.
        value = author.convert(author.x.load(at, width=width))
        author.y.store(at, value, mask=mask)
    return author.program()


def masked_loads(source: DType, to: DType, width: int) -> LaunchCase:
    """Return a program that loads vectors under masks of every kind and casts them."""
    author = _Author(source, to, width)
    for at, mask in author.accesses():
        loaded = author.x.load(at, width=width, mask=mask, other=author.b.const(1, source))
        author.y.store(at, author.convert(loaded))
    return author.program()


class _Author:
    """Writes one kernel: from ``x`` to ``y``, rows of ``width`` elements and those around."""

    def __init__(self, source: DType, to: DType, width: int) -> None:
        self.b = b = KernelBuilder(f"masked {source.name} to {to.name} by {width}")
        self.x: Memory = b.buffer("x", source, "read")
        self.y: Memory = b.buffer("y", to, "write")
        self.n = b.scalar("n", int32)
        self.width, self.rows = width, 0

    def accesses(self) -> Iterator[tuple[Value, Value]]:
        """Yield where an access is, and its mask: constant, unrolled, counted, or scattered."""
        b, width = self.b, self.width
        lanes = b.const(tuple(range(width)), vector(int32, width))
        constants = [b.const(m, vector(bool_, width)) for m in masks(width)]
        for mask in constants:
            yield self.row(1), mask
        for unroll in (True, False):
            stop = width if unroll else self.n
            with b.for_(0, stop, unroll=unroll) as loop:
                yield self.row(width) + loop.index * self.pitch, lanes == loop.index
                yield self.row(width) + loop.index * self.pitch, lanes < loop.index
        for mask in constants:
            yield self.row(1) + (lanes ^ 1), mask

    def convert(self, value: Value) -> Value:
        """Return a value as the dtype of ``y``: no cast makes bools."""
        dtype = self.y.dtype
        if not dtype.is_bool or value.dtype.is_bool:
            return self.b.cast(value, dtype)
        return self.b.cast(value, float32) > 40.0

    @property
    def pitch(self) -> int:
        return self.width + 2 * AROUND

    def row(self, count: int) -> Value:
        """Return where the next row begins, and take so many."""
        first = self.rows * self.pitch + AROUND
        self.rows += count
        return self.b.const(first, int32)

    def program(self) -> LaunchCase:
        size = self.rows * self.pitch
        x = _small(self.x.dtype, size)
        y = np.ones(size, self.y.dtype.numpy)
        kernel = self.b.build()
        return LaunchCase(kernel.name, kernel, (1,), (x, y, self.width))


def _small(dtype: DType, size: int) -> Array:
    """Return numbers from 2 on that every dtype holds, no two alike side by side."""
    return (2 + np.arange(size) * 7 % 97).astype(dtype.numpy)
