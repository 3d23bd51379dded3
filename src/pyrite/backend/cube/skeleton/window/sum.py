"""Adjoints of maps: each element sums what was read there."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.along import Along, Lanes, along_rows
from pyrite.backend.cube.skeleton.copy import flattened, zeros
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.fold import kernel_fold
from pyrite.backend.cube.skeleton.window.axis import Bounds, Sliding, divisor, is_whole
from pyrite.backend.cube.skeleton.window.fold import bounds_of
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.cube.skeleton.window.sliding import Slide, slide_of
from pyrite.backend.cube.skeleton.window.taps import Sum, fold_taps
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import vector
from pyrite.op import Constant, Fold
from pyrite.op.index import IndexMap, Windows, coordinates
from pyrite.op.rule.map_adjoint import Fiber
from pyrite.types import TensorType, element_count


def add_up(
    launcher: Launcher, found: Sequence[Fiber], g: CubeTensor, type: TensorType
) -> CubeTensor:
    """Return the sum of what fibers read of g, as a dense tensor of a type."""
    if g.type.size == 0 or not found:
        return zeros(launcher, type)
    if len(found) == 1:
        return _of_fiber(launcher, found[0], g, type)
    wide = TensorType(type.shape, type.dtype.compute)
    parts = [_of_fiber(launcher, fiber, g, wide) for fiber in found]
    target = launcher.empty(type)
    map_elements(launcher, "add up", len(parts), _sum, parts, target)
    return target


def _sum(_: Any, *parts: Any) -> Any:
    return functools.reduce(operator.add, parts)


def _of_fiber(launcher: Launcher, fiber: Fiber, g: CubeTensor, type: TensorType) -> CubeTensor:
    if fiber.shares is not None:
        return _of_shares(launcher, fiber, fiber.shares, g, type)
    target, slide = launcher.empty(type), slide_of(fiber.of)
    cells = flattened(launcher, g, fiber.of.shape)
    if slide is None or fiber.unless:
        _by_taps(launcher, fiber, cells, target)
    else:
        _of_windows(launcher, slide, cells, target)
    return target


def _by_taps(launcher: Launcher, fiber: Fiber, cells: CubeTensor, target: CubeTensor) -> None:
    """Write the sums over the candidates of a fiber that are right."""
    fold, windows = Sum(cells.dtype.compute), Windows(fiber.index, fiber.taps)
    fold_taps(launcher, fold, windows, cells, [target], unless=fiber.unless)


def _of_windows(launcher: Launcher, slide: Slide, cells: CubeTensor, target: CubeTensor) -> None:
    """Write the sums over windows, whose taps the cells hold."""
    order = (*range(slide.lead), *slide.taps, *slide.windows)

    def held(folding: Folding, found: Cells) -> Value:
        return folding.load(folding.along.sources[0], found, has_taps=True)

    fold(launcher, "overlap", None, slide.axes, [cells.permuted(order)], target, held)


# ---- of means ----


def _of_shares(
    launcher: Launcher, fiber: Fiber, windows: Windows, g: CubeTensor, type: TensorType
) -> CubeTensor:
    """Return the sums of what windows give to each of the elements that they are the mean of."""
    target = launcher.empty(type)
    slide, bounds = slide_of(windows.index, windows.taps), bounds_of(windows)
    common = windows.common_count
    cells = flattened(launcher, g, windows.shape)
    if slide is None or bounds is None:
        _by_taps(launcher, fiber, _divided(launcher, windows, cells), target)
    elif is_whole(slide.axes):
        assert common is not None, "there is one window"
        of_one_window(
            launcher, "share", [cells], target, slide.lead, lambda x, _, count: x / count, common
        )
    else:
        source = shares(launcher, slide, bounds, cells) if common is None else cells
        end = _undivided if common is None else lambda total: total / float(common)
        fold(launcher, "shares", common, slide.axes, [source], target, _windows_held, end=end)
    return target


def _undivided(total: Value) -> Value:
    return total


def _windows_held(folding: Folding, cells: Cells) -> Value:
    return folding.load(folding.along.sources[0], cells, has_taps=False)


_COUNT = Fold(
    start=lambda dtype: ((0, dtype),),
    take=lambda _, x: (1,),
    join=lambda _, s, t: (s[0] + t[0],),
)


def _divided(launcher: Launcher, windows: Windows, g: CubeTensor) -> CubeTensor:
    """Return g over how many elements count in each window, not rounded yet."""
    type = TensorType(g.shape, g.dtype.compute)
    if windows.common_count is not None:
        counts: Any = Constant(float(windows.common_count), TensorType((), type.dtype))
    else:
        counts = launcher.empty(type)
        # What is read does not matter, as long as it is there.
        index = IndexMap(windows.index.shape, g.shape, coordinates(len(g.shape)), windows.counting)
        counted = Windows(index, windows.taps)
        fold_taps(
            launcher, kernel_fold("count", _COUNT, type.dtype, type.dtype), counted, g, [counts]
        )
    target = launcher.empty(type)
    map_elements(launcher, "divide", "", lambda _, x, y: x / y, [g, counts], target)
    return target


@dataclass(frozen=True, slots=True)
class _Shares:
    """Windows over axes after ``lead`` others, and which positions count."""

    axes: tuple[Sliding, ...]
    lead: int
    bounds: Bounds = extent()


def shares(launcher: Launcher, slide: Slide, bounds: Bounds, g: CubeTensor) -> CubeTensor:
    """Return g over how many elements count in each window, not rounded yet."""
    target = launcher.empty(TensorType(g.shape, g.dtype.compute))

    def body(along: Along, windows: _Shares) -> None:
        b, (source,), (result,) = along.b, along.sources, along.targets
        row = [b.index(o) for o in along.row[windows.lead :]]

        def share(lanes: Lanes) -> None:
            counts = divisor(
                b, windows.axes, [*row, lanes.positions], windows.bounds, g.dtype.compute
            )
            at = [*along.row, lanes.first]
            found = source.load_along(source.at(at), lanes.width, mask=lanes.mask)
            result.store_along(result.at(at), found / counts, mask=lanes.mask)

        along.write(share)

    windows = _Shares(slide.axes, slide.lead, bounds)
    along_rows(launcher, "shares", windows, [g], [target], body, knows_first=True)
    return target


@dataclass(frozen=True, slots=True)
class _OneWindow:
    """The number of elements of a window that is the whole image."""

    count: int = extent()


def of_one_window(
    launcher: Launcher, name: str, sources: Sequence[CubeTensor], target: CubeTensor, lead: int,
    rule: Callable[..., Value], count: int,
) -> None:  # fmt: skip
    """Write to all elements of each image ``rule(*numbers of its window, position, count)``."""
    images, size = element_count(target.shape[:lead]), element_count(target.shape[lead:])

    def body(along: Along, window: _OneWindow) -> None:
        (result,) = along.targets
        given = [source[[*along.row, 0]] for source in along.sources]

        def write(lanes: Lanes) -> None:
            numbers = [along.b.value(x, vector(x.dtype, lanes.width)) for x in given]
            found = rule(*numbers, lanes.positions, window.count)
            place = result.at([*along.row, lanes.first])
            result.store_along(place, found, mask=lanes.mask)

        along.write(write)

    windows = [flattened(launcher, x, (images, 1)) for x in sources]
    rows = flattened(launcher, target, (images, size))
    along_rows(launcher, f"{name} of one window", _OneWindow(count), windows, [rows], body)
