"""Reductions: a fold over axes, by one scheme for all layouts.

The input is seen as [outputs, reduced], each side merged to as few axes as it has.  Then

- along "columns" an invocation folds ``vectors`` of ``width`` neighbouring outputs at once: the
  layout of a sum over the first axis;
- along "rows" an invocation folds one output, ``vectors`` of ``width`` reduced elements at a time,
  each into a state of its own, so that no addition waits for the one before it, and ``lanes``
  invocations of a workgroup share the work and join in shared memory;
- with ``parts`` > 1 the reduced side is cut, and a second fold of the same kind joins the parts.

Who joins whom is fixed by the config, so a sum has the same bits in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.lowering.elementwise import map_elements
from pyrite.backend.cube.lowering.registry import lowers
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    iota,
    truth,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Op
from pyrite.types import DType, Number, Shape, TensorType, element_count, int32, uint32

State = tuple[Value, ...]

# ---- configs ----


@dataclass(frozen=True, slots=True)
class ReductionConfig:
    """How the work is shared; see the head of this file."""

    along: Literal["rows", "columns"]
    workgroup_size: int
    lanes: int
    width: int
    parts: int
    vectors: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """What is reduced: sizes and strides of both sides of the input."""

    outputs: Shape
    output_strides: tuple[int, ...]
    reduced: Shape
    reduced_strides: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many outputs there are."""
        return element_count(self.outputs)

    @property
    def size(self) -> int:
        """How many elements meet in one output."""
        return element_count(self.reduced)


def candidates(problem: Problem, machine: Machine) -> tuple[ReductionConfig, ...]:
    """Return the configs that are right for a problem."""
    found = []
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    parts = [p for p in PARTS if p == 1 or p * 4 <= problem.size]
    for width in _widths(problem.outputs, problem.output_strides, is_exact=True):
        found += [
            ReductionConfig("columns", small, 1, width, p, v)
            for p in parts
            for v in VECTORS
            if v == 1 or (problem.outputs and problem.outputs[-1] % (v * width) == 0)
        ]
    for width in _widths(problem.reduced, problem.reduced_strides, is_exact=False):
        found += [
            ReductionConfig("rows", size, lanes, width, p, v)
            for size, lanes in [(small, 1), *((s, s) for s in sizes if s >= 64)]
            for p in parts
            for v in VECTORS
            if v == 1 or _is_whole(problem, p * v * lanes * width)
        ]
    return tuple(found)


#: In how many parts the reduced side may be cut, and how many vectors may go side by side.
PARTS = (1, 4, 16, 64)
VECTORS = (1, 4, 16)


def _is_whole(problem: Problem, step: int) -> bool:
    """Whether the reduced side is a single axis of whole steps."""
    return len(problem.reduced) == 1 and problem.size % step == 0


def _widths(shape: Shape, strides: tuple[int, ...], *, is_exact: bool) -> list[int]:
    """Return the widths of vectors along a side; a single axis may end in a masked vector."""
    if not shape or strides[-1] != 1:
        return [1]
    is_masked = len(shape) == 1 and not is_exact
    return [w for w in (16, 8, 4, 2, 1) if is_masked or shape[-1] % w == 0]


