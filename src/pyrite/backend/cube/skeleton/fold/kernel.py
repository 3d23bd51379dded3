"""The kernel of a reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.operand import Layout, Operand, halves, iota, unravel, workgroup_of
from pyrite.backend.cube.skeleton.finish import Finish
from pyrite.backend.cube.skeleton.fold.config import (
    BLOCK,
    Problem,
    ReductionConfig,
    candidates,
    select,
    units,
)
from pyrite.backend.cube.skeleton.fold.fold import KernelFold, State
from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.backend.cube.skeleton.turned import chunk_of, read_chunk
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, int32, int64


class _FoldKernel:
    """The kernel of one fold, while it is being written.

    Without ``ends`` it writes states, each value to a target of its own; and it joins such states,
    rather than take in elements, where it has a source for each of their values.
    """

    def __init__(
        self, fused: Fused, reduction: Reduction, config: ReductionConfig, grid: int
    ) -> None:
        assert fused.body is not None
        fold: KernelFold = fused.body.of
        self.fold = fold.ending(count=reduction.count)
        self.problem, self.config = reduction.problem, config
        self.takes, self.ends = reduction.takes, reduction.ends
        #: Whether elements that are folded are neighbours, of outputs that lie apart.
        self.is_turned = _is_turned(reduction, config)
        # In wide indices a place is the address of its line and the loop's counter, and no sum.
        index = int64 if self.is_turned else int32
        b = self.b = KernelBuilder(
            fold.name, workgroup_size=config.workgroup_size, grid=grid, index=index
        )
        self.k = RecordingAlgebra(b)
        self.sources = [Operand(b, f"x{i}", of, "read") for i, of in enumerate(reduction.sources)]
        self.made = Finish(b, fused.epilogue)
        targets = fused.outputs or [Layout(target, (1,)) for target in reduction.targets]
        self.targets = [
            Operand(b, f"out{i}", _layout_of(target), "write") for i, target in enumerate(targets)
        ]

    def write(self) -> None:
        b, config = self.b, self.config
        #: How many outputs, or vectors of them, a workgroup has, and which one an invocation.
        self.slots = config.workgroup_size // config.lanes
        local = b.local_id(0)
        if config.along == "columns":
            self.slot, self.lane = local % self.slots, local // self.slots
        else:
            self.slot, self.lane = local // config.lanes, local % config.lanes
        self.units = units(self.problem, config)
        self.groups = -(-self.units // self.slots)
        group = workgroup_of(b)
        with b.if_(group < self.groups * config.parts):
            part, first = b.index(0), group
            if config.parts > 1:
                part, first = group // self.groups, group % self.groups
            unit = first * self.slots + self.slot
            if config.lanes > 1:
                # All lanes come to the barriers, so those beyond the last unit repeat it.
                self.fold_unit(part, b.min(unit, self.units - 1), unit < self.units)
                return
            with b.if_(unit < self.units):
                self.fold_unit(part, unit, None)

    def fold_unit(self, part: Value, unit: Value, exists: Value | None) -> None:
        """Fold one output, or vectors of them; the parts of a column lie in rows of outputs."""
        config = self.config
        if config.abreast > 1:
            self.fold_rows(unit)
            return
        if config.along == "rows":
            state = self.across_lanes(self.across_width(self.row(part, unit)), 1)
            self.finish(unit * config.parts + part, state, exists)
            return
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

    def bounds(self, part: Value) -> tuple[Value, Value]:
        """Return where a part of the reduced side begins and ends."""
        b, size, config = self.b, self.problem.size, self.config
        if config.parts == 1:
            return b.index(0), b.index(size)
        step = config.lanes * config.width * config.vectors if config.along == "rows" else 1
        per_part = -(-size // (config.parts * step)) * step
        begin = part * per_part
        return b.min(begin, size), b.min(begin + per_part, size)

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

    def folded(
        self,
        first: Value,
        end: Value,
        step: int,
        taken: Callable[[Value], Iterable[State]],
        levels: int,
    ) -> list[State]:
        """Return the states that take in what is at each step, block by block in levels."""
        ordered = self.config.first
        block = span_of(levels, ordered) if ordered else step * BLOCK ** (levels - 1)
        with self.b.for_(first, end, step=block, carried=self.empty()) as loop:
            more = taken(loop.index)
            if levels > 1:
                stop = self.b.min(loop.index + block, end)
                more = self.folded(loop.index, stop, step, taken, levels - 1)
            joined: list[Value] = []
            for state, other in zip(self.states(loop.carried), more, strict=True):
                joined += self.fold.join(self.k, state, other)
            loop.yield_(*joined)
        return self.states(loop.results)

    def empty(self) -> State:
        """Return the states of no elements, one after another."""
        together = self.config.vectors * self.config.abreast
        return self.fold.empty(self.b, self.config.width) * together

    def states(self, values: Sequence[Value]) -> list[State]:
        """Return the states that a loop carries."""
        size = len(self.fold.start)
        return [tuple(values[i : i + size]) for i in range(0, len(values), size)]

    def fold_rows(self, unit: Value) -> None:
        """Fold several rows at once, behind the last row that one again, which is not written."""
        b, abreast = self.b, self.config.abreast
        first, last = unit * abreast, self.problem.count - 1
        rows = [b.min(first + i if i else first, last) for i in range(abreast)]
        for i, state in enumerate(self.rows(b.index(0), rows)):
            exists = first + i <= last if i else None
            self.finish(rows[i], self.across_width(state), exists)

    def row(self, part: Value, output: Value) -> State:
        """Return the state of a part of a row."""
        return self.rows(part, [output])[0]

    def rows(self, part: Value, outputs: Sequence[Value]) -> list[State]:
        """Return the states of a part of each of some rows."""
        b, width, lanes, vectors = self.b, self.config.width, self.config.lanes, self.config.vectors
        begin, end = self.bounds(part)
        outers = [unravel(b, output, self.problem.outputs) for output in outputs]
        first = begin if lanes == 1 else begin + self.lane * width
        step, size = lanes * width, self.problem.size
        # What is left behind whole steps is taken in by a second loop, vectors that end beyond the
        # row by a third, masked one of at most one turn.
        is_whole = size % width == 0
        is_even = vectors == 1 or size % (step * vectors * self.config.parts) == 0
        whole = end if is_whole else end - (width - 1)
        stop = whole if is_even else end - (step * vectors - 1)

        def vectors_at(index: Value) -> Iterator[State]:
            for outer in outers:
                for i in range(vectors):
                    yield self.taken(outer, index + i * step if i else index, None)

        states = self.folded(first, stop, step * vectors, vectors_at, self.config.levels)
        parts = [states[i : i + vectors] for i in range(0, len(states), vectors)]
        ended = []
        for outer, row in zip(outers, map(self.joined, parts), strict=True):
            state = row
            if not is_even:
                taken_in = (end - first) // (step * vectors) * (step * vectors)
                state = self.rest(outer, first + taken_in, whole, state)
            ended.append(state if is_whole else self.tail(outer, first, end, state))
        return ended

    def tail(self, outer: list[Value | int], first: Value, end: Value, state: State) -> State:
        """Return a state that takes in a vector which ends beyond the row."""
        b, width = self.b, self.config.width
        step = self.config.lanes * width
        tail = end - end % width
        is_mine = (tail >= first) & ((tail - first) % step == 0)
        start = b.select(is_mine, tail, end)
        with b.for_(start, end, step=step, carried=state) as last:
            mask = self.places(last.index) < self.spread(end)
            taken = self.taken(outer, last.index, mask)
            empty = self.fold.empty(b, width)
            masked = tuple(b.select(mask, x, y) for x, y in zip(taken, empty, strict=True))
            last.yield_(*self.fold.join(self.k, last.carried, masked))
        return last.results

    def rest(self, outer: list[Value | int], begin: Value, stop: Value, state: State) -> State:
        """Return a state that takes in the whole vectors from begin on, one by one."""
        with self.b.for_(begin, stop, step=self.config.width, carried=state) as loop:
            taken = self.taken(outer, loop.index, None)
            loop.yield_(*self.fold.join(self.k, loop.carried, taken))
        return loop.results

    def taken(self, outer: list[Value | int], index: Value, mask: Value | None) -> State:
        inner = unravel(self.b, index, self.problem.reduced)
        return self.loaded([*outer, *inner], self.places(index), mask)

    def loaded(self, at: Sequence[Value | int], position: Value, mask: Value | None) -> State:
        """Return the states of neighbouring elements, or the neighbouring states, of the source."""
        width, axis = self.config.width, self.problem.axis_along(self.config)
        values = tuple(
            source.load_along(source.at(at), width, axis=axis, mask=mask, is_aligned=True)
            for source in self.sources
        )
        return self.fold.take(self.k, values[0], position) if self.takes else values

    def places(self, first: Value) -> Value:
        """Return the positions of a vector of reduced elements."""
        width = self.config.width
        return first if width == 1 else first + iota(self.b, width)

    def spread(self, x: Value) -> Value:
        width = self.config.width
        return x if width == 1 else self.b.splat(x, width)

    def across_width(self, state: State) -> State:
        """Join the elements of the vectors."""
        while state[0].width > 1:
            low, high = halves(self.b, state)
            state = self.fold.join(self.k, tuple(low), tuple(high))
        return state

    def joined(self, states: list[State]) -> State:
        """Join states, halves at a time."""
        while len(states) > 1:
            half = len(states) // 2
            pairs = zip(states[:half], states[half:], strict=True)
            states = [self.fold.join(self.k, s, t) for s, t in pairs]
        return states[0]

    def across_lanes(self, state: State, width: int) -> State:
        """Join the states of a workgroup's lanes in shared memory, halves at a time."""
        b, lanes = self.b, self.config.lanes
        if lanes == 1:
            return state
        size = self.config.workgroup_size * width
        shared = [b.shared(dtype, size) for _, dtype in self.fold.start]
        is_column = self.config.along == "columns"
        step = (self.slots if is_column else 1) * width
        place = b.local_id(0) * width

        def put(of: State) -> None:
            for memory, x in zip(shared, of, strict=True):
                memory.store(place, x, is_aligned=True)

        def get(place: Value) -> State:
            return tuple(memory.load(place, width=width, is_aligned=True) for memory in shared)

        put(state)
        half = lanes // 2
        while half:
            b.barrier()
            with b.if_(self.lane < half):
                put(self.fold.join(self.k, get(place), get(place + half * step)))
            half //= 2
        return get(place)

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

    def finish(
        self, place: Value, state: State, exists: Value | None, mask: Value | None = None
    ) -> None:
        """Write a state, its end, or what is made of that; of several lanes the first does."""
        results: Sequence[Value] = self.fold.end(self.k, state) if self.ends else state

        def write() -> None:
            if self.made.stage is None:
                for target, result in zip(self.targets, results, strict=True):
                    target.store_along(place, result, mask=mask)
                return
            made = self.made(results[0], [place], mask)
            for target, result in zip(self.targets, made, strict=True):
                target.store_along(target.at([place]), result, mask=mask)

        if exists is None:
            write()
            return
        with self.b.if_(exists & (self.lane == 0)):
            write()


