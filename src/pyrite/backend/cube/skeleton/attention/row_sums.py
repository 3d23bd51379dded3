"""Sums of products along rows, less a number: what cotangents of a row of scores share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout, Operand, invocation_of, iota, unravel
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import least, pieces, rounded_up
from pyrite.kernel.template.lanes import sum_of_lanes


@dataclass(frozen=True, slots=True)
class Rows:
    """Two operands (*rows, size), the numbers to take off (*rows), and the sums (*rows)."""

    size: int
    layouts: tuple[Layout, ...]
    rows: tuple[int, ...] = extent()

    @property
    def count(self) -> int:
        """How many rows there are."""
        count = 1
        for size in self.rows:
            count = count * size
        return count


@dataclass(frozen=True, slots=True)
class RowSumsConfig:
    """Each of the ``invocations`` of a workgroup has so many rows, which it reads by vectors."""

    width: int
    rows: int
    invocations: int


class RowSums:
    """The skeleton; operands are x, y, less and out."""

    name = "attention row sums"

    def candidates(self, problem: Rows, machine: Machine) -> Sequence[RowSumsConfig]:
        """Return the one config there is for a device."""
        if machine.kind == "gpu":
            return [RowSumsConfig(machine.vector, 1, machine.workgroup_sizes[-2])]
        width = machine.vector_bytes // problem.layouts[0].dtype.compute.itemsize
        return [RowSumsConfig(width, 64, 1)]

    def select(self, problem: Rows, machine: Machine) -> RowSumsConfig:
        """Return it."""
        return self.candidates(problem, machine)[0]

    def workgroups(self, problem: Rows, config: RowSumsConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(problem.count, config.rows * config.invocations)

    def build(self, problem: Rows, config: RowSumsConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b = KernelBuilder(self.name, workgroup_size=config.invocations, grid=grid)
        left, right, less = (
            Operand(b, name, layout, "read")
            for name, layout in zip(("x", "y", "less"), problem.layouts[:3], strict=True)
        )
        out = Operand(b, "out", problem.layouts[3], "write")
        first = invocation_of(b) * config.rows
        with b.for_(first, least(b, first + config.rows, problem.count)) as loop:
            row = unravel(b, loop.index, problem.rows)
            places = left.at([*row, 0]), right.at([*row, 0])
            sum = b.const(0, vector(out.layout.dtype, config.width))
            for column in range(0, rounded_up(problem.size, config.width), config.width):
                x, y = (
                    _columns(operand, place, column, problem.size, config.width)
                    for operand, place in zip((left, right), places, strict=True)
                )
                sum = b.fma(x, y, sum)
            out[row] = sum_of_lanes(sum) - less[row]
            loop.yield_()
        return b.build()


def _columns(operand: Operand, place: Value, column: int, size: int, width: int) -> Value:
    """Return a vector of columns of a row that begins at a place; 0 behind its end."""
    ends = column + width > size
    mask = column + iota(operand.builder, width) < size if ends else None
    step = operand.layout.strides[-1]
    return operand.load_along(place + column * step, width, mask=mask, is_aligned=True)


ROW_SUMS = RowSums()
