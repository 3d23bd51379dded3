"""Sorting short rows in the memory of a workgroup: a bitonic network of compare-exchanges.

Rows are padded to a power of two; a workgroup holds one, or several short ones side by side.  Of
equal keys the one with the lower position goes first, which makes the order total, hence stable.
Source: Batcher 1968, "Sorting networks and their applications".
"""

from __future__ import annotations

from pyrite.backend.cube.lowering.sorting.key import Key
from pyrite.backend.cube.lowering.sorting.row import KeySource, Rows
from pyrite.backend.cube.operand import workgroup_of
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.types import int32


def padded(size: int) -> int:
    """Return the power of two that holds a row: at least 2.

    >>> padded(1), padded(8), padded(9)
    (2, 8, 16)
    """
    return 1 << max(1, (size - 1).bit_length())


def network_kernel(rows: Rows, key: Key, workgroup_size: int, tile: int, grid: int) -> Kernel:
    """Return the kernel that writes the positions of each row in order: out[count, size].

    Each workgroup sorts ``tile`` elements, which are one or more padded rows.
    """
    b = KernelBuilder("sort_network", workgroup_size=workgroup_size, grid=grid)
    source = KeySource(b, rows, key)
    out = b.buffer("out", int32, "write")
    keys, positions = b.shared(key.dtype, tile), b.shared(int32, tile)
    length, lane = padded(rows.size), b.local_id(0)
    first_row = workgroup_of(b) * (tile // length)

    places = [lane + n * workgroup_size for n in range(tile // workgroup_size)]
    for place in places:
        number, i = first_row + place // length, place % length
        inside = (number < rows.count) & (i < rows.size)
        keys[place] = source.load(source.row(number), i, mask=inside)
        positions[place] = b.cast(i, int32)
    _sort(b, keys, positions, length, tile)
    b.barrier()
    for place in places:
        number, i = first_row + place // length, place % length
        inside = (number < rows.count) & (i < rows.size)
        out.store(number * rows.size + i, positions[place], mask=inside)
    return b.build()


def _sort(b: KernelBuilder, keys: Memory, positions: Memory, length: int, tile: int) -> None:
    """Sort rows of a length: runs of 2, 4, 8, … elements are merged, each at falling distances."""
    stages = length.bit_length() - 1
    turns = stages * (stages + 1) // 2
    with b.for_(0, turns, carried=[b.index(2), b.index(1)]) as loop:
        run, distance = loop.carried
        b.barrier()
        for n in range(tile // 2 // b.workgroup_size[0]):
            pair = b.local_id(0) + n * b.workgroup_size[0]
            low = pair & (distance - 1)
            first = ((pair - low) << 1) + low
            is_rising = (first & (length - 1) & run) == 0
            _compare(b, keys, positions, first, first + distance, is_rising)
        is_merged = distance == 1
        loop.yield_(b.select(is_merged, run << 1, run), b.select(is_merged, run, distance >> 1))


def _compare(
    b: KernelBuilder, keys: Memory, positions: Memory, i: Value, j: Value, is_rising: Value
) -> None:
    """Exchange two elements that are in the other order."""
    x, y, p, q = keys[i], keys[j], positions[i], positions[j]
    is_greater = (x > y) | ((x == y) & (p > q))
    with b.if_(is_greater == is_rising):
        keys[i], keys[j] = y, x
        positions[i], positions[j] = q, p
