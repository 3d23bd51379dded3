"""Sorting long rows by digits, in blocks on all cores: three launches for each digit.

Each block counts its digits; an exclusive scan over (digit, block) of a row says where each block
puts its elements of each digit; each block puts them there, in order.  A block is an invocation
with counters of its own, or a workgroup of which each lane has counters and neighbouring elements:
a scan over (digit, lane) gives the order within the block.  Nothing depends on who comes first.
Source: Satish, Harris & Garland 2009, "Designing efficient sorting algorithms for manycore GPUs".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.reduction import sum_of
from pyrite.backend.cube.lowering.scan import scan_axis, scanned_lanes
from pyrite.backend.cube.lowering.sorting.digits import digit_of, digits_of
from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.types import DType, TensorType, int32


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of keys, dense, each cut into blocks of ``lanes`` * ``items`` elements."""

    count: int
    size: int
    key: DType
    lanes: int
    items: int

    @property
    def per_row(self) -> int:
        """How many blocks a row has."""
        return -(-self.size // self.step)

    @property
    def step(self) -> int:
        """How many elements a block has, but for the last of a row."""
        return self.lanes * self.items


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
    launcher.launch(
        ("sort count", blocks, width), lambda grid: _count_kernel(blocks, width, grid),
        [keys.buffer, counts.buffer, shift], blocks.count * blocks.per_row,
    )  # fmt: skip
    total = TensorType((blocks.count, entries + 1), int32)
    return scan_axis(launcher, sum_of(int32), counts, 1, total, has_initial=True)


def _move(
    launcher: Launcher, keys: CubeTensor, positions: CubeTensor | None, places: CubeTensor,
    shift: int, width: int, blocks: Blocks, moved: CubeTensor | None, found: CubeTensor,
) -> None:  # fmt: skip
    given = [t.buffer for t in (keys, positions, places, moved, found) if t is not None]
    has = (positions is not None, moved is not None)
    launcher.launch(
        ("sort move", blocks, width, has), lambda grid: _move_kernel(blocks, width, *has, grid),
        [*given, shift], blocks.count * blocks.per_row,
    )  # fmt: skip


# ---- the kernels ----


class _Block:
    """What both kernels share: the elements of a block, and a counter for each digit and lane."""

    def __init__(self, name: str, blocks: Blocks, width: int, grid: int) -> None:
        self.blocks, self.width = blocks, width
        b = self.b = KernelBuilder(name, workgroup_size=blocks.lanes, grid=grid)
        self.keys = b.buffer("keys", blocks.key, "read")
        size = blocks.lanes << width
        self.counters = b.shared(int32, size) if blocks.lanes > 1 else b.private(int32, size)
        self.lane = b.local_id(0)

    def locate(self, unit: Value) -> None:
        """Note which block of which row this is."""
        self.row, self.number = unit // self.blocks.per_row, unit % self.blocks.per_row

    def counter(self, digit: Value | int) -> Value:
        """Return the place of this lane's counter of a digit."""
        lanes = self.blocks.lanes
        place = digit * lanes
        return self.b.index(place) if lanes == 1 else self.lane + place

    def entry(self, digit: Value) -> Value:
        """Return the place of a digit of this block among those of its row."""
        return digit * self.blocks.per_row + self.number

    def each(self, body: Callable[[Value, Value], None]) -> None:
        """Call with position and key of this lane's elements, in order."""
        b, blocks = self.b, self.blocks
        first = self.number * blocks.step + self.lane * blocks.items
        with b.for_(first, first + blocks.items) as loop:

            def visit() -> None:
                body(loop.index, self.keys[self.row * blocks.size + loop.index])

            if blocks.size % blocks.step == 0:
                visit()
            else:
                with b.if_(loop.index < blocks.size):
                    visit()

    def count(self, shift: Value) -> None:
        """Count this lane's elements by digit."""
        b = self.b
        with b.for_(0, 1 << self.width) as loop:
            self.counters[self.counter(loop.index)] = 0

        def add(_: Value, key: Value) -> None:
            place = self.counter(digit_of(b, key, shift, self.width))
            self.counters[place] = self.counters[place] + 1

        self.each(add)


def _count_kernel(blocks: Blocks, width: int, grid: int) -> Kernel:
    """Counts[row, digit, block] = how many elements of the digit the block has."""
    block = _Block("sort_count", blocks, width, grid)
    b, lanes, lane = block.b, blocks.lanes, block.lane
    counts = b.buffer("counts", int32, "write")
    shift = b.scalar("shift", blocks.key)
    unit = workgroup_of(b)
    with b.if_(unit < blocks.count * blocks.per_row):
        block.locate(unit)
        block.count(shift)
        if lanes > 1:
            _sum_lanes(block)
        begin = block.row * (blocks.per_row << width)
        with b.for_(lane, 1 << width, step=lanes) as loop:
            counts[begin + block.entry(loop.index)] = block.counters[loop.index * lanes]
    return b.build()


def _sum_lanes(block: _Block) -> None:
    """Leave in the counters of lane 0 the sums over all lanes, by halves."""
    b, lane, counters = block.b, block.lane, block.counters
    half = block.blocks.lanes // 2
    while half:
        b.barrier()
        with b.if_(lane < half):
            for digit in range(1 << block.width):
                place = block.counter(digit)
                counters[place] = counters[place] + counters[place + half]
        half //= 2
    b.barrier()


def _move_kernel(
    blocks: Blocks, width: int, has_positions: bool, has_moved: bool, grid: int
) -> Kernel:
    """Put keys and positions where they belong by this digit; the first pass has no positions."""
    block = _Block("sort_move", blocks, width, grid)
    b, lanes = block.b, blocks.lanes
    positions = b.buffer("positions", int32, "read") if has_positions else None
    places = b.buffer("places", int32, "read")
    moved = b.buffer("moved", blocks.key, "write") if has_moved else None
    found = b.buffer("found", int32, "write")
    shift = b.scalar("shift", blocks.key)
    starts = b.shared(int32, 1 << width) if lanes > 1 else block.counters
    unit = workgroup_of(b)

    def move(i: Value, key: Value) -> None:
        digit = digit_of(b, key, shift, width)
        counter = block.counter(digit)
        local = block.counters[counter]
        block.counters[counter] = local + 1
        place = block.row * blocks.size + (local if lanes == 1 else starts[digit] + local)
        if moved is not None:
            moved[place] = key
        start = block.row * blocks.size
        found[place] = b.cast(i, int32) if positions is None else positions[start + i]

    with b.if_(unit < blocks.count * blocks.per_row):
        block.locate(unit)
        begin = block.row * ((blocks.per_row << width) + 1)
        if lanes > 1:
            block.count(shift)
            _begin_lanes(block)
        with b.for_(block.lane, 1 << width, step=lanes) as loop:
            start = places[begin + block.entry(loop.index)]
            first = 0 if lanes == 1 else block.counters[loop.index * lanes]
            starts[loop.index] = start - first
        if lanes > 1:
            b.barrier()
        block.each(move)
    return b.build()


def _begin_lanes(block: _Block) -> None:
    """Make the counts where each lane's elements of each digit begin, in the order of digits."""
    b, lane, counters = block.b, block.lane, block.counters
    each = 1 << block.width
    b.barrier()
    mine = [counters[lane * each + n] for n in range(each)]
    total = mine[0]
    for count in mine[1:]:
        total = total + count
    sums = b.shared(int32, block.blocks.lanes)
    scanned_lanes(b, [sums], (total,), lambda s, t: (s[0] + t[0],))
    running = sums[lane] - total
    for n, count in enumerate(mine):
        counters[lane * each + n] = running
        running = running + count
    b.barrier()
