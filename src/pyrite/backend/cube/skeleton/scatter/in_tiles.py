"""Sums of floats at few places: each workgroup has a copy of them, and sorts its writes in tiles.

Sums of floats depend on their order, so no two invocations may add to one element as they come.
Each workgroup does a part of the writes, in tiles: it sorts a tile by place, in memory that it
shares, and whoever stands at the first write to a place adds those of the tile to the workgroup's
copy, in their order.  The first part begins with the base, the others with nothing; the copies are
added in the order of the parts.  Nothing depends on who comes first, and writes of one part are
added as `in_order` adds them.

`segmented` sorts all writes, in passes over memory; it is for places that fill no copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, layout_of, workgroup_of
from pyrite.backend.cube.skeleton.each import Each, EachConfig, Points, for_each
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.scan import scanned_lanes
from pyrite.backend.cube.skeleton.scatter.config import TILE, ScatterConfig
from pyrite.backend.cube.skeleton.scatter.writes import Writes, number_of
from pyrite.backend.cube.skeleton.sort.radix_sort import digit_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Kernel, Value
from pyrite.kernel.extent import extent
from pyrite.types import TensorType, element_count, int32, uint32

#: Copies that are read before the first is added.
_AHEAD: Final = 8
#: Memory of a workgroup has so many banks: elements this far apart are read one after another.
_BANKS: Final = 32


@dataclass(frozen=True, slots=True)
class TileConfig:
    """``parts`` workgroups of so many ``lanes``."""

    lanes: int
    parts: int = extent()


class TileSkeleton:
    """Kernels whose workgroups do parts of some writes in tiles; the body is `_Tiles`."""

    name = "scatter tiles"

    def candidates(self, problem: Points, machine: Machine) -> list[TileConfig]:
        """Return one config."""
        return [self.select(problem, machine)]

    def select(self, problem: Points, machine: Machine) -> TileConfig:
        """Return it."""
        return TileConfig(TILE.lanes[0], machine.workgroups)

    def workgroups(self, problem: Points, config: TileConfig) -> int:
        """Return how many workgroups run the kernel."""
        return config.parts

    def build(self, problem: Points, config: TileConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: operands, and an error word."""
        assert fused.body is not None
        each = Each(fused.body.name, problem, EachConfig(config.lanes), grid)
        part = workgroup_of(each.b)
        with each.b.if_(part < config.parts):
            fused.body.of(each)
        return each.b.build()


_TILES: Final = TileSkeleton()


