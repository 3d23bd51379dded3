"""Sorting long rows by digits, in blocks on all cores: three launches for each digit.

Each block counts its digits; an exclusive scan over (digit, block) of a row says where each block
puts its elements of each digit; each block puts them there, in order.  A block is an invocation's,
as here, or a workgroup's: see `radix_tiles`.  Nothing depends on who comes first.
Source: Satish, Harris & Garland 2009, "Designing efficient sorting algorithms for manycore GPUs".
"""

from __future__ import annotations

from collections.abc import Callable

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.skeleton.fold import sum_of
from pyrite.backend.cube.skeleton.scan import scan_axis
from pyrite.backend.cube.skeleton.sort import radix_tiles
from pyrite.backend.cube.skeleton.sort.radix_sort import digit_of, digits_of
from pyrite.backend.cube.skeleton.sort.radix_tiles import Blocks
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.types import TensorType, int32


def sort_blocks(
    launcher: Launcher, keys: CubeTensor, bits: int, most: int, blocks: Blocks
) -> CubeTensor:
    """Return the positions that sort rows of keys: (count, size), int32.

    Keys have so many bits, digits at most ``most``.
    """
    digits = digits_of(bits, most)
    shape = (blocks.count, blocks.size)
    positions: CubeTensor | None = None
    for turn, (shift, width) in enumerate(digits):
        places = _places(launcher, keys, shift, width, blocks)
        found = launcher.empty(TensorType(shape, int32))
        moved = None
        if turn < len(digits) - 1:
            moved = launcher.empty(TensorType(shape, blocks.key))
        _move(launcher, keys, positions, places, shift, width, blocks, moved, found)
        keys, positions = moved or keys, found
    assert positions is not None, "a key has at least one digit"
    return positions


def _places(
    launcher: Launcher, keys: CubeTensor, shift: int, width: int, blocks: Blocks
) -> CubeTensor:
    """Return where in its row each block puts its first element of each digit."""
    entries = blocks.per_row << width
    counts = launcher.empty(TensorType((blocks.count, entries), int32))
    kernel = _count_kernel if blocks.lanes == 1 else radix_tiles.count_kernel
    launcher.launch_for(
        (blocks, width), "sort count", lambda of, grid: kernel(of[0], of[1], grid),
        [keys.buffer, counts.buffer, shift], blocks.count * blocks.per_row,
    )  # fmt: skip
    total = TensorType((blocks.count, entries + 1), int32)
    return scan_axis(launcher, sum_of(int32), counts, 1, total, has_initial=True)


def _move(
    launcher: Launcher, keys: CubeTensor, positions: CubeTensor | None, places: CubeTensor,
    shift: int, width: int, blocks: Blocks, moved: CubeTensor | None, found: CubeTensor,
) -> None:  # fmt: skip
    given = [t.buffer for t in (keys, positions, places, moved, found) if t is not None]
    kernel = _move_kernel if blocks.lanes == 1 else radix_tiles.move_kernel
    launcher.launch_for(
        (blocks, width, positions is not None, moved is not None), "sort move",
        lambda of, grid: kernel(of[0], of[1], of[2], of[3], grid), [*given, shift],
        blocks.count * blocks.per_row,
    )  # fmt: skip


# ---- the kernels of an invocation ----


class _Block:
    """What both kernels share: the elements of a block, and a counter for each digit."""

    def __init__(self, name: str, blocks: Blocks, width: int, grid: int) -> None:
        self.blocks, self.width = blocks, width
        b = self.b = KernelBuilder(name, grid=grid)
        self.keys = b.buffer("keys", blocks.key, "read")
        self.counters = b.private(int32, 1 << width)

    def locate(self, unit: Value) -> None:
        """Note which block of which row this is."""
        self.row, self.number = unit // self.blocks.per_row, unit % self.blocks.per_row

    def entry(self, digit: Value) -> Value:
        """Return the place of a digit of this block among those of its row."""
        return digit * self.blocks.per_row + self.number

    def each(self, body: Callable[[Value, Value], None]) -> None:
        """Call with position and key of the elements, in order."""
        b, blocks = self.b, self.blocks
        first = self.number * blocks.step
        with b.for_(first, b.min(first + blocks.step, blocks.size)) as loop:
            body(loop.index, self.keys[self.row * blocks.size + loop.index])


def _count_kernel(blocks: Blocks, width: int, grid: int) -> Kernel:
    """Counts[row, digit, block] = how many elements of the digit the block has."""
    block = _Block("sort_count", blocks, width, grid)
    b, counters = block.b, block.counters
    counts = b.buffer("counts", int32, "write")
    shift = b.scalar("shift", blocks.key)
    unit = workgroup_of(b)

    def add(_: Value, key: Value) -> None:
        digit = digit_of(b, key, shift, width)
        counters[digit] = counters[digit] + 1

    with b.if_(unit < blocks.count * blocks.per_row):
        block.locate(unit)
        with b.for_(0, 1 << width) as loop:
            counters[loop.index] = 0
        block.each(add)
        begin = block.row * (blocks.per_row * (1 << width))
        with b.for_(0, 1 << width) as loop:
            counts[begin + block.entry(loop.index)] = counters[loop.index]
    return b.build()


def _move_kernel(
    blocks: Blocks, width: int, has_positions: bool, has_moved: bool, grid: int
) -> Kernel:
    """Put keys and positions where they belong by this digit; the first pass has no positions."""
    block = _Block("sort_move", blocks, width, grid)
    b, counters = block.b, block.counters
    positions = b.buffer("positions", int32, "read") if has_positions else None
    places = b.buffer("places", int32, "read")
    moved = b.buffer("moved", blocks.key, "write") if has_moved else None
    found = b.buffer("found", int32, "write")
    shift = b.scalar("shift", blocks.key)
    unit = workgroup_of(b)

    def move(i: Value, key: Value) -> None:
        digit, start = digit_of(b, key, shift, width), block.row * blocks.size
        local = counters[digit]
        counters[digit] = local + 1
        place = start + local
        if moved is not None:
            moved[place] = key
        found[place] = b.cast(i, int32) if positions is None else positions[start + i]

    with b.if_(unit < blocks.count * blocks.per_row):
        block.locate(unit)
        begin = block.row * ((blocks.per_row * (1 << width)) + 1)
        with b.for_(0, 1 << width) as loop:
            counters[loop.index] = places[begin + block.entry(loop.index)]
        block.each(move)
    return b.build()
