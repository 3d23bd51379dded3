"""Folds along rows whose neighbours in memory are outputs: a transposed matrix, the last of axes.

The order is that of rows (`order.py`): an invocation has vectors of outputs, and for each of them
all lanes in private memory, which the elements of a row go to one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
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

#: Vectors of outputs that an invocation has: their lanes fit in a first cache.
_VECTORS: Final = 4
#: Fewer invocations are made more, each with a segment.
_FEW: Final = 32


@dataclass(frozen=True, slots=True)
class AcrossConfig:
    """``vectors`` of outputs at once, ``levels`` of loops over segments; 0 for one of them each."""

    width: int
    vectors: int
    levels: int
    cuts: bool


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
    return of.units * -(-of.outputs[-1] // (config.width * config.vectors))


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
        size = of.lanes * config.vectors * config.width
        self.memory = [b.private(dtype, size) for _, dtype in fold.start]

    def write(self) -> None:
        b, of, config = self.b, self.of, self.config
        unit, units = invocation_of(b), _units(of, config)
        segments = _segments(of, config)
        with b.if_(unit < (units if config.levels else units * segments)):
            segment = b.index(0)
            if not config.levels:
                segment, unit = unit // units, unit % units
            together = config.width * config.vectors
            per_row = -(-of.outputs[-1] // together)
            self.first = unit % per_row * together
            self.row = unit // per_row
            self.outer = unravel(b, self.row, of.outputs[:-1])
            if config.levels:
                found = self.sequence(b.index(0), b.index(segments), config.levels)
                self.finish(b.index(0), [self.fold.end(self.k, state) for state in found])
            else:
                self.finish(segment * element_count(of.outputs), self.segment(segment))

    def mask(self, i: int) -> Value | None:
        """Return which outputs of a vector there are."""
        width = self.config.width
        if self.of.outputs[-1] % (width * self.config.vectors) == 0:
            return None
        first = self.first + i * width
        return (first if width == 1 else first + iota(self.b, width)) < self.of.outputs[-1]

    def finish(self, place: Value, results: Sequence[State]) -> None:
        place = place + self.row * self.of.outputs[-1] + self.first
        for i, state in enumerate(results):
            for target, x in zip(self.targets, state, strict=True):
                target.store_along(place + i * self.config.width, x, mask=self.mask(i))

    def sequence(self, first: Value, end: Value, levels: int) -> list[State]:
        """Return the states of segments, joined in their order, block by block."""
        span, size = span_of(levels), len(self.fold.start)
        none = self.fold.empty(self.b, self.config.width) * self.config.vectors
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
        b, of = self.b, self.of
        empty = self.fold.empty(b, self.config.width)
        with b.for_(0, of.lanes) as clear:
            for i in range(self.config.vectors):
                self.put(clear.index, i, empty)
        pieces = element_count(of.pieces)
        if self.config.cuts:
            longest = STEPS * of.lanes
            per_piece = -(-of.size // longest)
            begin = segment % per_piece * longest
            self.piece(segment // per_piece, begin, b.min(begin + longest, of.size))
        else:
            first = segment * of.together
            with b.for_(first, b.min(first + of.together, pieces)) as loop:
                self.piece(loop.index, b.index(0), b.index(of.size))
        half = of.lanes // 2
        while half:
            with b.for_(0, half) as tree:
                for i in range(self.config.vectors):
                    state = self.fold.join(
                        self.k, self.get(tree.index, i), self.get(tree.index + half, i)
                    )
                    self.put(tree.index, i, state)
            half //= 2
        return [self.get(b.index(0), i) for i in range(self.config.vectors)]

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
        width = self.config.width
        for i in range(self.config.vectors):
            at = [*self.outer, self.first + i * width, *inner, index]
            axis = len(self.of.outputs) - 1
            x = self.source.load_along(self.source.at(at), width, axis=axis, mask=self.mask(i))
            position = before + index
            spread = position if width == 1 else self.b.splat(position, width)
            taken = self.fold.take(self.k, x, spread)
            self.put(lane, i, self.fold.join(self.k, self.get(lane, i), taken))

    def put(self, lane: Value, i: int, state: State) -> None:
        for memory, x in zip(self.memory, state, strict=True):
            memory.store(self.place(lane, i), x, is_aligned=True)

    def get(self, lane: Value, i: int) -> State:
        width = self.config.width
        return tuple(
            memory.load(self.place(lane, i), width=width, is_aligned=True) for memory in self.memory
        )

    def place(self, lane: Value, i: int) -> Value:
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
        vectors = _VECTORS if last >= _VECTORS * width else 1
        cuts = problem.size > STEPS * problem.lanes
        config = AcrossConfig(width, vectors, 1, cuts)
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
        order.vector if size[0] < order.lanes else order.lanes, order.vector,
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
