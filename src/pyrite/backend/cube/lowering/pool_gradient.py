"""Gradients of pools: every element of the image sums over the windows that hold it.

The gradient of a maximum has two forms, and the config says which: by "element", where each element
looks at the windows over it for those whose maximum it is, or by "window", where the windows of an
image are gone through in order and written to their maxima.  The first needs to know the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.along import Along, Lanes, along_rows
from pyrite.backend.cube.skeleton.elementwise import dense, flattened, zeros
from pyrite.backend.cube.skeleton.scatter import Writes, write
from pyrite.backend.cube.skeleton.window.axis import (
    Bounds,
    Sliding,
    common_divisor,
    counted,
    divisor,
    flat,
    is_whole,
    sliding,
)
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import vector
from pyrite.op import Attributes, Op
from pyrite.op.rule import ADD, IndexRange, outside
from pyrite.types import TensorType, element_count, int32

# ---- of one window ----


def of_one_window(
    launcher: Launcher, name: str, sources: Sequence[CubeTensor], target: CubeTensor,
    rule: Callable[..., Value],
) -> None:  # fmt: skip
    """Write to all elements of each image the rule of its window's numbers and their position."""
    images, size = element_count(target.shape[:2]), element_count(target.shape[2:])

    def body(along: Along) -> None:
        (result,) = along.targets
        given = [source[[*along.row, 0]] for source in along.sources]

        def write(lanes: Lanes) -> None:
            numbers = [along.b.value(x, vector(x.dtype, lanes.width)) for x in given]
            found = rule(*numbers, lanes.positions)
            place = result.at([*along.row, lanes.first])
            result.store_along(place, found, mask=lanes.mask)

        along.write(write)

    windows = [flattened(launcher, x, (images, 1)) for x in sources]
    rows = flattened(launcher, target, (images, size))
    along_rows(launcher, f"{name} of one window", size, windows, [rows], body)


# ---- of means ----


@lowers("avg_pool_backward")
def avg_pool_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The sum of the shares of the windows over each element."""
    (g,) = inputs
    target = launcher.empty(out[0])
    sizes, padding = attrs["sizes"], attrs["padding"]
    axes = sliding(sizes, g.shape[2:], attrs["kernel_size"], attrs["stride"], padding)
    if is_whole(axes):
        count = float(element_count(sizes))
        of_one_window(launcher, op.name, [g], target, lambda share, _: share / count)
        return [target]
    bounds = counted(sizes, padding, count_include_pad=attrs["count_include_pad"])
    common = common_divisor(axes, bounds)
    source = shares(launcher, axes, bounds, g) if common is None else g

    def held(folding: Folding, cells: Cells) -> Value:
        return folding.load(folding.along.sources[0], cells, has_taps=False)

    def end(total: Value) -> Value:
        return total if common is None else total / float(common)

    fold(launcher, op.name, common, axes, [source], target, held, end=end)
    return [target]


def shares(
    launcher: Launcher, axes: tuple[Sliding, ...], bounds: Bounds, g: CubeTensor
) -> CubeTensor:
    """Return g over how many elements count in each window, not rounded yet."""
    target = launcher.empty(TensorType(g.shape, g.dtype.compute))

    def body(along: Along) -> None:
        b, (source,), (result,) = along.b, along.sources, along.targets
        row = [b.index(o) for o in along.row[2:]]

        def share(lanes: Lanes) -> None:
            counts = divisor(b, axes, [*row, lanes.positions], bounds, g.dtype.compute)
            at = [*along.row, lanes.first]
            found = source.load_along(source.at(at), lanes.width, mask=lanes.mask)
            place = result.at(at)
            result.store_along(place, found / counts, mask=lanes.mask)

        along.write(share)

    along_rows(launcher, "shares", (axes, bounds), [g], [target], body)
    return target


# ---- of maxima ----


@dataclass(frozen=True, slots=True)
class MaximumGradientConfig:
    """Who looks for whom; see the head of this file."""

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


@lowers("max_pool_backward")
def max_pool_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The sum of g of the windows whose maximum each element is."""
    g, indices = inputs
    windows = attrs["windows"]
    axes = None if windows is None else sliding(attrs["sizes"], g.shape[2:], *windows)
    if axes is None or select(axes, launcher.machine).by == "window":
        return [by_window(launcher, g, indices, out[0])]
    return [by_element(launcher, g, indices, out[0], axes)]


def by_element(
    launcher: Launcher, g: CubeTensor, indices: CubeTensor, type: TensorType,
    axes: tuple[Sliding, ...],
) -> CubeTensor:  # fmt: skip
    """Return the gradient, of type (N, C, *sizes), as if indices outside their window were none."""
    target = launcher.empty(type)
    if is_whole(axes):
        of_one_window(launcher, "max_pool_backward", [g, indices], target, chosen)
        return target

    def held(folding: Folding, cells: Cells) -> Value:
        gradient, index = (folding.load(x, cells, has_taps=False) for x in folding.along.sources)
        return chosen(gradient, index, flat(folding.positions, type.shape[2:]))

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