def select(problem: Problem, machine: Machine, values: int = 1) -> ReductionConfig:
    """Return a config: along the side whose elements are neighbours; in parts for few outputs.

    ``values`` is how many numbers a state has.
    """
    found = candidates(problem, machine)
    is_column = bool(problem.outputs) and problem.output_strides[-1] == 1
    along = "columns" if is_column else "rows"
    lanes = 1 if is_column or machine.kind == "cpu" or problem.size < 256 else 256
    fitting = [
        c for c in found if c.along == along and c.lanes == lanes and c.width <= machine.vector
    ]
    widest = max(c.width for c in fitting)
    # On a CPU whole lines of columns, as the states fit in registers; four sums hide their latency.
    most = 1 if machine.kind == "gpu" else machine.vector // values if is_column else 4
    vectors = max(c.vectors for c in fitting if c.width == widest and c.vectors <= max(most, 1))
    # Enough invocations to occupy a device, as long as each has a thousand elements to fold.
    busy = 64 if machine.kind == "cpu" else 4096
    at_work = max(1, problem.count * lanes // (widest * vectors if is_column else 1))
    wanted = min(busy // at_work, problem.size // (1024 * lanes))
    fitting = [c for c in fitting if c.width == widest and c.vectors == vectors]
    return max((c for c in fitting if c.parts <= max(wanted, 1)), key=lambda c: c.parts)


# ---- folds ----


@dataclass(frozen=True, slots=True)
class Fold:
    """What a reduction computes: a state that starts empty, takes in elements, and ends.

    ``start`` has a (number, dtype) for each value of the state; ``take`` makes a state of an
    element and its position, ``join`` one of two, and ``end`` the result.
    """

    name: str
    start: tuple[tuple[Number, DType], ...]
    take: Callable[[RecordingAlgebra, Value, Value], State]
    join: Callable[[RecordingAlgebra, State, State], State]
    end: Callable[[RecordingAlgebra, State], Value]
    #: Tells it from folds of the same name and start that end otherwise.
    variant: str = ""

    def empty(self, b: KernelBuilder, width: int) -> State:
        """Return the state of no elements."""
        return tuple(b.const(number, vector(dtype, width)) for number, dtype in self.start)


def accumulation(name: str, start: Number, dtype: DType, join: Callable[..., Value]) -> Fold:
    """Return the fold of join(k, x, y) in a dtype, which starts from a number."""
    return Fold(
        name, ((start, dtype),),
        lambda k, x, _: (k.builder.cast(x, dtype),),
        lambda k, s, t: (join(k, s[0], t[0]),),
        lambda _, s: s[0],
    )  # fmt: skip


def sum_of(dtype: DType) -> Fold:
    """Return the sum in a dtype."""
    return accumulation("sum", 0, dtype, lambda _, x, y: x + y)


def _extremum(name: str, dtype: DType) -> Fold:
    """NaN wins, and 0.0 is above -0.0, as `maximum` and `minimum` say."""
    state = uint32 if dtype.is_bool else dtype
    start = state.lowest if name == "max" else state.highest
    if name == "max":
        return accumulation(name, start, state, lambda k, x, y: k.maximum(x, y))
    return accumulation(name, start, state, lambda k, x, y: k.minimum(x, y))


def _truth(name: str) -> Fold:
    is_any = name == "any"
    return Fold(
        name, ((0 if is_any else 1, uint32),),
        lambda k, x, _: (k.builder.cast(truth(k.builder, x), uint32),),
        lambda _, s, t: (s[0] | t[0] if is_any else s[0] & t[0],),
        lambda k, s: truth(k.builder, s[0]),
    )  # fmt: skip


def position_of(name: str, dtype: DType) -> Fold:
    """Return the position of the extreme: zeros are equal, NaN is it, the first of equals wins."""
    state = uint32 if dtype.is_bool else dtype
    is_max = name == "argmax"

    def join(k: RecordingAlgebra, s: State, t: State) -> State:
        (x, i), (y, j) = s, t
        wins = (y > x if is_max else y < x) | ((x == y) & (j < i))
        if state.is_float:
            x_nan, y_nan = k.isnan(x), k.isnan(y)
            wins = (wins & ~x_nan) | (y_nan & (~x_nan | (j < i)))
        return k.builder.select(wins, y, x), k.builder.select(wins, j, i)

    return Fold(
        name, ((state.lowest if is_max else state.highest, state), (int32.highest, int32)),
        lambda k, x, i: (k.builder.cast(x, state), k.builder.cast(i, int32)),
        join,
        lambda _, s: s[1],
    )  # fmt: skip


# ---- the kernel ----


class _Body:
    """The kernel of one fold, while it is being written."""

    def __init__(
        self, fold: Fold, problem: Problem, source: Layout, target: DType,
        config: ReductionConfig, grid: int, *, ends: bool,
    ) -> None:  # fmt: skip
        self.fold, self.problem, self.config, self.ends = fold, problem, config, ends
        b = self.b = KernelBuilder(fold.name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        strides = problem.output_strides + problem.reduced_strides
        self.source = Operand(b, "x", replace(source, strides=strides), "read")
        self.target = Operand(b, "out", Layout(target, (1,)), "write")

    def write(self) -> None:
        config, parts = self.config, self.config.parts
        is_column = config.along == "columns"
        together = config.width * config.vectors
        units = self.problem.count // (together if is_column else 1)
        unit = invocation_of(self.b) if config.lanes == 1 else workgroup_of(self.b)
        with self.b.if_(unit < units * parts):
            # The parts of a column lie side by side in rows of outputs, those of a row together.
            if is_column:
                part, first = unit // units, (unit % units) * together
                for i, state in enumerate(self.columns(part, first)):
                    place = part * self.problem.count + first
                    self.finish(place + i * config.width, state)
            else:
                state = self.row(unit % parts, unit // parts)
                state = self.across_width(state)
                if config.lanes > 1:
                    self.across_lanes(unit, state)
                else:
                    self.finish(unit, state)

    def bounds(self, part: Value) -> tuple[Value, Value]:
        """Return where a part of the reduced side begins and ends."""
        b, size, config = self.b, self.problem.size, self.config
        if config.parts == 1:
            return b.index(0), b.index(size)
        step = config.lanes * config.width * config.vectors if config.along == "rows" else 1
        per_part = -(-size // (config.parts * step)) * step
        begin = part * per_part
        return b.min(begin, size), b.min(begin + per_part, size)

    def columns(self, part: Value, first: Value) -> list[State]:
        """Return the states of neighbouring vectors of outputs."""
        b, width = self.b, self.config.width
        begin, end = self.bounds(part)
        outer = unravel(b, first, self.problem.outputs)
        with b.for_(begin, end, carried=self.empty()) as loop:
            inner = unravel(b, loop.index, self.problem.reduced)
            position = self.spread(loop.index)
            joined: list[Value] = []
            for i, state in enumerate(self.states(loop.carried)):
                at = [*outer[:-1], outer[-1] + i * width] if i else outer
                x = self.source.load(self.source.at([*at, *inner]), width=width)
                joined += self.fold.join(self.k, state, self.fold.take(self.k, x, position))
            loop.yield_(*joined)
        return self.states(loop.results)

    def empty(self) -> State:
        """Return the states of no elements, one after another."""
        return self.fold.empty(self.b, self.config.width) * self.config.vectors

    def states(self, values: Sequence[Value]) -> list[State]:
        """Return the states that a loop carries."""
        size = len(self.fold.start)
        return [tuple(values[i : i + size]) for i in range(0, len(values), size)]

    def row(self, part: Value, output: Value) -> State:
        b, width, lanes, vectors = self.b, self.config.width, self.config.lanes, self.config.vectors
        begin, end = self.bounds(part)
        outer = unravel(b, output, self.problem.outputs)
        first = begin if lanes == 1 else begin + b.local_id(0) * width
        is_whole = self.problem.size % width == 0
        # Vectors that end beyond the row are taken in by a second, masked loop of at most one turn.
        stop = end if is_whole else end - (width - 1)
        step = lanes * width
        with b.for_(first, stop, step=step * vectors, carried=self.empty()) as loop:
            joined: list[Value] = []
            for i, state in enumerate(self.states(loop.carried)):
                taken = self.taken(outer, loop.index + i * step if i else loop.index, None)
                joined += self.fold.join(self.k, state, taken)
            loop.yield_(*joined)
        state = self.joined(self.states(loop.results))
        if is_whole:
            return state
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

    def taken(self, outer: list[Value | int], index: Value, mask: Value | None) -> State:
        inner = unravel(self.b, index, self.problem.reduced)
        place = self.source.at([*outer, *inner])
        x = self.source.load(place, width=self.config.width, mask=mask)
        return self.fold.take(self.k, x, self.places(index))

    def places(self, first: Value) -> Value:
        """Return the positions of a vector of reduced elements."""
        width = self.config.width
        return first if width == 1 else first + iota(self.b, width)

    def spread(self, x: Value) -> Value:
        width = self.config.width
        return x if width == 1 else self.b.splat(x, width)

    def across_width(self, state: State) -> State:
        """Join the elements of the vectors."""
        width = self.config.width
        if width == 1:
            return state
        return self.joined([tuple(x[i] for x in state) for i in range(width)])

    def joined(self, states: list[State]) -> State:
        """Join states, halves at a time."""
        while len(states) > 1:
            half = len(states) // 2
            pairs = zip(states[:half], states[half:], strict=True)
            states = [self.fold.join(self.k, s, t) for s, t in pairs]
        return states[0]

    def across_lanes(self, unit: Value, state: State) -> None:
        """Join the states of a workgroup's invocations in shared memory, halves at a time."""
        b, lanes = self.b, self.config.lanes
        lane = b.local_id(0)
        shared = [b.shared(dtype, lanes) for _, dtype in self.fold.start]
        for memory, x in zip(shared, state, strict=True):
            memory[lane] = x
        half = lanes // 2
        while half:
            b.barrier()
            with b.if_(lane < half):
                mine = tuple(memory[lane] for memory in shared)
                other = tuple(memory[lane + half] for memory in shared)
                joined = self.fold.join(self.k, mine, other)
                for memory, x in zip(shared, joined, strict=True):
                    memory[lane] = x
            half //= 2
        with b.if_(lane == 0):
            self.finish(unit, tuple(memory[lane] for memory in shared))

    def finish(self, place: Value, state: State) -> None:
        result = self.fold.end(self.k, state) if self.ends else state[0]
        self.target.store(place, result)


def _kernel(*given: Any, ends: bool) -> Kernel:
    body = _Body(*given, ends=ends)
    body.write()
    return body.b.build()


# ---- launching ----


def problem_of(x: CubeTensor, axes: tuple[int, ...]) -> Problem:
    """Return the two sides of a tensor, of which the given axes are reduced."""
    rest = [a for a in range(len(x.shape)) if a not in axes]

    def side(of: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
        ((shape, strides),) = merged(
            tuple(x.shape[a] for a in of), [tuple(x.strides[a] for a in of)]
        )
        return shape, strides

    return Problem(*side(rest), *side(axes))


def reduce_axes(
    launcher: Launcher,
    fold: Fold,
    x: CubeTensor,
    axes: tuple[int, ...],
    type: TensorType,
    config: ReductionConfig | None = None,
) -> CubeTensor:
    """Return the fold over axes as a dense tensor of the type, which has one element for each."""
    target = launcher.empty(type)
    if type.size == 0:
        return target
    problem = problem_of(x, axes)
    if problem.size == 0:

        def of_nothing(k: RecordingAlgebra) -> Value:
            return fold.end(k, fold.empty(k.builder, 1))

        variant = repr((fold.variant, fold.start))
        map_elements(launcher, fold.name, variant, of_nothing, [], target)
        return target
    # The elements of a split state would not lie together.
    machine = launcher.machine
    config = config or select(problem, machine, len(fold.start))
    if len(fold.start) > 1:
        config = replace(config, parts=1)
    if config.parts == 1:
        _launch(launcher, fold, x, problem, config, target, ends=True)
        return target
    count, parts = problem.count, config.parts
    is_column = config.along == "columns"
    shape = (parts, count) if is_column else (count, parts)
    partial = launcher.empty(TensorType(shape, fold.start[0][1]))
    _launch(launcher, fold, x, problem, config, partial, ends=False)
    rest = problem_of(partial, (0,) if is_column else (1,))
    second = replace(select(rest, machine), parts=1)
    _launch(launcher, fold, partial, rest, second, target, ends=True)
    return target


def _launch(
    launcher: Launcher, fold: Fold, x: CubeTensor, problem: Problem, config: ReductionConfig,
    target: CubeTensor, *, ends: bool,
) -> None:  # fmt: skip
    together = config.width * config.vectors if config.along == "columns" else 1
    units = problem.count // together * config.parts
    per_workgroup = config.workgroup_size // config.lanes
    workgroups = -(-units // per_workgroup)
    source = Layout(x.dtype, (), x.offset != 0)
    given = (fold, problem, source, target.dtype, config)
    computed = (fold.name, fold.variant, fold.start, ends)
    launcher.launch(
        ("reduce", computed, problem, source, target.dtype, config),
        lambda grid: _kernel(*given, grid, ends=ends),
        bindings_of(x) + bindings_of(target),
        workgroups,
    )


# ---- the ops ----


@lowers("sum", "prod")
def accumulate(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Sums and products, in the dtype that the op states."""
    dtype = attrs["dtype"].compute
    fold = (
        sum_of(dtype) if op.name == "sum"
        else accumulation("prod", 1, dtype, lambda _, x, y: x * y)
    )  # fmt: skip
    return [reduce_axes(launcher, fold, inputs[0], attrs["axis"], out[0])]


@lowers("mean")
def mean(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The sum over how many there are; NaN over none."""
    (x,) = inputs
    dtype = x.dtype.compute
    count = math.prod(x.shape[a] for a in attrs["axis"])
    fold = replace(
        sum_of(dtype),
        variant=f"mean of {count}",
        end=lambda k, s: s[0] / float(count),
    )
    return [reduce_axes(launcher, fold, x, attrs["axis"], out[0])]


@lowers("max", "min")
def extremum(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Folds of maximum and minimum."""
    (x,) = inputs
    fold = _extremum(op.name, x.dtype.compute)
    if x.dtype.is_bool:
        fold = replace(fold, end=lambda k, s: truth(k.builder, s[0]))
    return [reduce_axes(launcher, fold, x, attrs["axis"], out[0])]


@lowers("any", "all")
def truth_of(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Whether any, or every, element is not zero."""
    return [reduce_axes(launcher, _truth(op.name), inputs[0], attrs["axis"], out[0])]


@lowers("argmax", "argmin")
def position(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Where the extreme is, along one axis or among all elements in row-major order."""
    (x,) = inputs
    axis = attrs["axis"]
    axes = tuple(range(len(x.shape))) if axis is None else (axis,)
    fold = position_of(op.name, x.dtype.compute)
    return [reduce_axes(launcher, fold, x, axes, out[0])]
