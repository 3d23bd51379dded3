"""How a scan is shared out: the configs that are right for lines, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.scan.lines import Lines
from pyrite.kernel.choice import chosen


@dataclass(frozen=True, slots=True)
class ScanConfig:
    """How the work is shared; see the head of this file."""

    workgroup_size: int
    lanes: int
    width: int
    strips: int
    items: int
    parts: int

    @property
    def step(self) -> int:
        """How many elements of a line a unit takes at once."""
        return self.lanes * self.items

    @property
    def lines(self) -> int:
        """On how many lines a unit walks."""
        return self.width * self.strips


#: Parts of a line; the unit of the last one joins the states of all others.
_PARTS = (1, 4, 16, 64, 256)


def candidates(lines: Lines, states: int, machine: Machine) -> tuple[ScanConfig, ...]:
    """Return the configs that are right for lines, and a fold of so many values of state."""
    small = min(64, machine.workgroup_sizes[0])
    last = lines.shape[-1] if lines.shape else 1
    most = 8 if lines.are_neighbours else 1
    shared = [
        (size, size, 1, 1, items)
        for size in machine.workgroup_sizes
        for items in (8, 4)
        # The memory that every WebGPU device gives a workgroup is 16 KiB.
        if size >= 64 and states * size * (items + 1) * 8 <= 1 << 14
    ]
    alone = [
        (small, 1, width, strips, items)
        for width in (16, 8, 4, 2, 1)
        for strips in (8, 4, 2, 1)
        for items in ((1, 4) if strips == 1 and (width == 1 or not lines.are_neighbours) else (1,))
        if strips <= most and last % (width * strips) == 0
    ]
    return tuple(
        ScanConfig(*unit, parts)
        for unit in (*shared, *alone)
        for parts in _PARTS
        if parts == 1 or parts * unit[1] * unit[4] <= lines.size
    )


@chosen(4096)
def select(lines: Lines, states: int, join_cost: int, machine: Machine) -> ScanConfig:
    """Return a config: along neighbouring lines where there are many, else along each line."""
    found = candidates(lines, states, machine)
    if machine.kind == "cpu":
        fitting = _for_cpu(lines, join_cost, found, machine)
        least, busy = 1 << 14, 32
    else:
        fitting = _for_gpu(lines, found)
        least, busy = 4, 1024
    units = max(1, lines.count // fitting[0].lines)
    if fitting[0].lanes == 1 and machine.kind == "gpu":
        least, busy = 64, 16384
    # A cut line is read twice: it is not worth it where there are lines enough.
    wanted = 1 if units * 4 > busy else busy // units
    return max(
        (c for c in fitting if c.parts <= max(1, min(wanted, lines.size // (c.step * least)))),
        key=lambda c: c.parts,
    )


#: Instructions of a join that costs less than to turn elements: a sum, a product with its flags.
_CHEAP = 2


def _for_cpu(
    lines: Lines, join_cost: int, found: Sequence[ScanConfig], machine: Machine
) -> list[ScanConfig]:
    is_cheap = join_cost <= _CHEAP
    # To turn elements of several lines takes as long as a few joins, and the lines share the few
    # places of a cache that their distance allows.
    most = machine.vector
    if not lines.are_neighbours:
        most = 1 if is_cheap else max(1, most // 2)
    width = max(c.width for c in found if c.width <= most)
    # Several vectors of a row of lines are read while its page is at hand.
    strips = max(
        c.strips for c in found
        if c.width == width and (c.strips == 1 or c.lines * 4 <= lines.count)
    )  # fmt: skip
    is_turned = width > 1 and not lines.are_neighbours
    items = 4 if is_turned or (width == strips == 1 and is_cheap) else 1
    wanted = (width, strips, items)
    return [c for c in found if (c.width, c.strips, c.items) == wanted]


def _for_gpu(lines: Lines, found: Sequence[ScanConfig]) -> list[ScanConfig]:
    is_alone = lines.size < 64 or (lines.are_neighbours and lines.shape[-1] >= 64)
    best = next(
        c for c in found if (c.lanes == c.lines == c.items == 1 if is_alone else c.lanes > 1)
    )
    return [c for c in found if (c.lanes, c.lines, c.items) == (best.lanes, best.lines, best.items)]
