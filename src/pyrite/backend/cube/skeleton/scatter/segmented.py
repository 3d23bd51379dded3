"""Writes in segments: those that go to one place, in order, found by a stable sort.

The places of all writes are sorted, and whoever stands at the beginning of a segment of equal ones
does its writes, in the order in which they were given.  Long segments are cut at every ``chunk``
positions: the pieces in the middle are joined on their own first, so that a million writes to one
place do not wait for each other.  Nothing depends on who comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import unravel
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.skeleton.sort import argsort_axis
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.op.rule import ASSIGN
from pyrite.types import Shape, TensorType, element_count, uint32

#: Writes of a long segment that are read at once.
_AHEAD: Final = 8


@dataclass(frozen=True, slots=True)
class SortedWrites:
    """Sorted writes of shape (K, *lines) to ``sizes``; the place of those outside is the last."""

    keys: CubeTensor
    order: CubeTensor
    sizes: Shape

    @property
    def count(self) -> int:
        """The number of writes on each line."""
        return self.keys.shape[0]

    @property
    def lines(self) -> Shape:
        """The shape of the lines."""
        return self.keys.shape[1:]

    @property
    def extents(self) -> Shape:
        """What kernels ask for: the count, and the sizes."""
        return (self.count, *self.sizes)


def write_in_segments(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Do the writes to a target that holds the base already."""
    if writes.count == 0 or target.type.size == 0:
        return
    found = _sorted(launcher, writes, target.shape[: len(writes.reads)])
    if writes.collision is ASSIGN:
        _assign_last(launcher, found, writes, target)
    else:
        _join(launcher, found, writes, target, config.chunk)


def _sorted(launcher: Launcher, writes: Writes, sizes: Shape) -> SortedWrites:
    """Return the writes to axes of sizes, sorted.  Lines that share indices are sorted once."""
    shared = tuple(
        n if any(i.strides[1 + axis] for i in writes.indices) else 1
        for axis, n in enumerate(writes.lines)
    )
    once = [_first_of(i, (writes.count, *shared)) for i in writes.indices]
    outside = element_count(sizes)
    keys = launcher.empty(TensorType((writes.count, *shared), uint32))

    def body(each: Each) -> None:
        b, sizes = each.b, each.extents
        number, *line = each.at
        inside, index = writes.place(each, b.index(number), line, sizes)
        key = b.index(0)
        for i, size in zip(index, sizes, strict=True):
            key = key * size + i
        chosen = b.select(inside, key, element_count(sizes))
        each.operands[-1][each.at] = b.cast(chosen, uint32)

    variant = content_of(writes.variant)
    for_each(
        launcher, "scatter_keys", variant, keys.shape, [*once, *writes.tables], keys, body,
        extents=sizes, fault=writes.fault,
    )  # fmt: skip
    order = argsort_axis(launcher, keys, 0, limit=outside + 1)
    shape = (writes.count, *writes.lines)
    return SortedWrites(keys.broadcast_to(shape), order.broadcast_to(shape), sizes)


def _first_of(x: CubeTensor, leading: Shape) -> CubeTensor:
    """Return the first elements along leading axes."""
    size = (*leading, *x.shape[len(leading) :])
    return x.sliced((0,) * len(size), size, (1,) * len(size))


