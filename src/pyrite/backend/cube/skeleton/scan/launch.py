"""The skeleton of scans, and their launches: one, or one that folds the parts of lines first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout, bindings_of
from pyrite.backend.cube.skeleton.fold import KernelFold, join_cost
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.scan.alone import WalkAlone
from pyrite.backend.cube.skeleton.scan.config import ScanConfig, candidates, select
from pyrite.backend.cube.skeleton.scan.lines import lines_of
from pyrite.backend.cube.skeleton.scan.together import WalkTogether
from pyrite.backend.cube.skeleton.scan.walk import Walked
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.types import TensorType


class ScanSkeleton:
    """Kernels of scans; the fold is the body."""

    name = "scan"

    def candidates(self, problem: Walked, machine: Machine) -> tuple[ScanConfig, ...]:
        """Return the configs that are right for the lines."""
        return candidates(problem.lines, problem.values, machine)

    def select(self, problem: Walked, machine: Machine) -> ScanConfig:
        """Return the one for the cost of a join."""
        return select(problem.lines, problem.values, problem.join_cost, machine)

    def workgroups(self, problem: Walked, config: ScanConfig) -> int:
        """Return how many workgroups run the kernel."""
        units = problem.lines.count // config.lines * config.parts
        return units if config.lanes > 1 else -(-units // config.workgroup_size)

    def build(self, problem: Walked, config: ScanConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: the source, states of parts, and targets."""
        assert fused.body is not None
        kind = WalkAlone if config.lanes == 1 else WalkTogether
        walk = kind(fused.body.of, problem, config, grid)
        walk.write()
        return walk.b.build()


SCAN: Final = ScanSkeleton()


def scan_axis(
    launcher: Launcher,
    fold: KernelFold,
    x: CubeTensor,
    axis: int,
    type: TensorType,
    *,
    has_initial: bool = False,
    is_reverse: bool = False,
    config: ScanConfig | None = None,
) -> CubeTensor:
    """Return the folds of all elements up to each along an axis, as a dense tensor of the type.

    ``has_initial`` puts the fold of no elements in front, ``is_reverse`` goes from the end.
    """
    (found,) = scan_results(
        launcher, fold, [type], x, axis, has_initial=has_initial,
        is_reverse=is_reverse, config=config,
    )  # fmt: skip
    return found


def scan_results(
    launcher: Launcher,
    fold: KernelFold,
    types: Sequence[TensorType],
    x: CubeTensor,
    axis: int,
    *,
    has_initial: bool = False,
    is_reverse: bool = False,
    config: ScanConfig | None = None,
) -> list[CubeTensor]:
    """Return all results of each state of a scan, whose types differ in their dtypes alone."""
    targets = [launcher.empty(type) for type in types]
    if targets[0].type.size == 0:
        return targets
    lines = lines_of(x, targets[0], axis, has_initial=has_initial, is_reverse=is_reverse)
    source = Layout(x.dtype, lines.source, x.offset != 0)
    parts = Walked(lines, source, len(fold.start), join_cost(fold), count=fold.bound.count)
    config = config or SCAN.select(parts, launcher.machine)
    fused = Fused(body=Body(fold.name, fold.key_of_any_count, fold))
    bindings = bindings_of(x)
    if config.parts > 1:
        shape = (config.parts, lines.count)
        bindings += [launcher.empty(TensorType(shape, d)).buffer for _, d in fold.start]
        launch(launcher, SCAN, parts, bindings, config=config, fused=fused)
    whole = replace(parts, targets=tuple(target.dtype for target in targets))
    bindings += [target.buffer for target in targets]
    launch(launcher, SCAN, whole, bindings, config=config, fused=fused)
    return targets
