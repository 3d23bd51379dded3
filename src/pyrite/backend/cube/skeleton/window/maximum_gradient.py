"""Gradients of maxima: every element sums over the windows whose maximum it is.

There are two forms, and the config says which: by "element", where each element looks at the
windows over it for those whose maximum it is, or by "window", where the windows of an image are
gone through in order and written to their maxima.  The first needs to know the windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.skeleton.copy import dense, flattened, zeros
from pyrite.backend.cube.skeleton.scatter import Writes, write
from pyrite.backend.cube.skeleton.window.axis import (
    Sliding,
    flat,
    is_whole,
)
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.cube.skeleton.window.sum import of_one_window
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op.rule import ADD, IndexRange, outside
from pyrite.types import TensorType, element_count, int32


@dataclass(frozen=True, slots=True)
class MaximumGradientConfig:
    """The direction of the search; see the head of this file."""

    by: Literal["element", "window"]


def candidates(axes: tuple[Sliding, ...] | None, machine: Machine) -> list[MaximumGradientConfig]:
    """Return the configs for windows along axes, if they are known."""
    by_element = [MaximumGradientConfig("element")] if axes else []
    return [*by_element, MaximumGradientConfig("window")]


def select(axes: tuple[Sliding, ...] | None, machine: Machine) -> MaximumGradientConfig:
    """Return a config: by element, but on a CPU by window where elements would be gathered."""
    found = candidates(axes, machine)
    if axes is None or machine.kind == "gpu":
        return found[0]
    is_vector = axes[-1].stride == 1 or axes[-1].is_near or is_whole(axes)
    return found[0 if is_vector else -1]


def by_element(
    launcher: Launcher, g: CubeTensor, indices: CubeTensor, type: TensorType,
    axes: tuple[Sliding, ...],
) -> CubeTensor:  # fmt: skip
    """Return the gradient, of type (N, C, *sizes), as if indices outside their window were none."""
    target = launcher.empty(type)
    if is_whole(axes):
        of_one_window(
            launcher, "max_pool_backward", [g, indices], target, 2,
            lambda g, index, position, _: chosen(g, index, position), 0,
        )  # fmt: skip
        return target

    def held(folding: Folding, cells: Cells) -> Value:
        gradient, index = (folding.load(x, cells, has_taps=False) for x in folding.along.sources)
        sizes = [axis.size for axis in folding.axes]
        return chosen(gradient, index, flat(folding.positions, sizes))

    fold(launcher, "max_pool_backward", None, axes, [g, indices], target, held)
    return target


def chosen(g: Value, index: Value, position: Value) -> Value:
    """Return g where the index is that position, else 0."""
    b = g.builder
    return b.select(index == b.cast(position, index.dtype), g, 0)


def by_window(
    launcher: Launcher, g: CubeTensor, indices: CubeTensor, type: TensorType
) -> CubeTensor:
    """Return the gradient, of type (N, C, *sizes): g added at flat indices, in their order."""
    images, size = element_count(type.shape[:2]), element_count(type.shape[2:])
    total = zeros(
        launcher, TensorType(type.shape, int32 if type.dtype.is_bool else type.dtype.compute)
    )
    count = element_count(g.shape[2:])
    given, updates = (
        flattened(launcher, x, (images, count)).permuted((1, 0)) for x in (indices, g)
    )
    fault = outside("max_pool_backward", [IndexRange(2, size)])
    writes = Writes(count, (images,), [given], [(0, ())], updates, ADD, fault)
    write(launcher, writes, flattened(launcher, total, (images, size)).permuted((1, 0)))
    return total if total.dtype is type.dtype else dense(launcher, total, type)
