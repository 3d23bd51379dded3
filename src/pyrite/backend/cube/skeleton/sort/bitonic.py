"""Sorting short rows in the memory of a workgroup: a bitonic network of compare-exchanges.

Rows are padded to a power of two; a workgroup holds one, or several short ones side by side.  Of
equal keys the one with the lower position goes first, which makes the order total, hence stable.
Source: Batcher 1968, "Sorting networks and their applications".
"""

from __future__ import annotations

from collections.abc import Callable

from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.types import int32


def padded(size: int) -> int:
    """Return the power of two that holds a row: at least 2.

    >>> padded(1), padded(8), padded(9)
    (2, 8, 16)
    """
    return 1 << max(1, (size - 1).bit_length())


class Elements:
    """Keys and positions in the memory of a workgroup, as many as a power of two."""

    def __init__(self, b: KernelBuilder, key: Key, size: int) -> None:
        self.b, self._size = b, size
        self.keys, self.positions = b.shared(key.dtype, size), b.shared(int32, size)

    def __len__(self) -> int:
        return self._size

    def places(self) -> list[Value]:
        """Return the places that an invocation fills and empties."""
        lanes = self.b.workgroup_size[0]
        return [self.b.local_id(0) + n * lanes for n in range(self._size // lanes)]

    def each_below(self, count: Value, body: Callable[[Value], None]) -> None:
        """Share out the numbers below one among the workgroup."""
        with self.b.for_(self.b.local_id(0), count, step=self.b.workgroup_size[0]) as loop:
            body(loop.index)

    def exchange(self, i: Value, j: Value, is_rising: Value | None = None) -> None:
        """Exchange two elements that are in the other order; in the rising one if not told."""
        b, keys, positions = self.b, self.keys, self.positions
        x, y, p, q = keys[i], keys[j], positions[i], positions[j]
        is_greater = (x > y) | ((x == y) & (p > q))
        with b.if_(is_greater if is_rising is None else is_greater == is_rising):
            keys[i], keys[j] = y, x
            positions[i], positions[j] = q, p

    def sort_runs(self, length: int) -> None:
        """Sort runs of a length: of 2, 4, 8, … elements are merged, each at falling distances."""
        b = self.b
        stages = length.bit_length() - 1
        turns = stages * (stages + 1) // 2
        with b.for_(0, turns, carried=[b.index(2), b.index(1)]) as loop:
            run, distance = loop.carried
            b.barrier()
            for pair in self.places()[: self._size // 2 // b.workgroup_size[0]]:
                low = pair & (distance - 1)
                first = ((pair - low) << 1) + low
                self.exchange(first, first + distance, (first & (length - 1) & run) == 0)
            is_merged = distance == 1
            loop.yield_(b.select(is_merged, run << 1, run), b.select(is_merged, run, distance >> 1))


def bitonic_kernel(
    rows: Rows, key: Key, workgroup_size: int, tile: int, length: int, grid: int
) -> Kernel:
    """Return the kernel that writes the positions of each row in order: out[count, size].

    Each workgroup sorts ``tile`` elements, which are one or more rows, padded to a length.
    """
    b = KernelBuilder("sort_bitonic", workgroup_size=workgroup_size, grid=grid)
    source = KeySource(b, rows, key)
    out = b.buffer("out", int32, "write")
    elements = Elements(b, key, tile)
    first_row = workgroup_of(b) * (tile // length)

    for place in elements.places():
        number, i = first_row + place // length, place % length
        inside = (number < rows.count) & (i < rows.size)
        elements.keys[place] = source.load(source.row(number), i, mask=inside)
        elements.positions[place] = b.cast(i, int32)
    elements.sort_runs(length)
    b.barrier()
    for place in elements.places():
        number, i = first_row + place // length, place % length
        inside = (number < rows.count) & (i < rows.size)
        out.store(number * rows.size + i, elements.positions[place], mask=inside)
    return b.build()