def write_in_tiles(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Add the writes, on one line, to a target of floats that holds the base already."""
    if writes.count == 0 or target.type.size == 0:
        return
    sizes = target.shape[: len(writes.reads)]
    copies = launcher.empty(TensorType((config.parts, element_count(sizes)), target.dtype))
    operands = [*writes.sources, target, copies]
    points = Points(
        tuple(layout_of(t) for t in operands), "write", (), writes.fault is not None,
        (writes.count,), (*sizes, config.parts),
    )  # fmt: skip
    variant = content_of((writes.variant, config.chunk, config.lanes, len(writes.lines)))

    def body(each: Each) -> None:
        _Tiles(each, writes, config).write()

    launch(
        launcher, _TILES, points, [b for t in operands for b in bindings_of(t)],
        config=TileConfig(config.lanes, config.parts), fault=writes.fault,
        fused=Fused(body=Body("scatter_tiles", ("scatter_tiles", variant), body)),
    )  # fmt: skip

    def join(each: Each) -> None:
        b, (whole, result) = each.b, each.operands
        (parts, *sizes), at = each.extents, each.at
        number = number_of(at[: len(sizes)], tuple(sizes))
        first = whole[[0, number]]
        with b.for_(1, parts, step=_AHEAD, carried=[first]) as loop:
            rows = [b.min(loop.index + n, parts - 1) for n in range(_AHEAD)]
            values = [whole[[row, number]] for row in rows]
            (total,) = loop.carried
            for n, value in enumerate(values):
                is_there = loop.index + n < parts
                joined = writes.collision.join(each.k, total, value)
                total = joined if n == 0 else b.select(is_there, joined, total)
            loop.yield_(total)
        result[at] = loop.results[0]

    for_each(
        launcher, "scatter_copies", content_of((writes.collision.join, len(sizes))), target.shape,
        [copies], target, join, extents=(config.parts, *sizes),
    )  # fmt: skip


class _Tiles:
    """What a workgroup does: its operands are those of the writes, the target, and the copies."""

    def __init__(self, each: Each, writes: Writes, config: ScatterConfig) -> None:
        b = self.b = each.b
        self.each, self.writes = each, writes
        *self.sizes, self.parts = each.extents
        self.count = each.shape[0]
        self.places = element_count(self.sizes)
        self.lanes, self.lane = config.lanes, b.local_index()
        #: Bits of the number of a write in its tile, above which a word has its place.
        self.bits = (config.lanes * TILE.items - 1).bit_length()
        self.size = config.lanes * TILE.items
        #: Passes of a sort by place; what goes nowhere has a place of its own, the last.
        self.passes = -(-config.chunk.bit_length() // TILE.digit)
        dtype = each.operands[-1].layout.dtype
        self.copy = b.shared(dtype, config.chunk)
        self.values = b.shared(dtype, self.size)
        self.words = b.shared(uint32, self.size + self.size // _BANKS)
        self.counters = b.shared(int32, config.lanes << TILE.digit)
        self.sums = b.shared(int32, config.lanes)

    def write(self) -> None:
        """Write the kernel's body."""
        b, part = self.b, workgroup_of(self.b)
        self.begin(part)
        tiles = (self.count + (self.size - 1)) // self.size
        own = (tiles + (self.parts - 1)) // self.parts
        first = part * own
        with b.for_(first, b.min(first + own, tiles)) as loop:
            self.read(loop.index * self.size)
            self.sort()
            self.add()
            b.barrier()
            loop.yield_()
        b.barrier()
        copies = self.each.operands[-1]
        with b.for_(self.lane, self.places, step=self.lanes) as loop:
            copies[[part, loop.index]] = self.copy[loop.index]
            loop.yield_()

    def begin(self, part: Value) -> None:
        """Fill the copy: with the base in the first part, else with what changes no sum."""
        b, each = self.b, self.each
        base = each.operands[-2]
        line = [0] * len(self.writes.lines)
        with b.for_(self.lane, self.places, step=self.lanes) as loop:
            at = [*each.coordinates(loop.index, tuple(self.sizes)), *line]
            self.copy[loop.index] = b.select(part == 0, base[at], -0.0)
            loop.yield_()
        b.barrier()

    def read(self, first: Value) -> None:
        """Read a tile: neighbours read neighbours."""
        b, line = self.b, [0] * len(self.writes.lines)
        for place in self.across():
            number = first + place
            kept = b.min(number, self.count - 1)
            is_there = number < self.count
            inside, index = self.writes.find(self.each, kept, line, tuple(self.sizes))
            if self.writes.fault is not None:
                self.each.fail(is_there & ~inside)
            where = b.select(is_there & inside, number_of(index, tuple(self.sizes)), self.places)
            word = (b.cast(where, uint32) << self.bits) | b.cast(place, uint32)
            self.words[_spread(place)] = word
            self.values[place] = self.update(kept, line)
        b.barrier()

    def update(self, number: Value, line: list[int]) -> Value:
        """Return what a write adds."""
        return self.writes.update(self.each, self.writes.position, number, line)

    def sort(self) -> None:
        """Sort the words of the tile by their places; those of one stay in their order."""
        b = self.b
        with b.for_(0, self.passes) as loop:
            shift = b.cast(loop.index * TILE.digit + self.bits, uint32)
            mine = [self.words[_spread(place)] for place in self.along()]
            ranks = self.ranks([digit_of(b, word, shift, TILE.digit) for word in mine])
            for word, rank in zip(mine, ranks, strict=True):
                self.words[_spread(rank)] = word
            b.barrier()
            loop.yield_()

    def ranks(self, digits: list[Value]) -> list[Value]:
        """Return where words of this lane come in the order of their digits."""
        b, lane, counters, each = self.b, self.lane, self.counters, 1 << TILE.digit
        for n in range(each):
            counters[lane + n * self.lanes] = 0
        before = []
        for digit in digits:
            place = lane + digit * self.lanes
            found = counters[place]
            counters[place] = found + 1
            before.append(found)
        b.barrier()
        # Counters follow each other by digit and then by lane, and so do the words.
        counts = [counters[lane * each + n] for n in range(each)]
        total = counts[0]
        for count in counts[1:]:
            total = total + count
        scanned_lanes(b, [self.sums], (total,), lambda s, t: (s[0] + t[0],))
        running = self.sums[lane] - total
        for n, count in enumerate(counts):
            counters[lane * each + n] = running
            running = running + count
        b.barrier()
        return [
            counters[lane + digit * self.lanes] + count
            for digit, count in zip(digits, before, strict=True)
        ]

    def add(self) -> None:
        """Add what goes to one place to the copy, by whoever stands at its first write."""
        b = self.b
        for position in self.across():
            place = self.place_at(position)
            before = self.place_at(b.max(position - 1, 0))
            begins = (position == 0) | (before != place)
            with b.if_(begins & (place < self.places)):
                with b.while_([self.copy[place], position]) as loop:
                    at = loop.carried[1]
                    here = self.place_at(b.min(at, self.size - 1)) == place
                    loop.condition((at < self.size) & here)
                    total, at = loop.carried
                    word = self.words[_spread(at)]
                    value = self.values[b.cast(word & (self.size - 1), int32)]
                    joined = self.writes.collision.join(self.each.k, total, value)
                    loop.yield_(joined, at + 1)
                self.copy[place] = loop.results[0]

    def place_at(self, position: Value) -> Value:
        """Return the place of the write at a sorted position."""
        b = self.b
        return b.cast(self.words[_spread(position)] >> self.bits, int32)

    def across(self) -> list[Value]:
        """Return the positions in the tile that this lane reads: neighbours by lanes."""
        return [self.lane + n * self.lanes for n in range(TILE.items)]

    def along(self) -> list[Value]:
        """Return the positions of this lane's words: neighbours in a row."""
        return [self.lane * TILE.items + n for n in range(TILE.items)]


def _spread(place: Value) -> Value:
    """Return where a word lies: neighbours of a lane are in different banks."""
    return place + place // _BANKS
