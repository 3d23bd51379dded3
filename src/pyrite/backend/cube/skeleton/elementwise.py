"""Ops with a scalar rule: the rule is traced into a kernel, whatever the op.

Inputs broadcast by strides of 0 and axes are merged where all operands continue, so most kernels
see one axis.  Sizes are arguments, and numbers too: neither another length nor a learning rate that
changes compiles anything.  On several axes a vector stays in one row, and the last of a row may
be masked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyrite.backend.cube.launcher import Foresee, Launcher, Machine
from pyrite.backend.cube.layout import Strides, broadcast_strides, merged
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    alignment_of,
    bindings_of,
    invocation_of,
    iota,
    unravel,
    word_of,
)
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.identity import given_back
from pyrite.backend.cube.skeleton.protocol import Body, Fused, foresee, launch
from pyrite.backend.cube.skeleton.turned import copy_turned, lies_turned
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import cached
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import all_extents, extent
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.trace import RecordingAlgebra, trace
from pyrite.op import Attributes, Constant, Op, attributes_key, rules_key
from pyrite.op.coordinates import attributes_read
from pyrite.runtime.protocol import Buffer
from pyrite.sized import asked
from pyrite.types import DType, Number, Shape, bool_, element_count, int32

Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ElementwiseConfig:
    """``width`` consecutive elements per invocation, ``workgroup_size`` invocations together.

    Invocations go through the elements in row-major order; with ``rows`` > 1 through as many rows
    at a time, column by column, which keeps a transposed source in the cache.  ``is_whole`` says
    that the width divides the last axis: no vector is masked.
    """

    workgroup_size: int
    width: int
    rows: int = 1
    is_whole: bool = False


def candidates(shape: Shape, machine: Machine) -> tuple[ElementwiseConfig, ...]:
    """Return the configs for a merged shape: on several axes a vector is not longer than rows."""
    return tuple(
        ElementwiseConfig(size, width, rows, shape[-1] % width == 0)
        for size in machine.workgroup_sizes
        for width in _widths(shape, WIDTHS[-1])
        for rows in _rows(shape)
    )


def _widths(shape: Shape, most: int) -> Iterator[int]:
    """Give the widths from the greatest on."""
    return (
        w for w in reversed(WIDTHS) if w <= most and (len(shape) == 1 or w < 2 * shape[-1])
    )  # fmt: skip


def _rows(shape: Shape) -> tuple[int, ...]:
    return (1, 16) if len(shape) > 1 else (1,)


def select(shape: Shape, machine: Machine, *, is_turned: bool = False) -> ElementwiseConfig:
    """Return a config: as wide as the machine likes and the shape allows.

    ``is_turned`` says that the elements of a source are neighbours on another axis than the last.
    A processor masks the end of a row, whatever its length, so that few kernels serve all lengths;
    GPUs test masks lane by lane, so there the width divides the row.
    """
    is_cpu, has_rows = machine.kind == "cpu", len(shape) > 1
    width, is_whole = asked(_fitting, shape[-1], machine.vector, is_cpu, has_rows)
    rows = max(_rows(shape)) if is_turned and is_cpu else 1
    return ElementwiseConfig(machine.workgroup_sizes[0], width, rows, is_whole)


def _fitting(last: int, vector: int, is_cpu: bool, has_rows: bool) -> tuple[int, bool]:
    """Return the width for a last axis, and whether it divides that."""
    shape = (1, last) if has_rows else (last,)
    widths = _widths(shape, vector)
    width = next(w for w in widths if not has_rows or is_cpu or last % w == 0)
    return width, last % width == 0


def elementwise(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run an op by its scalar rule."""
    assert op.scalar is not None
    if (same := given_back(op, inputs, attrs, out[0])) is not None:
        return [same]
    rule = op.scalar
    target = launcher.empty(out[0])
    # Two applications may have ops of one name.
    variant = (op, rules_key(op), attributes_key(op, attributes_read(rule, attrs)))
    if not op.coordinates:
        map_elements(
            launcher, op.name, variant, lambda k, *values: rule(k, *values, **attrs), inputs, target
        )
        return [target]
    shape = target.shape if "at" in op.coordinates else ()

    def reading(k: RecordingAlgebra, *values: Value, index: Value) -> Any:
        known = {"index": index, "at": KernelCoordinates(k.builder, index, shape)}
        return rule(k, *values, **attrs, **{name: known[name] for name in op.coordinates})

    map_elements(launcher, op.name, (*variant, shape), reading, inputs, target, reads_index=True)
    return [target]


