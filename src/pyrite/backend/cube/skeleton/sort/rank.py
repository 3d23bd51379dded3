"""Sorting short rows by rank: an element's place is how many come before it.

An invocation takes a row, and compares each key with ``width`` others at once.  The work grows with
the square of the row, but no comparison waits for another.
"""

from __future__ import annotations

from pyrite.backend.cube.operand import invocation_of, iota
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import vector
from pyrite.types import int32


def rank_kernel(
    rows: Rows, key: Key, workgroup_size: int, width: int, room: int, grid: int
) -> Kernel:
    """Return the kernel that writes the positions of each row in order: out[count, size].

    Rows fit in a ``room``, a multiple of the width.
    """
    b = KernelBuilder("sort_rank", workgroup_size=workgroup_size, grid=grid)
    source = KeySource(b, rows, key)
    out = b.buffer("out", int32, "write")
    padded = -(-rows.size // width) * width
    keys = b.private(key.dtype, room)
    number = invocation_of(b)
    with b.if_(number < rows.count):
        row = source.row(number)
        with b.for_(0, rows.size) as loop:
            keys[loop.index] = source.load(row, loop.index)
        with b.for_(rows.size, padded) as loop:
            keys[loop.index] = b.const(key.highest, vector(key.dtype, 1))
        with b.for_(0, rows.size) as loop:
            place = number * rows.size + _rank(b, keys, loop.index, padded, width)
            out[place] = b.cast(loop.index, int32)
    return b.build()


def _rank(b: KernelBuilder, keys: Memory, i: Value, padded: int, width: int) -> Value:
    """Return how many keys are less than key i, or equal and before it."""
    own, place = keys[i], i
    if width > 1:
        own, place = b.splat(own, width), b.splat(place, width)
    with b.for_(0, padded, step=width, carried=[b.const(0, vector(int32, width))]) as loop:
        others = keys.load(loop.index, width=width, is_aligned=True)
        positions = loop.index if width == 1 else loop.index + iota(b, width)
        is_before = (others < own) | ((others == own) & (positions < place))
        loop.yield_(loop.carried[0] + b.cast(is_before, int32))
    (counts,) = loop.results
    rank = counts if width == 1 else counts[0]
    for element in range(1, width):
        rank = rank + counts[element]
    return b.index(rank)
