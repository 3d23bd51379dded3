"""Reductions: a fold over axes, by one scheme for all layouts.

The input is seen as [outputs, reduced], each side merged to as few axes as it has.  Then

- along "columns" an invocation folds ``vectors`` of ``width`` neighbouring outputs at once: the
  layout of a sum over the first axis;
- along "rows" an invocation folds one output, ``vectors`` of ``width`` reduced elements at a time,
  each into a state of its own, so that no addition waits for the one before it;
- ``lanes`` invocations of a workgroup share the work and join in shared memory;
- with ``parts`` > 1 the reduced side is cut, and a second fold of the same kind joins the states
  of the parts, whose values lie in a tensor each.

Who joins whom is fixed by the config, so a sum has the same bits in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.lowering.elementwise import map_elements
from pyrite.backend.cube.lowering.registry import lowers
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    iota,
    truth,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.polyfill.floats import FORMATS
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Op
from pyrite.types import (
    DType,
    Number,
    Shape,
    TensorType,
    element_count,
    int32,
    int64,
    uint32,
    uint64,
)

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

    @property
    def is_columns(self) -> bool:
        """Whether neighbours in memory belong to different outputs."""
        return bool(self.outputs) and self.output_strides[-1] == 1


def candidates(problem: Problem, machine: Machine) -> tuple[ReductionConfig, ...]:
    """Return the configs that are right for a problem."""
    found = []
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    shared = [(small, 1), *((sizes[0], lanes) for lanes in LANES if lanes <= sizes[0])]
    parts = [p for p in PARTS if p == 1 or p * 4 <= problem.size]
    for width in _widths(problem.outputs, problem.output_strides, is_exact=True):
        found += [
            ReductionConfig("columns", size, lanes, width, p, v)
            for size, lanes in shared
            for p in parts
            for v in VECTORS
            if v == 1 or (problem.outputs and problem.outputs[-1] % (v * width) == 0)
        ]
    for width in _widths(problem.reduced, problem.reduced_strides, is_exact=False):
        found += [
            ReductionConfig("rows", size, lanes, width, p, v)
            for size, lanes in shared
            for p in parts
            for v in VECTORS
            if v == 1 or _is_whole(problem, p * v * lanes * width)
        ]
    return tuple(found)


#: How many invocations may share an output, in how many parts the reduced side may be cut, and how
#: many vectors may go side by side.
LANES = (8, 32, 256)
PARTS = (1, 4, 16, 64, 256, 1024)
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


@lru_cache(maxsize=4096)
def select(problem: Problem, machine: Machine, values: int = 1) -> ReductionConfig:
    """Return a config: along the side whose elements are neighbours; in parts for few outputs.

    ``values`` is how many numbers a state has.
    """
    is_column = problem.is_columns
    along = "columns" if is_column else "rows"
    is_far = machine.kind == "cpu" and problem.count * problem.size >= _FAR
    most = max(machine.vector // 2, 1) if is_far else machine.vector
    fitting = [c for c in candidates(problem, machine) if c.along == along and c.width <= most]
    widest = max(c.width for c in fitting)
    fitting = [c for c in fitting if c.width == widest]
    if machine.kind == "gpu":
        return _for_gpu(problem, fitting)
    return _for_cpu(problem, fitting, machine.vector // values if is_column or is_far else 4)


#: Elements that are read from beyond the nearer caches.  There processors fetch the next lines by
#: themselves, and sooner if two vectors share a line: medians of sums are some 6 % less.
_FAR = 1 << 20


def _for_cpu(problem: Problem, fitting: Sequence[ReductionConfig], most: int) -> ReductionConfig:
    """Whole lines of columns, as the states fit in registers; four sums hide their latency."""
    fitting = [c for c in fitting if c.lanes == 1]
    vectors = max(c.vectors for c in fitting if c.vectors <= max(most, 1))
    fitting = [c for c in fitting if c.vectors == vectors]
    is_column, width = fitting[0].along == "columns", fitting[0].width
    # Enough invocations to occupy a device, as long as each has a thousand elements to fold.
    at_work = max(1, problem.count // (width * vectors if is_column else 1))
    wanted = min(64 // at_work, problem.size // 1024)
    return max((c for c in fitting if c.parts <= max(wanted, 1)), key=lambda c: c.parts)


#: Invocations that occupy a GPU, and vectors of 16 bytes that each has at least to read: on an H200
#: fewer leave its memory idle (benchmarks/gpu_bandwidth.py).
_BUSY = 1 << 18
_LEAST = 4


def _for_gpu(problem: Problem, fitting: Sequence[ReductionConfig]) -> ReductionConfig:
    """Lanes that read neighbours: along a row, or 32 vectors of columns by 8 lanes."""
    is_column, width = fitting[0].along == "columns", fitting[0].width
    units = problem.count // (width if is_column else 1)
    steps = problem.size // (1 if is_column else width)
    lanes = max(256 // units if is_column else steps // _LEAST, 8)
    fitting = [c for c in fitting if c.vectors == 1 and c.lanes <= max(min(lanes, steps), 1)]
    lanes = max(c.lanes for c in fitting)
    wanted = min(_BUSY // (units * lanes), steps // (_LEAST * lanes))
    fitting = [c for c in fitting if c.lanes == lanes and c.parts <= max(wanted, 1)]
    return max(fitting, key=lambda c: c.parts)


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


def extremum_of(name: str, dtype: DType) -> Fold:
    """Return the "max" or "min": NaN wins, 0.0 is above -0.0, as `maximum`, `minimum` say."""
    state = uint32 if dtype.is_bool else dtype
    start = state.lowest if name == "max" else state.highest
    if name == "max":
        fold = accumulation(name, start, state, lambda k, x, y: k.maximum(x, y))
    else:
        fold = accumulation(name, start, state, lambda k, x, y: k.minimum(x, y))
    return replace(fold, end=lambda k, s: truth(k.builder, s[0])) if dtype.is_bool else fold


def extremum_of_bits(name: str, dtype: DType) -> Fold:
    """Return `extremum_of` floats by their bits alone, in a third of the instructions.

    As signed numbers the bits of positive floats rise with them, above those of all negative ones;
    as unsigned numbers those of negative floats rise as they fall, above those of all positive
    ones.  Zeros have their places in that, and a NaN of either sign lies beyond its infinity.
    """
    format, is_max = FORMATS[dtype], name == "max"
    signed, unsigned = format.bits, _UNSIGNED[format.bits]
    sign = 1 << (signed.bits - 1)

    def take(k: RecordingAlgebra, x: Value, _: Value) -> State:
        x = k.builder.cast(x, dtype)
        bits = k.builder.bitcast(x, unsigned)
        return k.builder.bitcast(x, signed), bits, bits

    def join(k: RecordingAlgebra, s: State, t: State) -> State:
        b = k.builder
        return b.max(s[0], t[0]), b.min(s[1], t[1]), b.max(s[2], t[2])

    def end(k: RecordingAlgebra, s: State) -> Value:
        b = k.builder
        greatest, (least, most) = s[0], (b.bitcast(x, signed) for x in s[1:])
        # Without a positive one the least is the maximum, without a negative one the minimum.
        extreme, exists = (greatest, greatest >= 0) if is_max else (most, most < 0)
        is_nan = (s[0] > format.infinity) | (s[2] > format.infinity + sign)
        return b.select(is_nan, math.nan, b.bitcast(b.select(exists, extreme, least), dtype))

    infinity = format.infinity + (sign if is_max else 0)
    start = ((signed.lowest, signed), (infinity, unsigned), (0, unsigned))
    return Fold(name, start, take, join, end, variant="bits")


_UNSIGNED = {int32: uint32, int64: uint64}


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
    """The kernel of one fold, while it is being written.

    Without ``ends`` it writes states, each value to a target of its own; and it joins such states,
    rather than take in elements, where it has a source for each of their values.
    """

    def __init__(
        self, fold: Fold, problem: Problem, sources: Sequence[Layout], targets: Sequence[DType],
        config: ReductionConfig, grid: int, *, is_aligned: bool, takes: bool, ends: bool,
    ) -> None:  # fmt: skip
        self.fold, self.problem, self.config = fold, problem, config
        self.is_aligned, self.takes, self.ends = is_aligned, takes, ends
        b = self.b = KernelBuilder(fold.name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        strides = problem.output_strides + problem.reduced_strides
        self.sources = [
            Operand(b, f"x{i}", replace(source, strides=strides), "read")
            for i, source in enumerate(sources)
        ]
        self.targets = [
            Operand(b, f"out{i}", Layout(target, (1,)), "write") for i, target in enumerate(targets)
        ]

    def write(self) -> None:
        b, config = self.b, self.config
        #: How many outputs, or vectors of them, a workgroup has, and which one an invocation.
        self.slots = config.workgroup_size // config.lanes
        local = b.local_id(0)
        is_column = config.along == "columns"
        if is_column:
            self.slot, self.lane = local % self.slots, local // self.slots
        else:
            self.slot, self.lane = local // config.lanes, local % config.lanes
        together = config.width * config.vectors
        self.units = self.problem.count // (together if is_column else 1)
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
        if config.along == "rows":
            state = self.across_lanes(self.across_width(self.row(part, unit)), 1)
            self.finish(unit * config.parts + part, state, exists)
            return
        first = unit * (config.width * config.vectors)
        place = part * self.problem.count + first
        for i, state in enumerate(self.columns(part, first)):
            self.finish(place + i * config.width, self.across_lanes(state, config.width), exists)

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
        with b.for_(begin + self.lane, end, step=self.config.lanes, carried=self.empty()) as loop:
            inner = unravel(b, loop.index, self.problem.reduced)
            position = self.spread(loop.index)
            joined: list[Value] = []
            for i, state in enumerate(self.states(loop.carried)):
                at = [*outer[:-1], outer[-1] + i * width] if i else outer
                joined += self.fold.join(self.k, state, self.loaded([*at, *inner], position, None))
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
        first = begin if lanes == 1 else begin + self.lane * width
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
        return self.loaded([*outer, *inner], self.places(index), mask)

    def loaded(self, at: Sequence[Value | int], position: Value, mask: Value | None) -> State:
        """Return the states of neighbouring elements, or the neighbouring states, of the source."""
        width, is_aligned = self.config.width, self.is_aligned
        values = tuple(
            source.load(source.at(at), width=width, mask=mask, is_aligned=is_aligned)
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

    def finish(self, place: Value, state: State, exists: Value | None) -> None:
        """Write a state, or what it ends as; of several lanes the first does."""
        results = (self.fold.end(self.k, state),) if self.ends else state

        def write() -> None:
            for target, result in zip(self.targets, results, strict=True):
                target.store(place, result)

        if exists is None:
            write()
            return
        with self.b.if_(exists & (self.lane == 0)):
            write()


def _kernel(*given: Any, is_aligned: bool, takes: bool, ends: bool) -> Kernel:
    body = _Body(*given, is_aligned=is_aligned, takes=takes, ends=ends)
    body.write()
    return body.b.build()


# ---- launching ----


def problem_of(x: CubeTensor, axes: tuple[int, ...]) -> Problem:
    """Return the two sides of a tensor, of which the given axes are reduced."""
    return _problem(x.shape, x.strides, axes)


@lru_cache(maxsize=4096)
def _problem(shape: Shape, strides: tuple[int, ...], axes: tuple[int, ...]) -> Problem:
    rest = [a for a in range(len(shape)) if a not in axes]

    def side(of: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
        (merged_side,) = merged(tuple(shape[a] for a in of), [tuple(strides[a] for a in of)])
        return merged_side

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
    machine = launcher.machine
    config = config or select(problem, machine, len(fold.start))
    if config.parts == 1:
        _launch(launcher, fold, [x], problem, config, [target], takes=True, ends=True)
        return target
    count, parts = problem.count, config.parts
    is_column = config.along == "columns"
    shape = (parts, count) if is_column else (count, parts)
    states = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
    _launch(launcher, fold, [x], problem, config, states, takes=True, ends=False)
    rest = problem_of(states[0], (0,) if is_column else (1,))
    second = replace(select(rest, machine), parts=1)
    _launch(launcher, fold, states, rest, second, [target], takes=False, ends=True)
    return target


def _launch(
    launcher: Launcher, fold: Fold, sources: Sequence[CubeTensor], problem: Problem,
    config: ReductionConfig, targets: Sequence[CubeTensor], *, takes: bool, ends: bool,
) -> None:  # fmt: skip
    together = config.width * config.vectors if config.along == "columns" else 1
    per_workgroup = config.workgroup_size // config.lanes
    groups = -(-(problem.count // together) // per_workgroup)
    read = tuple(Layout(x.dtype, (), x.offset != 0) for x in sources)
    written = tuple(target.dtype for target in targets)
    is_aligned = all(_is_aligned(problem, x.offset, config) for x in sources)
    given = (fold, problem, read, written, config)
    computed = (fold.name, fold.variant, fold.start, is_aligned, takes, ends)
    launcher.launch(
        ("reduce", computed, problem, read, written, config),
        lambda grid: _kernel(*given, grid, is_aligned=is_aligned, takes=takes, ends=ends),
        [b for t in (*sources, *targets) for b in bindings_of(t)],
        groups * config.parts,
    )


def _is_aligned(problem: Problem, offset: int, config: ReductionConfig) -> bool:
    """Whether every vector begins at a multiple of its width in the buffer."""
    outer, inner = problem.output_strides, problem.reduced_strides
    others = (*outer, *inner[:-1]) if config.along == "rows" else (*outer[:-1], *inner)
    return all(step % config.width == 0 for step in (offset, *others))


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
    return [mean_over(launcher, inputs[0], attrs["axis"], out[0])]


def mean_over(
    launcher: Launcher, x: CubeTensor, axes: tuple[int, ...], type: TensorType
) -> CubeTensor:
    """Return the means over axes as a dense tensor of the type, which has one element for each."""
    dtype = x.dtype.compute
    count = math.prod(x.shape[a] for a in axes)
    fold = replace(
        sum_of(dtype),
        variant=f"mean of {count}",
        end=lambda k, s: s[0] / float(count),
    )
    return reduce_axes(launcher, fold, x, axes, type)


@lowers("max", "min")
def extremum(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Folds of maximum and minimum."""
    (x,) = inputs
    axes, dtype = attrs["axis"], x.dtype.compute
    # A GPU has instructions to spare, and columns need the registers for more neighbours.
    is_row = launcher.machine.kind == "cpu" and not problem_of(x, axes).is_columns
    of = extremum_of_bits if is_row and dtype.is_float else extremum_of
    return [reduce_axes(launcher, of(op.name, dtype), x, axes, out[0])]


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
