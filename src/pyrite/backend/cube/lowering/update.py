"""Steps of optimisers: a composite that goes element by element is one kernel.

Its body is tensor arithmetic.  It is run once, on `Point`s instead of tensors, which record the
scalar rule of each op into one kernel: every operand is read once and every result written once.
Numbers are arguments, so a learning rate that changes compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    alignment_of,
    bindings_of,
    invocation_of,
    iota,
)
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.elementwise import ElementwiseConfig, contiguous, select
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import OPS, Attributes, Constant, Op
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, TensorType, int32


class Point:
    """An element of each invocation's, or a vector of them, with the operators of a tensor."""

    __hash__ = None  # type: ignore[assignment]  # == records a comparison

    def __init__(self, value: Value) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        """Return the method that records an op: that of the op table of this name."""
        op = OPS.get(name.strip("_"))
        if op is None or op.scalar is None:
            raise AttributeError(f"an element has no method {name!r}")
        return lambda *others, **attrs: _record(op, self, *others, **attrs)

    def __add__(self, other: Any) -> Point:
        return _record(OPS["add"], self, other)

    def __sub__(self, other: Any) -> Point:
        return _record(OPS["subtract"], self, other)

    def __mul__(self, other: Any) -> Point:
        return _record(OPS["multiply"], self, other)

    def __truediv__(self, other: Any) -> Point:
        return _record(OPS["divide"], self, other)

    def __radd__(self, other: Number) -> Point:
        return _record(OPS["add"], other, self)

    def __rsub__(self, other: Number) -> Point:
        return _record(OPS["subtract"], other, self)

    def __rmul__(self, other: Number) -> Point:
        return _record(OPS["multiply"], other, self)

    def __rtruediv__(self, other: Number) -> Point:
        return _record(OPS["divide"], other, self)

    def __ge__(self, other: Any) -> Point:
        return _record(OPS["greater_equal"], self, other)

    def where(self, condition: Point, other: Any) -> Point:
        """Return this where the condition holds, else the other."""
        return _record(OPS["where"], condition, self, other)

    def clamp_min(self, least: Number) -> Point:
        """Return this, or the least where it is less."""
        return _record(OPS["clip"], self, least, None)


def _record(op: Op, *operands: Any, **attrs: Any) -> Point:
    values = [x.value if isinstance(x, Point) else x for x in operands]
    of = next(x.value for x in operands if isinstance(x, Point))
    assert op.scalar is not None
    width = max(x.width for x in values if isinstance(x, Value))
    spread = [
        of.builder.splat(x, width) if isinstance(x, Value) and x.width < width else x
        for x in values
    ]
    return Point(op.scalar(RecordingAlgebra(of.builder), *spread, **attrs))


@dataclass(frozen=True, slots=True)
class _Plan:
    """All that a kernel depends on.

    ``sources`` are layouts, dtypes of numbers, and None for what was left out; ``is_whole`` says
    that the width divides the number of elements.
    """

    name: str
    attrs: tuple[tuple[str, Any], ...]
    sources: tuple[Layout | DType | None, ...]
    dtype: DType
    is_whole: bool
    config: ElementwiseConfig


#: Operands that have, with a result for each but the gradient, the buffers of every WebGPU device.
MOST_OPERANDS = 4


def _fits(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether all tensors are of one dtype of floats, as parameters and state are, and few."""
    tensors = [i for i in inputs if isinstance(i, CubeTensor)]
    is_uniform = all(t.dtype is tensors[0].dtype and t.dtype.is_float for t in tensors)
    return is_uniform and (machine.kind == "cpu" or len(tensors) <= MOST_OPERANDS)


@lowers(
    "adagrad_update", "adam_update", "adamw_update", "adan_update", "lion_update",
    "momentum_update", "rmsprop_update", "sgd_update", when=_fits,
)  # fmt: skip
def update(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The parameter and the state after a step, each a dense tensor of the parameter's shape."""
    given = [i for i in inputs if isinstance(i, CubeTensor)]
    shape, count = given[0].shape, given[0].type.size
    dtype = given[0].dtype
    sources = [
        contiguous(launcher, i.broadcast_to(shape)) if isinstance(i, CubeTensor) else i
        for i in inputs
    ]
    config = select((count,), launcher.machine)
    plan = _Plan(
        op.name, tuple(sorted(attrs.items())),
        tuple(_kind(i, dtype, config.width) for i in sources), dtype, count % config.width == 0,
        config,
    )  # fmt: skip
    targets = [launcher.empty(TensorType(shape, dtype)) for _ in range(_results(plan))]
    if count:
        bindings: list[Buffer | Number] = [count]
        for i in (*sources, *targets):
            if isinstance(i, CubeTensor):
                bindings += bindings_of(i)
            elif isinstance(i, Constant):
                bindings.append(launcher.number(i, dtype.compute))
        workgroups = -(-count // (config.width * config.workgroup_size))
        launcher.launch(plan, lambda grid: _kernel(plan, grid), bindings, workgroups)
    return targets


def _kind(x: Input, dtype: DType, width: int) -> Layout | DType | None:
    if isinstance(x, CubeTensor):
        return Layout(x.dtype, (1,), x.offset != 0, alignment_of((1,), x.offset, width))
    return None if x is None else dtype.compute


def _stepped(plan: _Plan, values: Sequence[Value | None]) -> list[Value]:
    """Return the results of the op's body at values."""
    body = OPS[plan.name].body
    assert body is not None, "a composite has a body"
    points = [x if x is None else Point(x) for x in values]
    found = body(*points, **dict(plan.attrs))
    return [x.value for x in (found if isinstance(found, tuple) else (found,))]


@lru_cache(maxsize=1024)
def _results(plan: _Plan) -> int:
    """Return how many results there are."""
    b = KernelBuilder(plan.name)
    compute = plan.dtype.compute
    values = [s if s is None else b.scalar(f"x{i}", compute) for i, s in enumerate(plan.sources)]
    return len(_stepped(plan, values))


def _kernel(plan: _Plan, grid: int) -> Kernel:
    width = plan.config.width
    b = KernelBuilder(plan.name, workgroup_size=plan.config.workgroup_size, grid=grid)
    count = b.scalar("count", int32)
    sources = [
        Operand(b, f"x{i}", s, "read") if isinstance(s, Layout)
        else s if s is None else b.scalar(f"x{i}", s)
        for i, s in enumerate(plan.sources)
    ]  # fmt: skip
    written = Layout(plan.dtype, (1,), alignment=width)
    targets = [Operand(b, f"out{i}", written, "write") for i in range(_results(plan))]
    first = invocation_of(b) * width
    mask = None if plan.is_whole else first + iota(b, width) < count
    with b.if_(first < count):
        values = [
            s.load_along(s.at([first]), width, mask=mask, is_aligned=True)
            if isinstance(s, Operand) else s
            for s in sources
        ]  # fmt: skip
        for target, value in zip(targets, _stepped(plan, values), strict=True):
            target.store_along(target.at([first]), value, mask=mask, is_aligned=True)
    return b.build()