class KernelCoordinates:
    """The coordinates of the elements of a shape with numbers in row-major order."""

    def __init__(self, b: KernelBuilder, index: Value, shape: Shape) -> None:
        self.shape = shape
        self._builder, self._index = b, index

    def __getitem__(self, axis: int) -> Value:
        """Return the coordinates on an axis."""
        found = unravel(self._builder, self._index, self.shape)[axis]
        if isinstance(found, Value):
            return found
        return self._builder.const(found, self._index.type)


@dataclass(frozen=True, slots=True)
class _Argument:
    """A number that the kernel gets as an argument of this dtype."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Elements:
    """All that the kernel depends on, besides the rule.

    ``sources`` are layouts, arguments, bools, and None for what was left out.  ``inner`` has the
    sizes of all axes but the first, of which there may be any number: the ``count`` of elements is
    an argument, so that one is no case of its own.  ``is_turned`` says that the elements of a
    source are neighbours on another axis than the last.
    """

    sources: tuple[Layout | _Argument | bool | None, ...]
    targets: tuple[Layout, ...]
    inner: Shape = extent()
    count: int = field(default=0, compare=False)
    is_turned: bool = field(default=False, compare=False)

    @property
    def rows(self) -> int:
        """The size of the first axis; there is no other if there are no inner ones."""
        return self.count // element_count(self.inner)

    @property
    def bound(self) -> int:
        """The argument: the number of elements, or of rows where there are several."""
        return self.count // self.inner[-1] if self.inner else self.count

    def per_row(self, width: int) -> int:
        """Return how many vectors a row has."""
        return -(-self.inner[-1] // width)


class ElementwiseSkeleton:
    """Kernels that write a function of elements to each element of their targets."""

    name = "elementwise"

    def candidates(self, problem: Elements, machine: Machine) -> tuple[ElementwiseConfig, ...]:
        """Return the configs for the merged shape."""
        return candidates((problem.rows, *problem.inner), machine)

    def select(self, problem: Elements, machine: Machine) -> ElementwiseConfig:
        """Return the one that fits the last axis."""
        shape = (problem.rows, *problem.inner)
        return select(shape, machine, is_turned=problem.is_turned)

    def workgroups(self, problem: Elements, config: ElementwiseConfig) -> int:
        """Return how many workgroups run the kernel: a vector stays in one row."""
        vectors = -(-problem.count // config.width)
        if problem.inner:
            rows = -(-problem.bound // config.rows) * config.rows
            vectors = rows * problem.per_row(config.width)
        return -(-vectors // config.workgroup_size)

    def build(
        self, problem: Elements, config: ElementwiseConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: `Elements.bound`, sources, targets."""
        assert fused.body is not None
        b = KernelBuilder(fused.body.name, workgroup_size=config.workgroup_size, grid=grid)
        ElementwiseKernel(b, problem, config).write(fused.body.of, invocation_of(b))
        return b.build()


ELEMENTWISE: Final = ElementwiseSkeleton()


def map_elements(
    launcher: Launcher,
    name: str,
    variant: Hashable,
    rule: Rule,
    inputs: Sequence[Input],
    target: CubeTensor,
    config: ElementwiseConfig | None = None,
    *,
    reads_index: bool = False,
) -> None:
    """Write rule(k, *elements) to every element of the target, which may be a strided view.

    ``name`` and ``variant`` tell the rule from others.  With ``reads_index`` it also gets the
    keyword ``index``: the number of its element in row-major order.
    """

    def store(
        b: KernelBuilder, values: Sequence[Value | None], index: Callable[[], Value]
    ) -> tuple[Value]:
        extra = {"index": index()} if reads_index else {}
        return (trace(b, rule, values, target.dtype, **extra),)

    map_together(launcher, name, variant, store, inputs, [target], config)


#: From a builder, the elements, and what gives their numbers in row-major order, to what is written
#: to each target, in its dtype.
Together = Callable[[KernelBuilder, Sequence["Value | None"], Callable[[], Value]], Sequence[Value]]


def map_together(
    launcher: Launcher,
    name: str,
    variant: Hashable,
    rule: Together,
    inputs: Sequence[Input],
    targets: Sequence[CubeTensor],
    config: ElementwiseConfig | None = None,
) -> None:
    """Write what a rule makes of elements to those of several targets of one shape."""
    if targets[0].type.size == 0:
        return
    if launcher.machine.kind == "cpu" and config is None:
        inputs = [_turned_back(launcher, x, targets[0]) for x in inputs]
    problem, config = problem_of(inputs, targets, launcher.machine, config)
    fused = Fused(body=Body(name, (name, variant), rule))
    bindings = elementwise_bindings(launcher, problem, inputs, targets)
    # Numbers of elements are taken apart into coordinates by divisions.
    knows_first = len(problem.inner) > 0
    launch(
        launcher, ELEMENTWISE, problem, bindings, config=config, fused=fused,
        knows_first=knows_first, writes_once=True,
    )  # fmt: skip
    _foresee_other_end(launcher, problem, config, fused)


