"""Adjoints of maps: each element sums what was read there."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.elementwise import flattened, map_elements, zeros
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.cube.skeleton.window.sliding import Slide, slide_of
from pyrite.backend.cube.skeleton.window.taps import Sum, fold_taps
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op.rule.map_adjoint import Fiber
from pyrite.types import TensorType


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
    target, slide = launcher.empty(type), slide_of(fiber.of)
    if slide is None or fiber.unless:
        fold = Sum(g.dtype.compute)
        cells = flattened(launcher, g, fiber.of.shape)
        fold_taps(launcher, fold, fiber.index, fiber.taps, cells, [target], unless=fiber.unless)
    else:
        _of_windows(launcher, slide, flattened(launcher, g, fiber.of.shape), target)
    return target


def _of_windows(launcher: Launcher, slide: Slide, cells: CubeTensor, target: CubeTensor) -> None:
    """Write the sums over windows, whose taps the cells hold."""
    order = (*range(slide.lead), *slide.taps, *slide.windows)

    def held(folding: Folding, found: Cells) -> Value:
        return folding.load(folding.along.sources[0], found, has_taps=True)

    fold(launcher, "overlap", None, slide.axes, [cells.permuted(order)], target, held)
