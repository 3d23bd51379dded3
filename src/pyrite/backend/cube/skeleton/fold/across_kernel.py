"""Kernels of folds along rows whose neighbours in memory are outputs; see `across.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.operand import Layout, Operand, invocation_of, iota, unravel
from pyrite.backend.cube.skeleton.fold.fold import KernelFold, State
from pyrite.backend.cube.skeleton.fold.order import STEPS, span_of
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Shape, element_count

#: The fewest elements of a row that is folded, and how many are few: a kernel asks which they are.
_LEAST_ROW: Final = 2
_SHORT_ROWS: Final = (4, 8, 16)


@dataclass(frozen=True, slots=True)
class AcrossConfig:
    """``vectors`` of outputs at once, ``levels`` of loops over segments; 0 for one of them each.

    With ``overlaps`` those at the end of a line begin so early that they end with it: a masked load
    takes Zen 3 several times as long.
    """

    width: int
    vectors: int
    levels: int
    cuts: bool
    overlaps: bool

    @property
    def together(self) -> int:
        """How many outputs an invocation has."""
        return self.width * self.vectors


@dataclass(frozen=True, slots=True)
class AcrossProblem:
    """Outputs, and the pieces of a row, of which each has an axis of ``size`` at the end.

    ``lanes`` are those of the order, of which short pieces have a ``few``, ``together`` pieces a
    segment.  ``count`` is for the end.
    """

    source: Layout
    targets: tuple[DType, ...]
    lanes: int
    few: int
    #: Bytes of a state.
    nbytes: int
    outputs: Shape = extent()
    pieces: Shape = extent()
    size: int = extent()
    together: int = extent()
    count: int = extent()

    @property
    def units(self) -> int:
        """How many invocations have outputs, with one vector each."""
        return element_count(self.outputs[:-1])


def units_of(of: AcrossProblem, config: AcrossConfig) -> int:
    return of.units * -(-of.outputs[-1] // config.together)


def segments_of(of: AcrossProblem, config: AcrossConfig) -> int:
    pieces = element_count(of.pieces)
    if config.cuts:
        return pieces * -(-of.size // (STEPS * of.lanes))
    return -(-pieces // of.together)


class AcrossKernel:
    """The kernel, while it is being written."""

    def __init__(self, fused: Fused, of: AcrossProblem, config: AcrossConfig, grid: int) -> None:
        assert fused.body is not None
        fold: KernelFold = fused.body.of
        self.of, self.config = of, config
        self.fold = fold.ending(count=of.count)
        b = self.b = KernelBuilder(fold.name, workgroup_size=1, grid=grid)
        self.k = RecordingAlgebra(b)
        self.source = Operand(b, "x", of.source, "read")
        self.targets = [
            Operand(b, f"out{i}", Layout(dtype, (1,)), "write")
            for i, dtype in enumerate(of.targets)
        ]
        size = of.lanes * config.together
        #: All lanes of a row, where they are not folded one after the other.
        self.memory = [] if self.has_few else [b.private(dtype, size) for _, dtype in fold.start]
        #: How many elements a row has at least and at most, in what is being written.
        self.least, self.most = 0, of.lanes + 1
        #: How many vectors of outputs are written at once.
        self.vectors = config.vectors

    @property
    def has_few(self) -> bool:
        """Whether all lanes are those that a rest has, behind no whole turns."""
        return self.of.lanes == self.of.few

    def write(self) -> None:
        b, of, config = self.b, self.of, self.config
        unit, units = invocation_of(b), units_of(of, config)
        segments = segments_of(of, config)
        with b.if_(unit < (units if config.levels else units * segments)):
            segment = b.index(0)
            if not config.levels:
                segment, unit = unit // units, unit % units
            per_row = -(-of.outputs[-1] // config.together)
            self.own = self.first = unit % per_row * config.together
            if config.overlaps:
                self.first = b.min(self.own, of.outputs[-1] - config.together)
            self.is_early = self.first < self.own
            self.row = unit // per_row
            self.outer = unravel(b, self.row, of.outputs[:-1])
            if not config.levels:
                self.finish(segment * element_count(of.outputs), self.segment(segment))
                return
            if not (self.has_few and self.is_one):
                self.whole(segments)
                return
            size, least = b.index(of.size), _LEAST_ROW
            for most in (n for n in _SHORT_ROWS if n <= of.lanes):
                with b.if_((size >= least) & (size <= most)):
                    self.short(least, most)
                least = most + 1
            with b.if_((size < _LEAST_ROW) | (size >= least)):
                self.whole(segments)

    def whole(self, segments: int) -> None:
        """Write the results of all segments."""
        b = self.b
        found = self.sequence(b.index(0), b.index(segments), self.config.levels)
        self.finish(b.index(0), [self.fold.end(self.k, state) for state in found])

    def short(self, least: int, most: int) -> None:
        """Write the results of rows of at least and at most so many elements, each vector alone."""
        first, vectors = self.first, self.vectors
        with self.b.for_(0, vectors) as vector:
            self.first, self.vectors = first + vector.index * self.config.width, 1
            self.least, self.most = least, most
            self.whole(1)
        self.first, self.vectors = first, vectors
        self.least, self.most = 0, self.of.lanes + 1

    @property
    def is_one(self) -> bool:
        """Whether a row is one piece, and a segment."""
        return not self.of.pieces and not self.config.cuts

    def mask(self, i: int) -> Value | None:
        """Return which outputs of a vector there are."""
        if self.config.overlaps or self.of.outputs[-1] % self.config.together == 0:
            return None
        return self.places(i) < self.of.outputs[-1]

    def places(self, i: int) -> Value:
        """Return which outputs of a line a vector has."""
        width = self.config.width
        first = self.first + i * width if i else self.first
        return first if width == 1 else first + iota(self.b, width)

    def finish(self, place: Value, results: Sequence[State]) -> None:
        place = place + self.row * self.of.outputs[-1] + self.first
        if not self.config.overlaps:
            self.store(place, results, self.mask)
            return
        # What it shares with the invocation before it, that one writes.
        with self.b.if_(~self.is_early):
            self.store(place, results, lambda _: None)
        with self.b.if_(self.is_early):
            self.store(place, results, lambda i: self.places(i) >= self.own)

    def store(
        self, place: Value, results: Sequence[State], mask: Callable[[int], Value | None]
    ) -> None:
        """Write results from a place on, of each vector those under its mask."""
        for i, state in enumerate(results):
            for target, x in zip(self.targets, state, strict=True):
                target.store_along(place + i * self.config.width, x, mask=mask(i))

    def sequence(self, first: Value, end: Value, levels: int) -> list[State]:
        """Return the states of segments, joined in their order, block by block."""
        span, size = span_of(levels), len(self.fold.start)
        empty = self.fold.empty(self.b, self.config.width)
        if self.is_one:
            return [self.fold.join(self.k, empty, state) for state in self.segment(first)]
        none = empty * self.vectors
        with self.b.for_(first, end, step=span, carried=none) as loop:
            if levels == 1:
                more = self.segment(loop.index)
            else:
                stop = self.b.min(loop.index + span, end)
                more = self.sequence(loop.index, stop, levels - 1)
            joined: list[Value] = []
            for i, other in enumerate(more):
                joined += self.fold.join(self.k, loop.carried[i * size : (i + 1) * size], other)
            loop.yield_(*joined)
        return [tuple(loop.results[i : i + size]) for i in range(0, len(none), size)]

    # ---- one segment ----

    def segment(self, segment: Value) -> list[State]:
        """Return the states of vectors of outputs over a segment."""
        if self.has_few:
            return self.joined(lambda lane: self.lane(segment, lane))
        b, of = self.b, self.of
        empty = self.fold.empty(b, self.config.width)
        if not self.is_one:
            with b.for_(0, of.lanes) as clear:
                for i in range(self.vectors):
                    self.put(clear.index, i, empty)
        if self.config.cuts:
            longest = STEPS * of.lanes
            per_piece = -(-of.size // longest)
            begin = segment % per_piece * longest
            self.piece(segment // per_piece, begin, b.min(begin + longest, of.size))
        elif self.is_one:
            with b.for_(0, of.lanes) as first:
                for i in range(self.vectors):
                    taken = self.taken([], b.index(0), first.index, i)
                    self.put(first.index, i, self.fold.join(self.k, empty, taken))
            self.piece(b.index(0), b.index(of.lanes), b.index(of.size))
        else:
            with b.for_(*self.pieces_of(segment)) as loop:
                self.piece(loop.index, b.index(0), b.index(of.size))
        with b.for_(0, self.vectors) as vector:
            (state,) = self.joined(lambda lane: [self.get(lane, vector.index)])
            self.put(0, vector.index, state)
        return [self.get(0, i) for i in range(self.vectors)]

    def joined(
        self, lane_of: Callable[[int], list[State]], lane: int = 0, step: int = 1
    ) -> list[State]:
        """Return the states of lanes so many apart, joined by halves: few wait for others."""
        if step == self.of.lanes:
            return lane_of(lane)
        halves = [self.joined(lane_of, n, 2 * step) for n in (lane, lane + step)]
        return [self.fold.join(self.k, s, t) for s, t in zip(*halves, strict=True)]

    def pieces_of(self, segment: Value) -> tuple[Value, Value]:
        """Return the first of a segment's whole pieces, and the first behind them."""
        first = segment * self.of.together
        return first, self.b.min(first + self.of.together, element_count(self.of.pieces))

    def lane(self, segment: Value, lane: int) -> list[State]:
        """Return the states of one lane of all outputs over the pieces of a segment."""
        b, size = self.b, len(self.fold.start)
        none = self.fold.empty(b, self.config.width) * self.vectors
        if self.is_one:
            found = self.lane_of_piece(b.index(0), lane, none)
        else:
            with b.for_(*self.pieces_of(segment), carried=none) as pieces:
                pieces.yield_(*self.lane_of_piece(pieces.index, lane, pieces.carried))
            found = pieces.results
        return [tuple(found[i : i + size]) for i in range(0, len(none), size)]

    def lane_of_piece(self, piece: Value, lane: int, states: Sequence[Value]) -> Sequence[Value]:
        """Return states of all outputs that have taken in the elements of one lane of a piece."""
        b, of = self.b, self.of
        if lane >= self.most:
            return states
        inner, before = unravel(b, piece, of.pieces), piece * of.size
        if lane < self.least:
            return self.taken_into(states, inner, before, b.index(lane))
        with b.for_(lane, of.size, step=of.lanes, carried=states) as loop:
            loop.yield_(*self.taken_into(loop.carried, inner, before, loop.index))
        return loop.results

    def taken_into(
        self, states: Sequence[Value], inner: list[Value | int], before: Value, index: Value
    ) -> list[Value]:
        """Return states of all outputs that have taken in an element."""
        size, joined = len(self.fold.start), list[Value]()
        for i in range(self.vectors):
            taken = self.taken(inner, before, index, i)
            state = tuple(states[i * size : (i + 1) * size])
            joined += self.fold.join(self.k, state, taken)
        return joined

    def piece(self, piece: Value, begin: Value, end: Value) -> None:
        """Take in the elements of a piece between bounds."""
        b, lanes = self.b, self.of.lanes
        inner = unravel(b, piece, self.of.pieces)
        before = piece * self.of.size
        whole = end - end % lanes
        with b.for_(begin, whole, step=lanes) as turn, b.for_(0, lanes) as lane:
            self.take(inner, before, turn.index + lane.index, lane.index)
        few = self.of.few
        with b.for_(whole, end) as rest:
            self.take(inner, before, rest.index, (rest.index - whole) % few)

    def take(self, inner: list[Value | int], before: Value, index: Value, lane: Value) -> None:
        """Take an element of each output into the state of its lane."""
        for i in range(self.vectors):
            taken = self.taken(inner, before, index, i)
            self.put(lane, i, self.fold.join(self.k, self.get(lane, i), taken))

    def taken(self, inner: list[Value | int], before: Value, index: Value, i: int) -> State:
        """Return the states of an element of each output of a vector."""
        width, axis = self.config.width, len(self.of.outputs) - 1
        at = [*self.outer, self.first + i * width if i else self.first, *inner, index]
        x = self.source.load_along(self.source.at(at), width, axis=axis, mask=self.mask(i))
        position = before + index
        return self.fold.take(self.k, x, position if width == 1 else self.b.splat(position, width))

    def put(self, lane: Value | int, i: Value | int, state: State) -> None:
        for memory, x in zip(self.memory, state, strict=True):
            memory.store(self.place(lane, i), x, is_aligned=True)

    def get(self, lane: Value | int, i: Value | int) -> State:
        width = self.config.width
        return tuple(
            memory.load(self.place(lane, i), width=width, is_aligned=True) for memory in self.memory
        )

    def place(self, lane: Value | int, i: Value | int) -> Value | int:
        return (lane * self.vectors + i) * self.config.width