class _Segment:
    """Sorted writes inside a kernel, on one line: their keys and order are its first operands."""

    def __init__(self, each: Each, writes: Writes, line: list[Value | int]) -> None:
        self.each, self.writes, self.line = each, writes, line
        self.count, *sizes = each.extents
        self.sizes = tuple(sizes)
        self.keys, self.order = each.operands[:2]

    def is_kept(self, key: Value) -> Value:
        """Whether a key is a place, and not that of what is dropped."""
        return key != element_count(self.sizes)

    def write(self, i: Value, mask: Value | None = None) -> Value:
        """Return the number of the write at a sorted position."""
        b, order = self.each.b, self.order
        return b.index(order.load(order.at([i, *self.line]), mask=mask))

    def key(self, i: Value, mask: Value | None = None) -> Value:
        """Return the key at a sorted position."""
        keys = self.keys
        return keys.load(keys.at([self.write(i, mask), *self.line]), mask=mask)

    def has(self, i: Value, key: Value) -> Value:
        """Whether there is a write at a sorted position, with that key."""
        is_there = (i >= 0) & (i < self.count)
        return is_there & (self.key(i, is_there) == key)

    def target(self, key: Value) -> list[Value | int]:
        """Return the coordinates of the place of a key."""
        b = self.each.b
        place = b.cast(key, b.index_type.dtype)
        return [*unravel(b, place, self.sizes), *self.line]

    def update(self, i: Value) -> Value:
        """Return what is written by the write at a sorted position."""
        return self.writes.update(self.each, 2, self.write(i), self.line)

    def fold(self, start: Value, i: Value, key: Value, stop: Value) -> Value:
        """Join the updates from i up to stop to a start, as long as they have the key.

        Most segments are short, so the first are read one by one.
        """
        b = self.each.b
        value, at = self._fold_short(start, i, key, b.min(stop, i + _AHEAD))
        return self.fold_long(value, at, key, b.select(at < i + _AHEAD, at, stop))

    def fold_long(self, start: Value, i: Value, key: Value, stop: Value) -> Value:
        """Do what `fold` does, and read several writes at once.

        A write is found through its number, so one after the other would wait twice for each, and
        so would the question for its key: where they end is searched before.
        """
        b = self.each.b
        end = self._end(i, key, b.min(stop, self.count))
        with b.while_([start, i]) as loop:
            loop.condition(loop.carried[1] < end)
            value, at = loop.carried
            numbers = [self.write(b.min(at + n, end - 1)) for n in range(_AHEAD)]
            updates = [self.writes.update(self.each, 2, n, self.line) for n in numbers]
            for n, update in enumerate(updates):
                joined = self.writes.collision.join(self.each.k, value, update)
                value = b.select(at + n < end, joined, value)
            loop.yield_(value, at + _AHEAD)
        return loop.results[0]

    def _end(self, i: Value, key: Value, stop: Value) -> Value:
        """Return the first position from i on that has another key, or is ``stop``."""
        b = self.each.b
        with b.while_([i, stop]) as loop:
            loop.condition(loop.carried[0] < loop.carried[1])
            low, high = loop.carried
            middle = (low + high) // 2
            has_key = self.key(middle) == key
            loop.yield_(b.select(has_key, middle + 1, low), b.select(has_key, high, middle))
        return loop.results[0]

    def _fold_short(self, start: Value, i: Value, key: Value, stop: Value) -> tuple[Value, Value]:
        """Return what is joined one by one, and the position behind it."""
        b = self.each.b
        stop = b.min(stop, self.count)
        with b.while_([start, i]) as loop:
            value, at = loop.carried
            is_there = at < stop
            loop.condition(is_there & (self.key(b.min(at, self.count - 1)) == key))
            value, at = loop.carried
            loop.yield_(self.writes.collision.join(self.each.k, value, self.update(at)), at + 1)
        value, at = loop.results
        return value, at


def _assign_last(
    launcher: Launcher, found: SortedWrites, writes: Writes, target: CubeTensor
) -> None:
    """Write the last of each segment."""

    def body(each: Each) -> None:
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        segment, i = _Segment(each, writes, line), b.index(number)
        key = segment.key(i)
        with b.if_(segment.is_kept(key) & ~segment.has(i + 1, key)):
            result[segment.target(key)] = segment.update(i)

    variant = content_of(writes.variant)
    sources = [found.keys, found.order, *writes.values]
    for_each(
        launcher, "scatter_last", variant, found.keys.shape, sources, target, body,
        extents=found.extents, access="read_write",
    )  # fmt: skip


def _join(
    launcher: Launcher, found: SortedWrites, writes: Writes, target: CubeTensor, chunk: int
) -> None:
    """Join the updates of each segment to what is in its place."""
    sources = [found.keys, found.order, *writes.values]
    variant = content_of((writes.variant, chunk))
    join = writes.collision.join

    def begin(each: Each) -> None:
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        segment, i = _Segment(each, writes, line), b.index(number)
        key = segment.key(i)
        with b.if_(segment.is_kept(key) & ~segment.has(i - 1, key)):
            place = segment.target(key)
            result[place] = segment.fold(result[place], i, key, (i // chunk + 1) * chunk)

    for_each(
        launcher, "scatter_segments", variant, found.keys.shape, sources, target, begin,
        extents=found.extents, access="read_write",
    )  # fmt: skip
    chunks = -(-found.count // chunk)
    if chunks == 1:
        return
    pieces = launcher.empty(TensorType((chunks, *found.lines), target.dtype))

    def middle(each: Each) -> None:
        """Fold what a segment has at the beginning of a chunk that is not its own beginning."""
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        segment, i = _Segment(each, writes, line), b.index(number) * chunk
        key = segment.key(i)
        with b.if_(segment.is_kept(key) & segment.has(i - 1, key)):
            result[each.at] = segment.fold_long(segment.update(i), i + 1, key, i + chunk)

    for_each(
        launcher, "scatter_pieces", variant, pieces.shape, sources, pieces, middle,
        extents=found.extents,
    )  # fmt: skip

    def end(each: Each) -> None:
        """Join the pieces of the segment that begins in a chunk and goes on in the next."""
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        chunk_number = b.index(number)
        segment, first = _Segment(each, writes, line), chunk_number * chunk
        following = first + chunk
        key = segment.key(b.min(following, segment.count) - 1)
        begins = ~(segment.has(first, key) & segment.has(first - 1, key))
        with b.if_(segment.is_kept(key) & begins & segment.has(following, key)):
            place = segment.target(key)
            with b.while_([result[place], chunk_number + 1]) as loop:
                loop.condition(segment.has(loop.carried[1] * chunk, key))
                value, at = loop.carried
                loop.yield_(join(each.k, value, each.operands[2][[at, *line]]), at + 1)
            result[place] = loop.results[0]

    for_each(
        launcher, "scatter_joined", variant, pieces.shape, [found.keys, found.order, pieces],
        target, end, extents=found.extents, access="read_write",
    )  # fmt: skip
