"""Writes that one invocation after the other does, in their order: on a line, or to an element."""

from __future__ import annotations

from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.types import bool_

#: Writes of one round of a loop, whose own instructions would be a quarter of all.
_TOGETHER: Final = 4


def write_in_order(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Do the writes to a target that holds the base already."""
    depth = len(writes.reads)
    join = writes.collision.join

    def line_by_line(each: Each) -> None:
        b, result, line, (count, *sizes) = each.b, each.operands[-1], each.at, each.extents

        def one(number: Value) -> None:
            inside, index = writes.find(each, number, line, tuple(sizes))
            # By a branch, which is foreseen: masks of single elements cost four times the addition.
            with b.if_(inside) as branch:
                at = result.at([*index, *line])
                new = writes.update(each, writes.position, number, line)
                result.store(at, join(each.k, result.load(at), new))
            if writes.fault is not None:
                with branch.else_():
                    each.fail(b.const(True, bool_))

        whole = count // _TOGETHER * _TOGETHER
        for first, stop, step in ((0, whole, _TOGETHER), (whole, count, 1)):
            with b.for_(first, stop, step=step) as loop:
                for further in range(step):
                    one(loop.index + further)
                loop.yield_()

    def element_by_element(each: Each) -> None:
        b, result, line, (count, *sizes) = (
            each.b, each.operands[-1], each.at[depth:], each.extents,
        )  # fmt: skip
        with b.for_(0, count, carried=[result[each.at]]) as loop:
            mine, index = writes.place(each, loop.index, line, tuple(sizes))
            for own, other in zip(each.at, index, strict=False):
                mine = mine & (other == own)
            (old,) = loop.carried
            new = join(each.k, old, writes.update(each, writes.position, loop.index, line))
            loop.yield_(b.select(mine, new, old))
        result[each.at] = loop.results[0]

    is_by_line = config.by == "line"
    for_each(
        launcher, "scatter", content_of((config, writes.variant)),
        writes.lines if is_by_line else target.shape, writes.sources, target,
        line_by_line if is_by_line else element_by_element,
        extents=(writes.count, *target.shape[:depth]), fault=writes.fault, access="read_write",
        knows_first=True,
    )  # fmt: skip
