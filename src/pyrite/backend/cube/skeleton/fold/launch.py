"""Launches of reductions: one, or one for the parts and one that joins them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from pyrite.backend.cube.launcher import Foresee, Launcher
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.operand import Layout, alignment_of, bindings_of, word_of
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.finish import ALONE, Around, bindings_around
from pyrite.backend.cube.skeleton.fold.blocks import BLOCKS, BlocksConfig, blocks_config
from pyrite.backend.cube.skeleton.fold.config import (
    Problem,
    ReductionConfig,
    ordered_columns,
)
from pyrite.backend.cube.skeleton.fold.fold import KernelFold
from pyrite.backend.cube.skeleton.fold.kernel import FOLD
from pyrite.backend.cube.skeleton.fold.order import BLOCK, FIRST
from pyrite.backend.cube.skeleton.fold.reduction import Reduction
from pyrite.backend.cube.skeleton.protocol import Body, Fused, foresee, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import cached
from pyrite.kernel import Value
from pyrite.kernel.extent import all_extents
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import Shape, TensorType


def problem_of(x: CubeTensor, axes: tuple[int, ...]) -> Problem:
    """Return the two sides of a tensor, of which the given axes are reduced."""
    return _problem(x.shape, x.strides, axes)


@cached(4096)
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
    if types[0].size:
        write_fold(launcher, fold, x, axes, targets, config)
    return targets


def write_fold(
    launcher: Launcher, fold: KernelFold, x: CubeTensor, axes: tuple[int, ...],
    targets: Sequence[CubeTensor], config: ReductionConfig | None = None, around: Around = ALONE,
) -> None:  # fmt: skip
    """Write the results of a fold over axes to dense tensors, of some elements.

    Or, ``around`` the fold, what is made of its only result: of that one's number all is known.
    """
    whole = Reduction(problem_of(x, axes), len(fold.start), count=fold.bound.count)
    if whole.problem.size == 0:
        assert around is ALONE, "what follows a fold follows what it reads"
        _write_nothing(launcher, fold, targets)
        return
    along = None
    if config is None:
        config = FOLD.select(whole, launcher.machine)
        if config.along == "columns":
            along = blocks_config(whole, launcher.machine, FIRST)
    if config.parts == 1 and along is None:
        _launch(launcher, fold, whole, [x], targets, config, around)
        return
    count = whole.problem.count
    parts = config.parts if along is None else -(-whole.problem.size // FIRST)
    is_column = config.along == "columns"
    shape = (parts, count) if is_column else (count, parts)
    states = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
    if along is None:
        _launch(launcher, fold, replace(whole, ends=False), [x], states, config)
    else:
        _launch_along(launcher, fold, whole, [x], states, along)
    of_parts = problem_of(states[0], (0,) if is_column else (1,))
    rest = Reduction(of_parts, 1, takes=False, count=fold.bound.count)
    second = replace(FOLD.select(rest, launcher.machine), parts=1)
    _launch(launcher, fold, rest, states, targets, second, around)


def fold_columns(
    launcher: Launcher, fold: KernelFold, x: CubeTensor, axes: tuple[int, ...],
    types: Sequence[TensorType], *, of_blocks: bool = False,
) -> list[CubeTensor]:  # fmt: skip
    """Return all results of a fold along columns, in the order of a processor.

    With ``of_blocks`` an element of x is what a block of elements came to.
    """
    targets = [launcher.empty(type) for type in types]
    whole = Reduction(problem_of(x, axes), len(fold.start), count=fold.bound.count)
    _fold_columns(launcher, fold, whole, [x], targets, BLOCK if of_blocks else FIRST)
    return targets


def join_segments(
    launcher: Launcher, fold: KernelFold, states: Sequence[CubeTensor], types: Sequence[TensorType]
) -> list[CubeTensor]:
    """Return the results of a fold of whose segments states lie in rows: (segments, outputs)."""
    targets = [launcher.empty(type) for type in types]
    problem = problem_of(states[0], (0,))
    whole = Reduction(problem, len(fold.start), takes=False, count=fold.bound.count)
    _fold_columns(launcher, fold, whole, states, targets, FIRST)
    return targets


def _fold_columns(
    launcher: Launcher, fold: KernelFold, whole: Reduction, sources: Sequence[CubeTensor],
    targets: Sequence[CubeTensor], first: int,
) -> None:  # fmt: skip
    """Write a fold along columns, of which ``first`` elements make a block."""
    config = ordered_columns(whole.problem, launcher.machine, whole.values, first)
    along = blocks_config(whole, launcher.machine, first)
    if config.parts == 1 and along is None:
        _launch(launcher, fold, whole, sources, targets, config)
        return
    blocks = -(-whole.problem.size // first)
    shape = (blocks, whole.problem.count)
    states = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
    if along is None:
        _launch(launcher, fold, replace(whole, ends=False), sources, states, config)
    else:
        _launch_along(launcher, fold, whole, sources, states, along)
    rest = Reduction(problem_of(states[0], (0,)), whole.values, takes=False, count=whole.count)
    second = ordered_columns(rest.problem, launcher.machine, whole.values, BLOCK)
    second = replace(second, parts=1)
    _launch(launcher, fold, rest, states, targets, second)


def _write_nothing(launcher: Launcher, fold: KernelFold, targets: Sequence[CubeTensor]) -> None:
    """Write what a fold gives over no elements."""
    for i, target in enumerate(targets):

        def of_nothing(k: RecordingAlgebra, i: int = i) -> Value:
            return fold.end(k, fold.empty(k.builder, 1))[i]

        map_elements(launcher, fold.name, (fold.key, i), of_nothing, [], target)


def _launch(
    launcher: Launcher, fold: KernelFold, of: Reduction, sources: Sequence[CubeTensor],
    targets: Sequence[CubeTensor], config: ReductionConfig, around: Around = ALONE,
) -> None:  # fmt: skip
    word = word_of(config.width, launcher.machine)
    read = tuple(_layout(x, of.problem, config, word) for x in sources)
    reduction = replace(of, sources=read, targets=tuple(t.dtype for t in targets))
    written = around.outputs or targets
    bindings = [b for t in sources for b in bindings_of(t)]
    bindings += bindings_around(around.sources, written)
    fused = replace(around.fused, body=Body(fold.name, fold.key_of_any_count, fold))
    launch(launcher, FOLD, reduction, bindings, config=config, fused=fused)
    _foresee_other_end(launcher, reduction, config, fused)


def _launch_along(
    launcher: Launcher, fold: KernelFold, of: Reduction, sources: Sequence[CubeTensor],
    states: Sequence[CubeTensor], config: BlocksConfig,
) -> None:  # fmt: skip
    """Write the states of blocks of lines, going along these."""
    read = tuple([Layout(x.dtype, of.problem.strides, x.offset != 0, 1) for x in sources])
    dtypes = tuple([t.dtype for t in states])
    reduction = replace(of, sources=read, targets=dtypes, ends=False)
    bindings = [b for t in (*sources, *states) for b in bindings_of(t)]
    fused = Fused(body=Body(fold.name, fold.key_of_any_count, fold))
    launch(launcher, BLOCKS, reduction, bindings, config=config, fused=fused)


def _foresee_other_end(
    launcher: Launcher, reduction: Reduction, config: ReductionConfig, fused: Fused
) -> None:
    """Have a processor's kernel of columns compiled ahead for as many as end in another way."""
    together, problem = config.width * config.vectors, reduction.problem
    if launcher.machine.kind != "cpu" or config.along == "rows" or together == 1:
        return
    if config.overlaps:
        return

    def other() -> tuple[Hashable, Foresee]:
        *outer, last = problem.outputs
        whole = -(-last // together) * together
        outputs = (*outer, last + 1 if last == whole else whole)
        like = replace(reduction, problem=replace(problem, outputs=outputs))
        key = all_extents((like, config, fused))[0]
        return (key, last == whole), lambda to: foresee(to, FOLD, like, config, fused)

    launcher.compile_other_class(other)


def _layout(x: CubeTensor, problem: Problem, config: ReductionConfig, word: int) -> Layout:
    """Return the layout of a source by the coordinates of both sides."""
    axis = problem.axis_along(config)
    alignment = alignment_of(problem.strides, x.offset, word, axis)
    return Layout(x.dtype, problem.strides, x.offset != 0, alignment)
