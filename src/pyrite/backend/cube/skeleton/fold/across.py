"""Folds along rows whose neighbours in memory are outputs: a transposed matrix, the last of axes.

The order is that of rows (`order.py`): an invocation has vectors of outputs, and for each of them
all lanes in private memory, which the elements of a row go to one after the other.  Of rows with
few lanes one lane is folded after the other, in registers.  Few elements go to the first lanes: the
others are empty, and no loop is for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.operand import (
    Layout,
    bindings_of,
)
from pyrite.backend.cube.skeleton.fold.across_kernel import (
    AcrossConfig,
    AcrossKernel,
    AcrossProblem,
    segments_of,
    units_of,
)
from pyrite.backend.cube.skeleton.fold.fold import KernelFold
from pyrite.backend.cube.skeleton.fold.launch import join_segments
from pyrite.backend.cube.skeleton.fold.order import STEPS, FoldOrder, levels_of
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.types import Shape, TensorType, element_count

#: Vectors of outputs that an invocation has at most: so many neighbours are read of a line.
_VECTORS: Final = 16
#: Bytes of all lanes, which fit in a first cache.
_MOST_LANES: Final = 1 << 15
#: Fewer invocations are made more, each with a segment.
_FEW: Final = 32


class AcrossSkeleton:
    """Kernels of folds along rows that go over memory across them; the fold is the body."""

    name = "fold across"

    def candidates(self, problem: AcrossProblem, machine: Machine) -> tuple[AcrossConfig, ...]:
        """Return the configs that are right."""
        chosen = self.select(problem, machine)
        found = [replace(chosen, width=w) for w in (1, 4, 8, 16) if w <= machine.vector]
        return tuple(found)

    def select(self, problem: AcrossProblem, machine: Machine) -> AcrossConfig:
        """Return one: vectors no wider than a row of outputs, segments apart for few of them."""
        last = problem.outputs[-1]
        width = next((w for w in (1, 2, 4, 8, 16) if w >= last), machine.vector)
        width = min(width, machine.vector)
        most = min(_MOST_LANES // (problem.lanes * width * problem.nbytes), _VECTORS)
        if problem.lanes == problem.few:
            # A quarter of the registers has the states of a lane, and others wait for them.
            most = machine.registers // problem.nbytes
        vectors = next((v for v in (16, 8, 4, 2) if v <= most and last >= v * width), 1)
        cuts = problem.size > STEPS * problem.lanes
        overlaps = width > 1 and last >= vectors * width
        config = AcrossConfig(width, vectors, 1, cuts, overlaps)
        segments = segments_of(problem, config)
        is_apart = segments > 1 and units_of(problem, config) < _FEW
        return replace(config, levels=0 if is_apart else levels_of(segments))

    def workgroups(self, problem: AcrossProblem, config: AcrossConfig) -> int:
        """Return how many workgroups run the kernel."""
        return units_of(problem, config) * (1 if config.levels else segments_of(problem, config))

    def build(
        self, problem: AcrossProblem, config: AcrossConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: the source, and targets."""
        body = AcrossKernel(fused, problem, config, grid)
        body.write()
        return body.b.build()


ACROSS: Final = AcrossSkeleton()


def lies_across(x: CubeTensor, axes: tuple[int, ...]) -> bool:
    """Whether neighbours in memory are outputs of a fold, rather than elements of a row."""
    kept = [x.strides[n] for n, size in enumerate(x.shape) if size > 1 and n not in axes]
    reduced = [x.strides[n] for n, size in enumerate(x.shape) if size > 1 and n in axes]
    return 1 in kept[-1:] and bool(reduced) and reduced[-1] not in (0, 1)


def fold_across(
    launcher: Launcher, fold: KernelFold, x: CubeTensor, axes: tuple[int, ...],
    order: FoldOrder, types: Sequence[TensorType],
) -> list[CubeTensor] | None:  # fmt: skip
    """Return all results of a fold along rows that lie across memory; None where pieces are cut."""
    rest = tuple(n for n in range(len(x.shape)) if n not in axes)
    inner = _inner_of(x.shape, axes, order)

    def side(of: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
        shape, strides = tuple(x.shape[n] for n in of), tuple(x.strides[n] for n in of)
        return merged(shape, [strides])[0]

    (outputs, by_output), (pieces, by_piece) = side(rest), side(axes[:inner])
    size, by_element = side(axes[inner:])
    if len(size) != 1:
        return None
    strides = (*by_output, *by_piece, *by_element)
    problem = AcrossProblem(
        Layout(x.dtype, strides, x.offset != 0), tuple(t.dtype for t in types),
        order.lanes_of_piece, order.vector,
        sum(dtype.itemsize for _, dtype in fold.start),
        outputs, pieces, size[0], order.together, fold.bound.count,
    )  # fmt: skip
    config = ACROSS.select(problem, launcher.machine)
    count = element_count(outputs)
    if config.levels:
        targets = [launcher.empty(type) for type in types]
    else:
        shape = (segments_of(problem, config), count)
        targets = [launcher.empty(TensorType(shape, dtype)) for _, dtype in fold.start]
        problem = replace(problem, targets=tuple(t.dtype for t in targets))
    fused = Fused(body=Body(fold.name, fold.key_of_any_count, fold))
    bindings = [b for t in (x, *targets) for b in bindings_of(t)]
    launch(launcher, ACROSS, problem, bindings, config=config, fused=fused)
    return targets if config.levels else join_segments(launcher, fold, targets, types)


def _inner_of(shape: Shape, axes: tuple[int, ...], order: FoldOrder) -> int:
    """Return from which of the axes on a piece lies along them."""
    inner, size = len(axes), 1
    while inner and size < order.size:
        inner -= 1
        size *= shape[axes[inner]]
    return inner
