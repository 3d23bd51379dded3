"""The kernels of `radix_blocks` where a workgroup has a block, sorted in memory that all share.

Lanes read and write neighbours.  Between that each lane takes ``items`` elements in a row, counts
their digits in counters of its own, and a scan over (digit, lane) gives every element its rank in
the block; the block is put in that order, so that what is written of a digit lies together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.skeleton.scan import scanned_lanes
from pyrite.backend.cube.skeleton.sort.radix_sort import digit_of
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.extent import EXTENT
from pyrite.types import DType, int32


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of keys, dense, each cut into blocks of ``lanes`` * ``items`` elements."""

    count: int = field(metadata=EXTENT)
    size: int = field(metadata=EXTENT)
    key: DType
    lanes: int
    items: int

    @property
    def per_row(self) -> int:
        """The number of blocks of a row."""
        return -(-self.size // self.step)

    @property
    def step(self) -> int:
        """The number of elements of a block, but for the last of a row."""
        return self.lanes * self.items


#: Memory of a workgroup has so many banks: elements this far apart are read one after another.
_BANKS = 32


def shared_bytes(key: DType, lanes: int, items: int, width: int) -> int:
    """Return how much memory a workgroup takes for digits of so many bits."""
    tile = _spread(lanes * items) * key.itemsize
    return tile + ((lanes << width) + lanes + (1 << width)) * int32.itemsize


def _spread(size: int) -> int:
    return size + size // _BANKS


class _Tile:
    """What both kernels share: a block of a row, and a counter for each digit and lane."""

    def __init__(self, name: str, blocks: Blocks, width: int, grid: int) -> None:
        self.blocks, self.width = blocks, width
        b = self.b = KernelBuilder(name, workgroup_size=blocks.lanes, grid=grid)
        self.keys = b.buffer("keys", blocks.key, "read")
        self.counters = b.shared(int32, blocks.lanes << width)
        self.lane = b.local_id(0)
        self.unit = workgroup_of(b)

    def locate(self) -> None:
        """Note which block of which row this is."""
        blocks = self.blocks
        self.row, self.number = self.unit // blocks.per_row, self.unit % blocks.per_row
        self.first, self.start = self.number * blocks.step, self.row * blocks.size

    def across(self) -> list[Value]:
        """Return the places in the block that this lane reads and writes: neighbours by lanes."""
        return [self.lane + n * self.blocks.lanes for n in range(self.blocks.items)]

    def along(self) -> list[Value]:
        """Return the places of this lane's elements: neighbours in a row."""
        return [self.lane * self.blocks.items + n for n in range(self.blocks.items)]

    def exists(self, place: Value) -> Value | None:
        """Return whether a block has that place; None where every block has all."""
        blocks = self.blocks
        return None if blocks.size % blocks.step == 0 else self.first + place < blocks.size

    def counter(self, digit: Value | int) -> Value:
        """Return the place of this lane's counter of a digit."""
        return self.lane + digit * self.blocks.lanes

    def entry(self, digit: Value) -> Value:
        """Return the place of a digit of this block among those of its row."""
        return digit * self.blocks.per_row + self.number

    def clear(self) -> None:
        """Set this lane's counters to 0."""
        for digit in range(1 << self.width):
            self.counters[self.counter(digit)] = 0

    def next(self, digit: Value) -> Value:
        """Count a digit, and return how many this lane had before."""
        place = self.counter(digit)
        found = self.counters[place]
        self.counters[place] = found + 1
        return found


def count_kernel(blocks: Blocks, width: int, grid: int) -> Kernel:
    """Counts[row, digit, block] = how many elements of the digit the block has."""
    tile = _Tile("sort_count", blocks, width, grid)
    b, lanes = tile.b, blocks.lanes
    counts = b.buffer("counts", int32, "write")
    shift = b.scalar("shift", blocks.key)
    with b.if_(tile.unit < blocks.count * blocks.per_row):
        tile.locate()
        tile.clear()
        for place in tile.across():
            _count(tile, place, shift)
        _sum_lanes(tile)
        begin = tile.row * (blocks.per_row * (1 << width))
        with b.for_(tile.lane, 1 << width, step=lanes) as loop:
            counts[begin + tile.entry(loop.index)] = tile.counters[loop.index * lanes]
    return b.build()


def _count(tile: _Tile, place: Value, shift: Value) -> None:
    """Count the digit of the element at a place, if there is one."""
    b, exists = tile.b, tile.exists(place)

    def add() -> None:
        key = tile.keys[tile.start + tile.first + place]
        tile.next(digit_of(b, key, shift, tile.width))

    if exists is None:
        add()
        return
    with b.if_(exists):
        add()


def _sum_lanes(tile: _Tile) -> None:
    """Leave in the counters of lane 0 the sums over all lanes, by halves."""
    b, lane, counters = tile.b, tile.lane, tile.counters
    half = tile.blocks.lanes // 2
    while half:
        b.barrier()
        with b.if_(lane < half):
            for digit in range(1 << tile.width):
                place = tile.counter(digit)
                counters[place] = counters[place] + counters[place + half]
        half //= 2
    b.barrier()


def move_kernel(
    blocks: Blocks, width: int, has_positions: bool, has_moved: bool, grid: int
) -> Kernel:
    """Put keys and positions where they belong by this digit; the first pass has no positions."""
    tile = _Tile("sort_move", blocks, width, grid)
    b = tile.b
    positions = b.buffer("positions", int32, "read") if has_positions else None
    places = b.buffer("places", int32, "read")
    moved = b.buffer("moved", blocks.key, "write") if has_moved else None
    found = b.buffer("found", int32, "write")
    shift = b.scalar("shift", blocks.key)
    starts = b.shared(int32, 1 << width)
    order = _Order(tile, b.shared(blocks.key, _spread(blocks.step)))
    with b.if_(tile.unit < blocks.count * blocks.per_row):
        tile.locate()
        # What a block lacks has the highest digit, and comes last in the order.
        mine = order.read(tile.keys, (1 << blocks.key.bits) - 1)
        ranks = _ranks(tile, [digit_of(b, key, shift, width) for key in mine])
        begin = tile.row * ((blocks.per_row * (1 << width)) + 1)
        with b.for_(tile.lane, 1 << width, step=blocks.lanes) as loop:
            first = tile.counters[loop.index * blocks.lanes]
            starts[loop.index] = places[begin + tile.entry(loop.index)] - first
        keys = order.put(mine, ranks)
        targets = [
            tile.start + starts[digit_of(b, key, shift, width)] + place
            for key, place in zip(keys, tile.across(), strict=True)
        ]
        if moved is not None:
            order.write(moved, targets, keys)
        if positions is None:
            given = [b.cast(tile.first + place, blocks.key) for place in tile.along()]
        else:
            given = order.read(positions, 0)
        order.write(found, targets, order.put(given, ranks))
    return b.build()


def _ranks(tile: _Tile, digits: Sequence[Value]) -> list[Value]:
    """Return where in the order of the block this lane's elements come.

    Leaves in the counters where each lane's elements of each digit begin.
    """
    tile.clear()
    before = [tile.next(digit) for digit in digits]
    _begin_lanes(tile)
    return [
        tile.counters[tile.counter(digit)] + count
        for digit, count in zip(digits, before, strict=True)
    ]


def _begin_lanes(tile: _Tile) -> None:
    """Make the counts where each lane's elements of each digit begin, in the order of digits."""
    b, lane, counters = tile.b, tile.lane, tile.counters
    each = 1 << tile.width
    b.barrier()
    mine = [counters[lane * each + n] for n in range(each)]
    total = mine[0]
    for count in mine[1:]:
        total = total + count
    sums = b.shared(int32, tile.blocks.lanes)
    scanned_lanes(b, [sums], (total,), lambda s, t: (s[0] + t[0],))
    running = sums[lane] - total
    for n, count in enumerate(mine):
        counters[lane * each + n] = running
        running = running + count
    b.barrier()


class _Order:
    """Memory for a block, through which lanes exchange elements of the keys' dtype."""

    def __init__(self, tile: _Tile, memory: Memory) -> None:
        self.tile, self.memory = tile, memory

    @staticmethod
    def _at(place: Value) -> Value:
        """Return where an element lies: neighbours of a lane are in different banks."""
        return place + place // _BANKS

    def read(self, source: Memory, missing: int) -> list[Value]:
        """Return this lane's elements of a block of a buffer."""
        tile = self.tile
        b, first = tile.b, tile.start + tile.first
        b.barrier()
        for place in tile.across():
            mask = tile.exists(place)
            x = source.load(first + place, mask=mask, other=0)
            x = b.cast(x, self.memory.dtype)
            self.memory[self._at(place)] = x if mask is None else b.select(mask, x, missing)
        b.barrier()
        return [self.memory[self._at(place)] for place in tile.along()]

    def put(self, mine: Sequence[Value], ranks: Sequence[Value]) -> list[Value]:
        """Put this lane's elements where they rank, and return those that it writes."""
        b = self.tile.b
        b.barrier()
        for x, rank in zip(mine, ranks, strict=True):
            self.memory[self._at(rank)] = x
        b.barrier()
        return [self.memory[self._at(place)] for place in self.tile.across()]

    def write(self, target: Memory, places: Sequence[Value], values: Sequence[Value]) -> None:
        """Write elements in order to their places in a buffer."""
        tile = self.tile
        for at, place, x in zip(places, tile.across(), values, strict=True):
            target.store(at, tile.b.cast(x, target.dtype), mask=tile.exists(place))