#: Fewer elements are read from where they lie in less time than a launch more takes.
_LEAST_TURNED = 1 << 9


def _turned_back(launcher: Launcher, x: Input, target: CubeTensor) -> Input:
    """Return a copy in the target's order of a tensor whose neighbours are on another axis.

    Tiles are turned in registers: 1024² transposed elements and as many others are added up in a
    third of the time.
    """
    if not isinstance(x, CubeTensor) or x.shape != target.shape:
        return x
    if 0 in x.strides or not target.is_contiguous:
        return x
    # Whether it is small is asked last, as most tensors lie straight, of any size.
    if not lies_turned(launcher.machine, x, target.strides) or x.type.size < _LEAST_TURNED:
        return x
    dense = launcher.empty(x.type)
    copy_turned(launcher, x, dense)
    return dense


def _foresee_other_end(
    launcher: Launcher, problem: Elements, config: ElementwiseConfig, fused: Fused
) -> None:
    """Have kernels compiled ahead for rows that end in another way.

    The rehearsal of an op meets them, but where a lowering writes what it makes to one of its own.
    """
    for like, chosen in _other_ends(problem, config, launcher.machine):

        def other(
            like: Elements = like, chosen: ElementwiseConfig = chosen
        ) -> tuple[Hashable, Foresee]:
            key = all_extents((like, chosen, fused))[0]
            return key, lambda launcher: foresee(launcher, ELEMENTWISE, like, chosen, fused)

        launcher.compile_other_class(other)


def _other_ends(
    problem: Elements, config: ElementwiseConfig, machine: Machine
) -> Iterator[tuple[Elements, ElementwiseConfig]]:
    """Give what rows have that end otherwise: whole, or masked; on a GPU narrower vectors."""
    if machine.kind == "cpu" or not problem.inner:
        if config.width > 1:
            yield problem, replace(config, is_whole=not config.is_whole)
        return
    for width in (w for w in WIDTHS if w <= machine.vector and w != config.width):

        def aligned(x: Any, width: int = width) -> Any:
            # A tensor whose rows are whole vectors mostly has whole ones of another width too.
            is_whole = isinstance(x, Layout) and x.alignment == config.width
            return replace(x, alignment=width) if is_whole else x

        sources, targets = (tuple(map(aligned, of)) for of in (problem.sources, problem.targets))
        like = replace(problem, sources=sources, targets=targets)
        yield like, replace(config, width=width)


def problem_of(
    inputs: Sequence[Input], targets: Sequence[CubeTensor], machine: Machine,
    config: ElementwiseConfig | None = None,
) -> tuple[Elements, ElementwiseConfig]:  # fmt: skip
    """Return the problem of some tensors and numbers, and the config given or selected."""
    shape = targets[0].shape
    sources = tuple(_seen(i, shape) for i in inputs)
    seen = tuple(_seen(t, shape) for t in targets)
    return _problem_of(shape, sources, seen, machine, config)


def elementwise_bindings(
    launcher: Launcher, problem: Elements, inputs: Sequence[Input], targets: Sequence[CubeTensor]
) -> list[Buffer | Number]:
    """Return what binds the parameters of a kernel, in order."""
    bindings: list[Buffer | Number] = [problem.bound]
    for i in (*inputs, *targets):
        if isinstance(i, CubeTensor):
            bindings += bindings_of(i)
        elif isinstance(i, Constant) and not i.type.dtype.is_bool:
            bindings.append(launcher.number(i, i.type.dtype.compute))
    return bindings


#: What a problem is made from: of a tensor its dtype, its strides as stretched to the target,
#: whether it has an offset, and the offset modulo the greatest width; of a number its dtype.
_Seen = tuple[DType, Strides, bool, int] | DType | bool | None


def _seen(x: Input, shape: Shape) -> _Seen:
    if isinstance(x, CubeTensor):
        is_whole = x.type.shape == shape
        strides = x.strides if is_whole else broadcast_strides(x.shape, x.strides, shape)
        return (x.dtype, strides, x.offset != 0, x.offset % WIDTHS[-1])
    if isinstance(x, Constant):
        return bool(x.value) if x.type.dtype.is_bool else x.type.dtype.compute
    return None


