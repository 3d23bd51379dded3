"""The sums of products along rows: what each row of the scores' cotangents has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout, Operand, iota, unravel, workgroup_of
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import least, pieces, rounded_up
from pyrite.kernel.template.lanes import sum_of_lanes


@dataclass(frozen=True, slots=True)
class Rows:
    """Two operands (*rows, size) and their sums (*rows)."""

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
    """An invocation has so many rows, which it reads by vectors."""

    width: int
    rows: int = 64


class RowSums:
    """The skeleton; operands are x, y and out."""

    name = "attention row sums"

    def candidates(self, problem: Rows, machine: Machine) -> Sequence[RowSumsConfig]:
        """Return the one config there is."""
        return [RowSumsConfig(machine.vector_bytes // problem.layouts[0].dtype.compute.itemsize)]

    def select(self, problem: Rows, machine: Machine) -> RowSumsConfig:
        """Return it."""
        return self.candidates(problem, machine)[0]

    def workgroups(self, problem: Rows, config: RowSumsConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(problem.count, config.rows)

    def build(self, problem: Rows, config: RowSumsConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b, width = KernelBuilder(self.name, grid=grid), config.width
        x, y = (Operand(b, n, of, "read") for n, of in zip("xy", problem.layouts, strict=False))
        out = Operand(b, "out", problem.layouts[2], "write")
        first = workgroup_of(b) * config.rows
        with b.for_(first, least(b, first + config.rows, problem.count)) as loop:
            row = unravel(b, loop.index, problem.rows)
            sum = b.const(0, vector(out.layout.dtype, width))
            places = [operand.at([*row, 0]) for operand in (x, y)]
            for column in range(0, rounded_up(problem.size, width), width):
                mask = None
                if column + width > problem.size:
                    mask = column + iota(b, width) < problem.size
                left, right = (
                    operand.load_along(
                        place + column * operand.layout.strides[-1], width, mask=mask
                    )
                    for operand, place in zip((x, y), places, strict=True)
                )
                sum = b.fma(left, right, sum)
            out[row] = sum_of_lanes(sum)
            loop.yield_()
        return b.build()


ROW_SUMS = RowSums()