def _is_turned(reduction: Reduction, config: ReductionConfig) -> bool:
    problem = reduction.problem
    is_apart = bool(problem.outputs) and problem.output_strides[-1] not in (0, 1)
    is_plain = is_apart and problem.reduced_strides == (1,) and len(reduction.sources) == 1
    return is_plain and config.first > 0 and config.width > 1


def _layout_of(target: object) -> Layout:
    assert isinstance(target, Layout), "what a fold writes has one axis"
    return target


@dataclass(frozen=True, slots=True)
class Reduction:
    """A launch of a fold: both sides of its input, and what it reads and writes.

    A state has so many ``values``.  Elements are taken in, or states without ``takes``; results are
    written, or states without ``ends``.  ``count`` is what the fold's end is told.
    """

    problem: Problem
    values: int
    sources: tuple[Layout, ...] = ()
    targets: tuple[DType, ...] = ()
    takes: bool = True
    ends: bool = True
    count: int = extent(default=0)


class FoldSkeleton:
    """Kernels of folds over axes; the fold is the body."""

    name = "fold"

    def candidates(self, problem: Reduction, machine: Machine) -> tuple[ReductionConfig, ...]:
        """Return the configs that are right for both sides of the input."""
        return candidates(problem.problem, machine)

    def select(self, problem: Reduction, machine: Machine) -> ReductionConfig:
        """Return the one for so many values of a state."""
        return select(problem.problem, machine, problem.values)

    def workgroups(self, problem: Reduction, config: ReductionConfig) -> int:
        """Return how many workgroups run the kernel."""
        per_workgroup = config.workgroup_size // config.lanes
        return -(-units(problem.problem, config) // per_workgroup) * config.parts

    def build(self, problem: Reduction, config: ReductionConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel; see `_FoldKernel`.  An epilogue's coordinate is the output's number.

        Parameters: sources, those of the epilogue, and targets.
        """
        body = _FoldKernel(fused, problem, config, grid)
        body.write()
        return body.b.build()


FOLD: Final = FoldSkeleton()