@cached(4096)
def _problem_of(
    shape: Shape,
    sources: tuple[_Seen, ...],
    targets: tuple[_Seen, ...],
    machine: Machine,
    config: ElementwiseConfig | None,
) -> tuple[Elements, ElementwiseConfig]:
    seen = [s for s in (*sources, *targets) if isinstance(s, tuple)]
    flat = merged(shape, [strides for _, strides, _, _ in seen])
    sizes = flat[0][0] or (1,)
    is_turned = any(s and s[-1] != 1 and 1 in s for _, s in flat)
    found = config or select(sizes, machine, is_turned=is_turned)
    word = word_of(found.width, machine)
    layouts = [
        Layout(dtype, strides or (1,), has_offset, alignment_of(strides or (1,), offset, word))
        for (dtype, _, has_offset, offset), (_, strides) in zip(seen, flat, strict=True)
    ]
    remaining = iter(layouts)
    read = tuple(_source(s, remaining) for s in sources)
    written = tuple(layouts[-len(targets) :])
    return Elements(read, written, sizes[1:], element_count(sizes), is_turned), found


def _source(seen: _Seen, layouts: Iterator[Layout]) -> Layout | _Argument | bool | None:
    if isinstance(seen, tuple):
        return next(layouts)
    return _Argument(seen) if isinstance(seen, DType) else seen


class ElementwiseKernel:
    """A kernel of one problem, while it is being written, or the part of one of several.

    ``prefix`` tells its parameters from those of other parts.
    """

    def __init__(
        self, b: KernelBuilder, problem: Elements, config: ElementwiseConfig, prefix: str = ""
    ) -> None:
        self.b, self.problem, self.config = b, problem, config
        self.width = config.width
        self.count = b.scalar(f"{prefix}count", int32)
        self.mask: Value | None = None
        self.sources = [self._declare(f"{prefix}x{n}", s) for n, s in enumerate(problem.sources)]
        names = ["out", *(f"out{n}" for n in range(1, len(problem.targets)))]
        self.targets = [
            Operand(b, f"{prefix}{name}", layout, "write")
            for name, layout in zip(names, problem.targets, strict=True)
        ]

    def _declare(self, name: str, source: Layout | _Argument | bool | None) -> Any:
        if isinstance(source, Layout):
            return Operand(self.b, name, source, "read")
        if isinstance(source, _Argument):
            return self.b.scalar(name, source.dtype)
        return source if source is None else self.b.const(source, bool_)

    def write(self, rule: Together, vector: Value) -> None:
        """Write what the rule makes of the vector with a number, if there is one."""
        b, width, inner = self.b, self.width, self.problem.inner
        if not inner:
            first = vector * width if width > 1 else vector
            if self.config.is_whole:
                with b.if_(first < self.count):
                    self.store(rule, [first])
                return
            self.mask = first + iota(b, width) < self.count
            self.store(rule, [first])
            return
        row, number = self.position(vector)
        with b.if_(row < self.count):
            column = number * width if width > 1 else number
            if not self.config.is_whole:
                self.mask = column + iota(b, width) < inner[-1]
            self.store(rule, [*unravel(b, row, self.shape[:-1]), column])

    @property
    def shape(self) -> Shape:
        """The merged axes, with a size that nobody looks at for the first."""
        return (0, *self.problem.inner)

    def position(self, vector: Value) -> tuple[Value, Value]:
        """Return the row of a vector, among all rows, and its number there."""
        rows, per_row = self.config.rows, self.problem.per_row(self.width)
        if rows == 1:
            return vector // per_row, vector % per_row
        block, within = vector // (rows * per_row), vector % (rows * per_row)
        return block * rows + within % rows, within // rows

    def store(self, rule: Together, coordinates: list[Value | int]) -> None:
        """Write what the rule makes of a vector of elements."""
        values = [self.value(source, coordinates) for source in self.sources]
        results = rule(self.b, values, lambda: self.number(coordinates))
        for target, result in zip(self.targets, results, strict=True):
            place = target.at(coordinates)
            target.store_along(place, self.spread(result), mask=self.mask, is_aligned=True)

    def number(self, coordinates: list[Value | int]) -> Value:
        """Return the numbers of a vector's elements in row-major order."""
        first: Value | int = 0
        for coordinate, size in zip(coordinates, self.shape, strict=True):
            first = first * size + coordinate
        b = self.b
        index = b.index(first)
        return index if self.width == 1 else b.splat(index, self.width) + iota(b, self.width)

    def value(self, source: Any, coordinates: list[Value | int]) -> Value | None:
        if not isinstance(source, Operand):
            return source if source is None else self.spread(source)
        place = source.at(coordinates)
        return source.load_along(place, self.width, mask=self.mask, is_aligned=True)

    def spread(self, x: Value) -> Value:
        return x if x.width == self.width else self.b.splat(x, self.width)
