"""Launches of reductions: one, or one for the parts and one that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.operand import Layout, alignment_of, bindings_of
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.fold.config import Problem, ReductionConfig, select, units
from pyrite.backend.cube.skeleton.fold.fold import KernelFold
from pyrite.backend.cube.skeleton.fold.kernel import Reduction, reduction_kernel
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import Shape, TensorType


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
    fold: KernelFold,
    x: CubeTensor,
    axes: tuple[int, ...],
    type: TensorType,
    config: ReductionConfig | None = None,
) -> CubeTensor:
    """Return the fold over axes as a dense tensor of the type, which has one element for each."""
    (found,) = reduce_results(launcher, fold, x, axes, [type], config)
    return found


def reduce_results(
    launcher: Launcher,
    fold: KernelFold,
    x: CubeTensor,
    axes: tuple[int, ...],
    types: Sequence[TensorType],
    config: ReductionConfig | None = None,
) -> list[CubeTensor]:
    """Return all results of a fold over axes, whose types differ in their dtypes alone."""
    targets = [launcher.empty(type) for type in types]
    if types[0].size == 0:
        return targets
    problem = problem_of(x, axes)
    if problem.size == 0:
        _write_nothing(launcher, fold, targets)
        return targets
    machine = launcher.machine
    config = config or select(problem, machine, len(fold.start))
    if config.parts == 1:
        _launch(launcher, fold, [x], problem, config, targets, takes=True, ends=True)
        return targets
    count, parts = problem.count, config.parts
    is_column = config.along == "columns"
    shape = (parts, count) if is_column else (count, parts)
    states = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
    _launch(launcher, fold, [x], problem, config, states, takes=True, ends=False)
    rest = problem_of(states[0], (0,) if is_column else (1,))
    second = replace(select(rest, machine), parts=1)
    _launch(launcher, fold, states, rest, second, targets, takes=False, ends=True)
    return targets


def _write_nothing(launcher: Launcher, fold: KernelFold, targets: Sequence[CubeTensor]) -> None:
    """Write what a fold gives over no elements."""
    for i, target in enumerate(targets):

        def of_nothing(k: RecordingAlgebra, i: int = i) -> Value:
            return fold.end(k, fold.empty(k.builder, 1))[i]

        map_elements(launcher, fold.name, (fold.key, i), of_nothing, [], target)


def _launch(
    launcher: Launcher, fold: KernelFold, sources: Sequence[CubeTensor], problem: Problem,
    config: ReductionConfig, targets: Sequence[CubeTensor], *, takes: bool, ends: bool,
) -> None:  # fmt: skip
    per_workgroup = config.workgroup_size // config.lanes
    groups = -(-units(problem, config) // per_workgroup)
    # Processors read from any place as fast; GPUs read words of several elements.
    word = config.width if launcher.machine.kind == "gpu" else 1
    read = tuple(_layout(x, problem, config, word) for x in sources)
    reduction = Reduction(problem, read, tuple(t.dtype for t in targets), fold.bound.count)
    launcher.launch_for(
        reduction,
        ("reduce", fold.key_of_any_count, takes, ends, config),
        lambda of, grid: reduction_kernel(fold, of, config, grid, takes=takes, ends=ends),
        [b for t in (*sources, *targets) for b in bindings_of(t)],
        groups * config.parts,
    )


def _layout(x: CubeTensor, problem: Problem, config: ReductionConfig, word: int) -> Layout:
    """Return the layout of a source by the coordinates of both sides."""
    axis = problem.axis_along(config)
    alignment = alignment_of(problem.strides, x.offset, word, axis)
    return Layout(x.dtype, problem.strides, x.offset != 0, alignment)
