"""Configs of gathers: the number of neighbours that are read at one index."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.each import EachConfig
from pyrite.backend.cube.skeleton.each import select as select_each
from pyrite.types import Shape, element_count


@dataclass(frozen=True, slots=True)
class GatherConfig:
    """``width`` neighbours are read at one index, by each point of an `EachConfig`."""

    each: EachConfig
    width: int


def candidates(shape: Shape, has_neighbours: bool, machine: Machine) -> list[GatherConfig]:
    """Return the configs for a result, whose neighbours may be neighbours in the source."""
    widths = [w for w in (16, 8, 4, 2, 1) if w == 1 or (has_neighbours and shape[-1] % w == 0)]
    # On a processor neighbours of a workgroup become the elements of vectors.
    sizes = (256, 1) if machine.kind == "cpu" else machine.workgroup_sizes
    return [GatherConfig(EachConfig(size), w) for w in widths for size in sizes]


def select(shape: Shape, has_neighbours: bool, machine: Machine) -> GatherConfig:
    """Return a config: vectors of neighbours where there are, else of elements on a processor."""
    found = candidates(shape, has_neighbours, machine)
    width = max(c.width for c in found if c.width <= machine.vector)
    points = element_count(shape) // width
    size = select_each(points, machine).workgroup_size
    if machine.kind == "cpu" and width == 1:
        size = 256
    return next(c for c in found if c.width == width and c.each.workgroup_size == size)
