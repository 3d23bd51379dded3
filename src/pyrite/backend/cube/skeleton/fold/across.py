"""Folds along rows whose neighbours in memory are outputs: a transposed matrix, the last of axes.

The order is that of rows (`order.py`): an invocation has vectors of outputs, and for each of them
all lanes in private memory, which the elements of a row go to one after the other.  Of rows with
few lanes one lane is folded after the other, in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    iota,
    unravel,
)
from pyrite.backend.cube.skeleton.fold.fold import KernelFold, State
from pyrite.backend.cube.skeleton.fold.launch import join_segments
from pyrite.backend.cube.skeleton.fold.order import STEPS, FoldOrder, levels_of, span_of
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Shape, TensorType, element_count

#: Vectors of outputs that an invocation has at most: so many neighbours are read of a line.
_VECTORS: Final = 16
#: Bytes of all lanes, which fit in a first cache.
_MOST_LANES: Final = 1 << 15
#: Fewer invocations are made more, each with a segment.
_FEW: Final = 32


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


def _units(of: AcrossProblem, config: AcrossConfig) -> int:
    return of.units * -(-of.outputs[-1] // config.together)


def _segments(of: AcrossProblem, config: AcrossConfig) -> int:
    pieces = element_count(of.pieces)
    if config.cuts:
        return pieces * -(-of.size // (STEPS * of.lanes))
    return -(-pieces // of.together)


class _Across:
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

    @property
    def has_few(self) -> bool:
        """Whether all lanes are those that a rest has, behind no whole turns."""
        return self.of.lanes == self.of.few

    def write(self) -> None:
        b, of, config = self.b, self.of, self.config
        unit, units = invocation_of(b), _units(of, config)
        segments = _segments(of, config)
        with b.if_(unit < (units if config.levels else units * segments)):
            segment = b.index(0)
            if not config.levels:
                segment, unit = unit // units, unit % units
            per_row = -(-of.outputs[-1] // config.together)
            self.own = self.first = unit % per_row * config.together
            if config.overlaps:
                self.first = b.min(self.own, of.outputs[-1] - config.together)
            self.row = unit // per_row
            self.outer = unravel(b, self.row, of.outputs[:-1])
            if config.levels:
                found = self.sequence(b.index(0), b.index(segments), config.levels)
                self.finish(b.index(0), [self.fold.end(self.k, state) for state in found])
            else:
                self.finish(segment * element_count(of.outputs), self.segment(segment))

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
        with self.b.if_(self.first == self.own):
            self.store(place, results, lambda _: None)
        with self.b.if_(self.first < self.own):
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
        none = empty * self.config.vectors
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
                for i in range(self.config.vectors):
                    self.put(clear.index, i, empty)
        if self.config.cuts:
            longest = STEPS * of.lanes
            per_piece = -(-of.size // longest)
            begin = segment % per_piece * longest
            self.piece(segment // per_piece, begin, b.min(begin + longest, of.size))
        elif self.is_one:
            with b.for_(0, of.lanes) as first:
                for i in range(self.config.vectors):
                    taken = self.taken([], b.index(0), first.index, i)
                    self.put(first.index, i, self.fold.join(self.k, empty, taken))
            self.piece(b.index(0), b.index(of.lanes), b.index(of.size))
        else:
            with b.for_(*self.pieces_of(segment)) as loop:
                self.piece(loop.index, b.index(0), b.index(of.size))
        with b.for_(0, self.config.vectors) as vector:
            (state,) = self.joined(lambda lane: [self.get(lane, vector.index)])
            self.put(0, vector.index, state)
        return [self.get(0, i) for i in range(self.config.vectors)]

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
        none = self.fold.empty(b, self.config.width) * self.config.vectors
        if self.is_one:
            found = self.lane_of_piece(b.index(0), lane, none)
        else:
            with b.for_(*self.pieces_of(segment), carried=none) as pieces:
                pieces.yield_(*self.lane_of_piece(pieces.index, lane, pieces.carried))
            found = pieces.results
        return [tuple(found[i : i + size]) for i in range(0, len(none), size)]

    def lane_of_piece(self, piece: Value, lane: int, states: Sequence[Value]) -> Sequence[Value]:
        """Return states of all outputs that have taken in the elements of one lane of a piece."""
        b, of, size = self.b, self.of, len(self.fold.start)
        inner, before = unravel(b, piece, of.pieces), piece * of.size
        with b.for_(lane, of.size, step=of.lanes, carried=states) as loop:
            joined: list[Value] = []
            for i in range(self.config.vectors):
                taken = self.taken(inner, before, loop.index, i)
                joined += self.fold.join(self.k, loop.carried[i * size : (i + 1) * size], taken)
            loop.yield_(*joined)
        return loop.results

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
        for i in range(self.config.vectors):
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
        return (lane * self.config.vectors + i) * self.config.width


class AcrossSkeleton:
    """Kernels of folds along rows that go over memory across them; the fold is the body."""

    name = "fold across"

    def candidates(self, problem: AcrossProblem, machine: Machine) -> tuple[AcrossConfig, ...]:
        """Return the configs that are right."""
        chosen = self.select(problem, machine)
        found = [replace(chosen, width=w) for w in (1, 4, 8, 16) if w <= machine.vector]
        return tuple(found)

    def select(self, problem: AcrossProblem, machine: Machine) -> AcrossConfig:
        """Return one: vectors no wider than a row of outputs, segments apart for few of them."""
        last = problem.outputs[-1]
        width = next((w for w in (1, 2, 4, 8, 16) if w >= last), machine.vector)
        width = min(width, machine.vector)
        most = min(_MOST_LANES // (problem.lanes * width * problem.nbytes), _VECTORS)
        if problem.lanes == problem.few:
            # A quarter of the registers has the states of a lane, and others wait for them.
            most = machine.registers // problem.nbytes
        vectors = next((v for v in (16, 8, 4, 2) if v <= most and last >= v * width), 1)
        cuts = problem.size > STEPS * problem.lanes
        overlaps = width > 1 and last >= vectors * width
        config = AcrossConfig(width, vectors, 1, cuts, overlaps)
        segments = _segments(problem, config)
        is_apart = segments > 1 and _units(problem, config) < _FEW
        return replace(config, levels=0 if is_apart else levels_of(segments))

    def workgroups(self, problem: AcrossProblem, config: AcrossConfig) -> int:
        """Return how many workgroups run the kernel."""
        return _units(problem, config) * (1 if config.levels else _segments(problem, config))

    def build(
        self, problem: AcrossProblem, config: AcrossConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: the source, and targets."""
        body = _Across(fused, problem, config, grid)
        body.write()
        return body.b.build()


