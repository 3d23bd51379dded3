"""Folds of which neighbouring outputs are a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pyrite.backend.cube.operand import unravel
from pyrite.backend.cube.skeleton.fold.config import ReductionConfig
from pyrite.backend.cube.skeleton.fold.fold import State
from pyrite.backend.cube.skeleton.fold.invocation import Invocation
from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.fold.reduction import Reduction
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.backend.cube.skeleton.turned import chunk_of, read_chunk
from pyrite.kernel import Value
from pyrite.types import int32, int64


class ColumnFold(Invocation):
    """An invocation folds ``vectors`` of neighbouring outputs."""

    def __init__(
        self, fused: Fused, reduction: Reduction, config: ReductionConfig, grid: int
    ) -> None:
        #: Whether elements that are folded are neighbours, of outputs that lie apart.
        self.is_turned = _is_turned(reduction, config)
        # In wide indices a place is the address of its line and the loop's counter, and no sum.
        index = int64 if self.is_turned else int32
        super().__init__(fused, reduction, config, grid, index)

    def shared_out(self, local: Value) -> tuple[Value, Value]:
        """Return which unit of its workgroup an invocation has, and which part of it."""
        return local % self.slots, local // self.slots

    def lane_step(self) -> int:
        """Return how far apart in a workgroup the invocations of one unit are."""
        return self.slots

    def fold_unit(self, part: Value, unit: Value, exists: Value | None) -> None:
        """Fold vectors of outputs; the parts of a column lie in rows of outputs."""
        config = self.config
        row, column = self.column(unit)
        if config.first and config.parts > 1:
            self.write_blocks(part, row, column)
            return
        begin, end = self.bounds(part)
        place = part * self.problem.count + row * self.length
        for i, state in enumerate(self.columns(begin, end, row, column, config.levels)):
            state = self.across_lanes(state, config.width)
            self.finish_vector(place, column, i, state, exists)

    def write_blocks(self, part: Value, row: Value, column: Value) -> None:
        """Write the states of a part's blocks, each to a row of outputs of its own."""
        b, config, size = self.b, self.config, self.problem.size
        blocks = -(-size // config.first)
        per_part = -(-blocks // config.parts)
        begin = b.min(part * per_part, blocks)
        with b.for_(begin, b.min(begin + per_part, blocks)) as loop:
            first = loop.index * config.first
            end = b.min(first + config.first, size)
            place = loop.index * self.problem.count + row * self.length
            for i, state in enumerate(self.columns(first, end, row, column, 1)):
                self.finish_vector(place, column, i, state, None)

    @property
    def length(self) -> int:
        """How many outputs are neighbours."""
        return self.problem.outputs[-1] if self.problem.outputs else 1

    def column(self, unit: Value) -> tuple[Value, Value]:
        """Return the row of neighbouring outputs that a unit is in, and the first of its own."""
        together = self.config.width * self.config.vectors
        per_row = -(-self.length // together)
        return unit // per_row, unit % per_row * together

    def start(self, column: Value | int, i: int) -> Value:
        """Return the first output of a vector of a unit."""
        b, ahead, overlaps = self.b, i * self.config.width, self.config.overlaps
        if overlaps == "units":
            unit = b.min(b.index(column), self.length - self.config.width * self.config.vectors)
            return unit + ahead if i else unit
        first = b.index(column + ahead if i else column)
        return b.min(first, self.length - self.config.width) if overlaps else first

    def mask(self, column: Value, i: int) -> Value | None:
        """Return which outputs of a vector there are, None for all."""
        together = self.config.width * self.config.vectors
        if together == 1 or self.config.overlaps or self.length % together == 0:
            return None
        return self.places(column + i * self.config.width) < self.length

    def columns(
        self, begin: Value, end: Value, row: Value, column: Value, levels: int
    ) -> list[State]:
        """Return the states of neighbouring vectors of outputs, of elements between bounds."""
        b = self.b
        outer = (
            [*unravel(b, row, self.problem.outputs[:-1]), column] if self.problem.outputs else []
        )
        vectors = range(self.config.vectors)
        starts = [(self.start(column, i), self.mask(column, i)) for i in vectors]

        def taken(index: Value) -> Iterator[State]:
            inner = unravel(b, index, self.problem.reduced)
            position = self.spread(index)
            for start, mask in starts:
                at = [*outer[:-1], start] if outer else []
                yield self.loaded([*at, *inner], position, mask)

        step = self.config.lanes
        if self.is_turned:
            return self.folded_turned(begin, end, outer, taken, levels)
        return self.folded(begin + self.lane, end, step, taken, levels)

    def folded_turned(
        self, first: Value, end: Value, outer: list[Value | int],
        taken: Callable[[Value], Iterable[State]], levels: int,
    ) -> list[State]:  # fmt: skip
        """Return the states of elements, of which vectors are read along their lines and turned."""
        b = self.b
        if levels > 1:
            state = self.empty()
            block = span_of(levels, self.config.first)
            if levels == 2:
                # An addition waits for the one before it; two blocks do not wait for each other.
                whole = first + (end - first) // (2 * block) * (2 * block)
                with b.for_(first, whole, step=2 * block, carried=state) as loop:
                    joined: State = tuple(loop.carried)
                    for other in self.turned_blocks([loop.index, loop.index + block], block, outer):
                        joined = self.fold.join(self.k, joined, other)
                    loop.yield_(*joined)
                first, state = whole, tuple(loop.results)
            with b.for_(first, end, step=block, carried=state) as loop:
                stop = b.min(loop.index + block, end)
                of = self.folded_turned(loop.index, stop, outer, taken, levels - 1)
                loop.yield_(*self.fold.join(self.k, loop.carried, of[0]))
            return [tuple(loop.results)]
        width = self.config.width
        count = (end - first) // width * width
        whole = first + count
        (state,) = self.turned_blocks([first], count, outer)
        with b.for_(whole, end, carried=state) as rest:
            (more,) = taken(rest.index)
            rest.yield_(*self.fold.join(self.k, rest.carried, more))
        return [tuple(rest.results)]

    def turned_blocks(
        self, starts: Sequence[Value], count: Value | int, outer: list[Value | int]
    ) -> list[State]:
        """Return the states of blocks of so many elements, whole vectors, that begin there."""
        b, width = self.b, self.config.width
        last = self.length - 1
        start = self.start(outer[-1], 0)
        lines = [[*outer[:-1], b.min(start + j, last)] for j in range(width)]
        states = [self.empty()] * len(starts)
        carried = [x for state in states for x in state]
        with b.for_(0, count, step=self.chunk, carried=carried) as loop:
            more: list[Value] = []
            for state, first in zip(self.states(loop.carried), starts, strict=True):
                more += self.turned_tile(state, lines, first + loop.index)
            loop.yield_(*more)
        return self.states(loop.results)

    @property
    def chunk(self) -> int:
        """How many elements of each line are turned at once."""
        return chunk_of(self.config.width, self.sources[0].layout.dtype.itemsize)

    def turned_tile(
        self, state: State, lines: Sequence[list[Value | int]], first: Value
    ) -> Sequence[Value]:
        """Return a state that has taken in a chunk of each line."""
        (source,), chunk = self.sources, self.chunk

        def read(line: int) -> Value:
            return source.load_along(source.at([*lines[line], first]), chunk)

        for i, x in enumerate(read_chunk(read, self.config.width, chunk)):
            position = self.spread(first + i)
            more = self.fold.take(self.k, x, position) if self.takes else (x,)
            state = self.fold.join(self.k, state, more)
        return state

    def finish_vector(
        self, line: Value, column: Value, i: int, state: State, exists: Value | None
    ) -> None:
        """Write a vector of a unit, of a line of outputs that begins at a place."""
        start, mask = self.start(column, i), self.mask(column, i)
        if not self.config.overlaps:
            self.finish(line + start, state, exists, mask)
            return
        # What it shares with the vector before it, or the unit, that one writes.
        ahead = i * self.config.width
        own = column + ahead if i and self.config.overlaps == "vectors" else column
        with self.b.if_(start == column + ahead):
            self.finish(line + start, state, exists)
        with self.b.if_(start < column + ahead):
            self.finish(line + start, state, exists, self.places(start) >= self.spread(own))


def _is_turned(reduction: Reduction, config: ReductionConfig) -> bool:
    problem = reduction.problem
    is_apart = bool(problem.outputs) and problem.output_strides[-1] not in (0, 1)
    is_plain = is_apart and problem.reduced_strides == (1,) and len(reduction.sources) == 1
    return is_plain and config.first > 0 and config.width > 1
