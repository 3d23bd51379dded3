"""The skeleton of kernels that go over rows: whoever writes them gives the kernel of a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.backend.cube.skeleton.row.config import RowsConfig, candidates, select, workgroups_of
from pyrite.backend.cube.skeleton.row.row import Row
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.types import DType

#: What the body of such a kernel is: it gives a row, on which it has run, for the operands of a
#: problem, a config and the number of axes of the grid.
Written = Callable[[Any, RowsConfig, int], Row]


@dataclass(frozen=True, slots=True)
class RowProblem:
    """So many ``rows`` of a ``length``, computed in a dtype, and where their operands lie.

    What a kernel depends on of both sizes is in ``operands``.  ``adds`` says that something is
    summed over the rows.
    """

    operands: Hashable
    dtype: DType
    rows: int = field(compare=False)
    length: int = field(compare=False)
    adds: bool = field(default=False, compare=False)


class RowSkeleton:
    """Kernels that go over rows several times."""

    name = "rows"

    def candidates(self, problem: RowProblem, machine: Machine) -> tuple[RowsConfig, ...]:
        """Return the configs that are right for rows in one piece."""
        return candidates(problem.length, problem.dtype, machine, adds=problem.adds)

    def select(self, problem: RowProblem, machine: Machine) -> RowsConfig:
        """Return the one that seems best for rows in one piece."""
        return select(problem.length, problem.dtype, machine, adds=problem.adds)

    def workgroups(self, problem: RowProblem, config: RowsConfig) -> int:
        """Return how many workgroups run the kernel."""
        return workgroups_of(problem.rows, config)

    def build(self, problem: RowProblem, config: RowsConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel, whose parameters are the row's."""
        assert fused.body is not None
        write: Written = fused.body.of
        return write(problem.operands, config, grid).b.build()


ROWS: Final = RowSkeleton()
