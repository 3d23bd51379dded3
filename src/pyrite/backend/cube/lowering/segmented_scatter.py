"""Writes by index in runs: those that go to one place, in order, found by a stable sort.

The places of all writes are sorted, and whoever stands at the beginning of a run of equal ones does
the writes of that run, in the order in which they were given.  Long runs are cut at every ``chunk``
positions: the pieces in the middle are joined on their own first, so that a million writes to one
place do not wait for each other.  Nothing depends on who comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import unravel
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.sort import argsort_axis
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import Shape, TensorType, element_count, uint32

Join = Callable[[RecordingAlgebra, Value, Value], Value]
#: Of a point, the number of a write and its line: whether it is inside, and where it goes.
Place = Callable[[Each, Value, list[Value | int]], tuple[Value, list[Value]]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Sorted writes of shape (K, *lines) to ``sizes``; the place of those outside is the last."""

    keys: CubeTensor
    order: CubeTensor
    sizes: Shape

    @property
    def count(self) -> int:
        """How many writes there are on each line."""
        return self.keys.shape[0]

    @property
    def lines(self) -> Shape:
        """The shape of the lines."""
        return self.keys.shape[1:]

    @property
    def outside(self) -> int:
        """The key of what is dropped."""
        return element_count(self.sizes)


def sorted_writes(
    launcher: Launcher, indices: CubeTensor, sizes: Shape, place: Place, fault: str | None
) -> Runs:
    """Return the writes of vectors of indices (K, *lines, D) to D axes of sizes, sorted."""
    # Lines that share their indices are sorted once.
    count, *lines, depth = indices.shape
    shared = tuple(
        1 if stride == 0 else n for n, stride in zip(lines, indices.strides[1:-1], strict=True)
    )
    once = indices.sliced((0,) * (len(lines) + 2), (count, *shared, depth), (1,) * (len(lines) + 2))
    outside = element_count(sizes)
    keys = launcher.empty(TensorType((count, *shared), uint32))

    def body(each: Each) -> None:
        b = each.b
        number, *line = each.at
        inside, index = place(each, b.index(number), line)
        key = b.index(0)
        for i, size in zip(index, sizes, strict=True):
            key = key * size + i
        each.operands[-1][each.at] = b.cast(b.select(inside, key, outside), uint32)

    variant = f"{sizes} {fault is not None}"
    for_each(launcher, "scatter_keys", variant, keys.shape, [once], keys, body, fault=fault)
    order = argsort_axis(launcher, keys, 0, limit=outside + 1)
    shape = (count, *lines)
    return Runs(keys.broadcast_to(shape), order.broadcast_to(shape), sizes)


class _Run:
    """Sorted writes inside a kernel, on one line."""

    def __init__(self, each: Each, runs: Runs, line: list[Value | int]) -> None:
        self.each, self.runs, self.line = each, runs, line
        self.keys, self.order = each.operands[:2]

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
        is_there = (i >= 0) & (i < self.runs.count)
        return is_there & (self.key(i, is_there) == key)

    def target(self, key: Value) -> list[Value | int]:
        """Return the coordinates of the place of a key."""
        b = self.each.b
        place = b.cast(key, b.index_type.dtype)
        return [*unravel(b, place, self.runs.sizes), *self.line]

    def update(self, i: Value) -> Value:
        """Return what is written by the write at a sorted position."""
        return self.each.operands[2][[self.write(i), *self.line]]

    def fold(self, join: Join, start: Value, i: Value, key: Value, stop: Value) -> Value:
        """Join the updates from i up to stop to a start, as long as they have the key."""
        b = self.each.b
        stop = b.min(stop, self.runs.count)
        with b.while_([start, i]) as loop:
            value, at = loop.carried
            is_there = at < stop
            loop.condition(is_there & (self.key(b.min(at, self.runs.count - 1)) == key))
            value, at = loop.carried
            loop.yield_(join(self.each.k, value, self.update(at)), at + 1)
        return loop.results[0]


def assign_runs(
    launcher: Launcher, runs: Runs, updates: CubeTensor | None, target: CubeTensor
) -> None:
    """Write the last of each run, or its number where there are no updates."""

    def body(each: Each) -> None:
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        run, i = _Run(each, runs, line), b.index(number)
        key = run.key(i)
        with b.if_((key != runs.outside) & ~run.has(i + 1, key)):
            value = run.write(i) if updates is None else run.update(i)
            result[run.target(key)] = b.cast(value, result.layout.dtype.compute)

    sources = [runs.keys, runs.order, *(() if updates is None else (updates,))]
    variant = content_of((runs.sizes, updates is None))
    for_each(
        launcher, "scatter_last", variant, runs.keys.shape, sources, target, body,
        access="read_write",
    )  # fmt: skip


def join_runs(
    launcher: Launcher, runs: Runs, updates: CubeTensor, target: CubeTensor, reduction: str,
    join: Join, chunk: int,
) -> None:  # fmt: skip
    """Join the updates of each run to what is in its place."""
    sources = [runs.keys, runs.order, updates]
    variant = content_of((runs.sizes, reduction, chunk))

    def begin(each: Each) -> None:
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        run, i = _Run(each, runs, line), b.index(number)
        key = run.key(i)
        with b.if_((key != runs.outside) & ~run.has(i - 1, key)):
            place = run.target(key)
            result[place] = run.fold(join, result[place], i, key, (i // chunk + 1) * chunk)

    for_each(
        launcher, "scatter_runs", variant, runs.keys.shape, sources, target, begin,
        access="read_write",
    )  # fmt: skip
    chunks = -(-runs.count // chunk)
    if chunks == 1:
        return
    pieces = launcher.empty(TensorType((chunks, *runs.lines), target.dtype))

    def middle(each: Each) -> None:
        """Fold what a run has at the beginning of a chunk that is not its own beginning."""
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        run, i = _Run(each, runs, line), b.index(number) * chunk
        key = run.key(i)
        with b.if_((key != runs.outside) & run.has(i - 1, key)):
            result[each.at] = run.fold(join, run.update(i), i + 1, key, i + chunk)

    for_each(launcher, "scatter_pieces", variant, pieces.shape, sources, pieces, middle)

    def end(each: Each) -> None:
        """Join the pieces of the run that begins in a chunk and goes on in the next."""
        b, result = each.b, each.operands[-1]
        number, *line = each.at
        chunk_number = b.index(number)
        run, first = _Run(each, runs, line), chunk_number * chunk
        following = first + chunk
        key = run.key(b.min(following, runs.count) - 1)
        begins = ~(run.has(first, key) & run.has(first - 1, key))
        with b.if_((key != runs.outside) & begins & run.has(following, key)):
            place = run.target(key)
            with b.while_([result[place], chunk_number + 1]) as loop:
                loop.condition(run.has(loop.carried[1] * chunk, key))
                value, at = loop.carried
                loop.yield_(join(each.k, value, each.operands[2][[at, *line]]), at + 1)
            result[place] = loop.results[0]

    for_each(
        launcher, "scatter_joined", variant, pieces.shape, [runs.keys, runs.order, pieces], target,
        end, access="read_write",
    )  # fmt: skip
