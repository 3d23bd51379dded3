"""The skeleton of a fold: its configs, and its kernels along either side."""

from __future__ import annotations

from typing import Final

from pyrite.backend.cube.skeleton.fold.columns import ColumnFold
from pyrite.backend.cube.skeleton.fold.config import ReductionConfig, candidates, select, units
from pyrite.backend.cube.skeleton.fold.invocation import Invocation
from pyrite.backend.cube.skeleton.fold.order import Along
from pyrite.backend.cube.skeleton.fold.reduction import Reduction
from pyrite.backend.cube.skeleton.fold.rows import RowFold
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine

KERNELS: Final[dict[Along, type[Invocation]]] = {"rows": RowFold, "columns": ColumnFold}


class FoldSkeleton:
    """Kernels of folds over axes; the fold is the body."""

    name = "fold"

    def candidates(self, problem: Reduction, machine: Machine) -> tuple[ReductionConfig, ...]:
        """Return the configs that are right for both sides of the input."""
        return candidates(problem.problem, machine)

    def select(self, problem: Reduction, machine: Machine) -> ReductionConfig:
        """Return the one for so many values of a state."""
        return select(problem.problem, machine, problem.values)

    def workgroups(self, problem: Reduction, config: ReductionConfig) -> int:
        """Return how many workgroups run the kernel."""
        per_workgroup = config.workgroup_size // config.lanes
        return -(-units(problem.problem, config) // per_workgroup) * config.parts

    def build(self, problem: Reduction, config: ReductionConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel; see `Invocation`.  An epilogue's coordinate is the output's number.

        Parameters: sources, those of the epilogue, and targets.
        """
        body = KERNELS[config.along](fused, problem, config, grid)
        body.write()
        return body.b.build()


FOLD: Final = FoldSkeleton()