ACROSS: Final = AcrossSkeleton()


def lies_across(x: CubeTensor, axes: tuple[int, ...]) -> bool:
    """Whether neighbours in memory are outputs of a fold, rather than elements of a row."""
    kept = [x.strides[n] for n, size in enumerate(x.shape) if size > 1 and n not in axes]
    reduced = [x.strides[n] for n, size in enumerate(x.shape) if size > 1 and n in axes]
    return 1 in kept[-1:] and bool(reduced) and reduced[-1] not in (0, 1)


def fold_across(
    launcher: Launcher, fold: KernelFold, x: CubeTensor, axes: tuple[int, ...],
    order: FoldOrder, types: Sequence[TensorType],
) -> list[CubeTensor] | None:  # fmt: skip
    """Return all results of a fold along rows that lie across memory; None where pieces are cut."""
    rest = tuple(n for n in range(len(x.shape)) if n not in axes)
    inner = _inner_of(x.shape, axes, order)

    def side(of: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
        shape, strides = tuple(x.shape[n] for n in of), tuple(x.strides[n] for n in of)
        return merged(shape, [strides])[0]

    (outputs, by_output), (pieces, by_piece) = side(rest), side(axes[:inner])
    size, by_element = side(axes[inner:])
    if len(size) != 1:
        return None
    strides = (*by_output, *by_piece, *by_element)
    problem = AcrossProblem(
        Layout(x.dtype, strides, x.offset != 0), tuple(t.dtype for t in types),
        order.lanes_of_piece, order.vector,
        sum(dtype.itemsize for _, dtype in fold.start),
        outputs, pieces, size[0], order.together, fold.bound.count,
    )  # fmt: skip
    config = ACROSS.select(problem, launcher.machine)
    count = element_count(outputs)
    if config.levels:
        targets = [launcher.empty(type) for type in types]
    else:
        shape = (_segments(problem, config), count)
        targets = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
        problem = replace(problem, targets=tuple(t.dtype for t in targets))
    fused = Fused(body=Body(fold.name, fold.key_of_any_count, fold))
    bindings = [b for t in (x, *targets) for b in bindings_of(t)]
    launch(launcher, ACROSS, problem, bindings, config=config, fused=fused)
    return targets if config.levels else join_segments(launcher, fold, targets, types)


def _inner_of(shape: Shape, axes: tuple[int, ...], order: FoldOrder) -> int:
    """Return from which of the axes on a piece lies along them."""
    inner, size = len(axes), 1
    while inner and size < order.size:
        inner -= 1
        size *= shape[axes[inner]]
    return inner
