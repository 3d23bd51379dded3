"""The launches of a scan: one, or one that folds the parts of lines and one that writes."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout, bindings_of
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.scan.alone import WalkAlone
from pyrite.backend.cube.skeleton.scan.config import ScanConfig, select
from pyrite.backend.cube.skeleton.scan.lines import lines_of
from pyrite.backend.cube.skeleton.scan.together import WalkTogether
from pyrite.backend.cube.skeleton.scan.walk import Scan, Walked
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.runtime.protocol import Buffer
from pyrite.types import TensorType


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
    config = config or select(lines, fold, launcher.machine)
    scan = Scan(fold, lines)
    partial: list[Buffer] = []
    if config.parts > 1:
        shape = (config.parts, lines.count)
        partial = [launcher.empty(TensorType(shape, d)).buffer for _, d in fold.start]
        _launch(launcher, scan, x, config, partial, [])
    _launch(launcher, scan, x, config, partial, targets)
    return targets


def _launch(
    launcher: Launcher, scan: Scan, x: CubeTensor, config: ScanConfig,
    partial: Sequence[Buffer], targets: Sequence[CubeTensor],
) -> None:  # fmt: skip
    fold, lines = scan.fold, scan.lines
    units = lines.count // config.lines * config.parts
    workgroups = units if config.lanes > 1 else -(-units // config.workgroup_size)
    source = Layout(x.dtype, lines.source, x.offset != 0)
    dtypes = tuple(target.dtype for target in targets)
    kind = WalkAlone if config.lanes == 1 else WalkTogether

    def build(of: Walked, grid: int) -> Kernel:
        walk = kind(fold, of, config, grid)
        walk.write()
        return walk.b.build()

    launcher.launch_for(
        Walked(lines, source, dtypes, fold.bound.count),
        ("scan", fold.key_of_any_count, config),
        build,
        [*bindings_of(x), *partial, *(target.buffer for target in targets)], workgroups,
    )  # fmt: skip
