"""Kernels with one invocation for each point of a space, and a body of their own.

    def body(each: Each) -> None:
        x, out = each.operands
        i, j = each.at
        out[i, j] = x[j, i]

    for_each(launcher, "transpose", "", (3, 4), [x], out, body)

The space is usually the shape of the result.  The last operand is the one that is written.
The kernel serves spaces and operands of all sizes: what a body says of sizes comes from ``shape``
and ``extents`` of its `Each`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    layout_of,
    unravel,
)
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import Access
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, Shape, element_count, int32, uint32, uint64


@dataclass(frozen=True, slots=True)
class EachConfig:
    """``workgroup_size`` points together."""

    workgroup_size: int


def candidates(points: int, machine: Machine) -> tuple[EachConfig, ...]:
    """Return the configs for a space of so many points."""
    return tuple(EachConfig(size) for size in machine.workgroup_sizes)


def select(points: int, machine: Machine) -> EachConfig:
    """Return a config: small workgroups where there are few points, so that all cores have some."""
    found = candidates(points, machine)
    return next((c for c in found if points >= 16 * c.workgroup_size), found[-1])


@dataclass(frozen=True, slots=True)
class Points:
    """A space, its operands, and ``extents``: sizes that a body asks for.

    ``access`` is what it does with the last operand; ``numbers`` are the dtypes of those that it
    gets, and ``has_fault`` says whether reads of the result may raise.
    """

    layouts: tuple[Layout, ...]
    access: Access = "write"
    numbers: tuple[DType, ...] = ()
    has_fault: bool = False
    shape: Shape = extent(default=())
    extents: Shape = extent(default=())


class Each:
    """One point, inside the kernel: where it is, and what the body may use."""

    def __init__(self, name: str, points: Points, config: EachConfig, grid: int) -> None:
        b = self.b = KernelBuilder(name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        shape, last = points.shape, len(points.layouts) - 1
        self.extents = points.extents
        self.operands = [
            Operand(b, f"x{i}", layout, points.access if i == last else "read")
            for i, layout in enumerate(points.layouts)
        ]
        self.numbers = [b.scalar(f"number{i}", dtype) for i, dtype in enumerate(points.numbers)]
        can_fail = points.has_fault
        self._word: Memory | None = b.buffer("error", uint32, "atomic") if can_fail else None
        self._number = b.scalar("error_number", uint32) if can_fail else None
        self.index = invocation_of(b)
        self.shape = shape
        self.at = unravel(b, self.index, shape)
        for operand in self.operands:
            if len(operand.layout.strides) == len(shape):
                operand.meets(self.at, self.index, shape)

    def coordinates(self, index: Value, shape: Shape) -> list[Value | int]:
        """Return the coordinates of element number ``index`` of a shape."""
        return unravel(self.b, index, shape)

    def fail(self, failed: Value) -> None:
        """Have reads of what comes of it raise, if that is true."""
        assert self._word is not None
        assert self._number is not None
        self.b.error(self._word, failed, self._number)

    def as_index(self, x: Value, size: int, *, from_end: bool = True) -> tuple[Value, Value]:
        """Return whether x is an index of an axis, and the index, or 0 where it is none.

        ``from_end`` lets the negative ones count from the end: -size <= x < size.
        """
        return as_index(self.b, x, size, from_end=from_end)


def as_index(
    b: KernelBuilder, x: Value, size: int, *, from_end: bool = True
) -> tuple[Value, Value]:
    """Return whether x is an index of an axis, and the index, or 0; see `Each.as_index`."""
    signed = x.dtype.kind == "int"
    if x.dtype.itemsize < 4:  # which may not hold the size
        x = b.cast(x, int32)
    if signed and from_end:
        x = b.select(x < 0, x + size, x)
    bits = uint32 if x.dtype.itemsize == 4 else uint64
    # What is negative is large without its sign: one comparison, where every element counts.
    inside = b.bitcast(x, bits) < (b.cast(size, bits) if isinstance(size, Value) else size)
    return inside, b.select(inside, b.cast(x, b.index_type.dtype), 0)


class EachSkeleton:
    """Kernels with an invocation for each point."""

    name = "each point"

    def candidates(self, problem: Points, machine: Machine) -> tuple[EachConfig, ...]:
        """Return the configs for the space."""
        return candidates(element_count(problem.shape), machine)

    def select(self, problem: Points, machine: Machine) -> EachConfig:
        """Return the one for so many points."""
        return select(element_count(problem.shape), machine)

    def workgroups(self, problem: Points, config: EachConfig) -> int:
        """Return how many workgroups run the kernel."""
        return -(-element_count(problem.shape) // config.workgroup_size)

    def build(self, problem: Points, config: EachConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: operands, numbers, and an error word."""
        assert fused.body is not None
        each = Each(fused.body.name, problem, config, grid)
        with each.b.if_(each.index < element_count(problem.shape)):
            fused.body.of(each)
        return each.b.build()


EACH: Final = EachSkeleton()

Write = Callable[[Each], None]


def for_each(
    launcher: Launcher,
    name: str,
    variant: Hashable,
    shape: Shape,
    sources: Sequence[CubeTensor],
    target: CubeTensor,
    body: Write,
    *,
    extents: Shape = (),
    numbers: Sequence[tuple[Number, DType]] = (),
    fault: str | None = None,
    access: Access = "write",
    config: EachConfig | None = None,
    knows_first: bool = False,
) -> None:
    """Run a body for each point of a space.

    ``name`` and ``variant`` tell the body from others: all that it depends on besides the shape,
    the dtypes, the strides and ``extents``, sizes that it finds in ``Each.extents``.  ``fault`` is
    what reads are to raise if the body calls ``fail``; ``access`` is what it does with the target.
    ``knows_first`` is for bodies that are faster where sizes are built in: the first ones are.
    """
    if element_count(shape) == 0:
        return
    operands = [*sources, target]
    bindings: list[Buffer | Number] = [b for t in operands for b in bindings_of(t)]
    bindings += [number for number, _ in numbers]
    points = Points(
        tuple(layout_of(t) for t in operands), access, tuple(dtype for _, dtype in numbers),
        fault is not None, tuple(shape), tuple(extents),
    )  # fmt: skip
    fused = Fused(body=Body(name, (name, variant), body))
    launch(
        launcher, EACH, points, bindings, config=config, fused=fused, fault=fault,
        knows_first=knows_first,
    )  # fmt: skip
