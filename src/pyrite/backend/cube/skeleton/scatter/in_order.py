"""Writes that one invocation after the other does, in their order: on a line, or to an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import KernelBuilder, Value
from pyrite.types import Shape, bool_, element_count

#: Writes of one round of a loop, whose own instructions would be a quarter of all.
_TOGETHER: Final = 4
#: Neighbouring lines of an invocation, whose elements share a line of a cache; and how many of such
#: groups each thread has at least.
_ABREAST: Final = 16
_GROUPS: Final = 4


def write_in_order(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Do the writes to a target that holds the base already."""
    kernels = _InOrder(writes)
    sizes = target.shape[: kernels.depth]
    shape, extents, body = target.shape, (writes.count, *sizes), kernels.element_by_element
    if config.by == "line":
        shape, body = writes.lines, kernels.line_by_line
        if _are_abreast(launcher, writes, target):
            *outer, last = writes.lines
            shape, extents = (*outer, -(-last // _ABREAST)), (writes.count, last, *sizes)
            body = kernels.lines_abreast
    for_each(
        launcher, "scatter", content_of((config.by, body.__name__, writes.variant)), shape,
        writes.sources, target, body, extents=extents, fault=writes.fault, access="read_write",
        knows_first=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Bodies of kernels that do some writes in their order."""

    writes: Writes

    @property
    def depth(self) -> int:
        """How many axes of the target are written to by index."""
        return len(self.writes.reads)

    def line_by_line(self, each: Each) -> None:
        count, *sizes = each.extents
        for number in _numbers(each.b, 0, count):
            self.write(each, number, each.at, tuple(sizes))

    def lines_abreast(self, each: Each) -> None:
        b, (*outer, group), (count, last, *sizes) = each.b, each.at, each.extents
        first = b.index(group) * _ABREAST
        stop = b.min(first + _ABREAST, last)
        with b.for_(0, count) as loop:
            for line in _numbers(b, first, stop):
                self.write(each, loop.index, [*outer, line], tuple(sizes))

    def write(self, each: Each, number: Value, line: Sequence[Value | int], sizes: Shape) -> None:
        """Do a write on a line, to axes of those sizes."""
        b, result = each.b, each.operands[-1]
        inside, index = self.writes.find(each, number, line, sizes)
        # By a branch, which is foreseen: masks of single elements cost four times the addition.
        with b.if_(inside) as branch:
            at = result.at([*index, *line])
            new = self.writes.update(each, self.writes.position, number, line)
            result.store(at, self.writes.collision.join(each.k, result.load(at), new))
        if self.writes.fault is not None:
            with branch.else_():
                each.fail(b.const(True, bool_))

    def element_by_element(self, each: Each) -> None:
        b, result, line = each.b, each.operands[-1], each.at[self.depth :]
        count, *sizes = each.extents
        with b.for_(0, count, carried=[result[each.at]]) as loop:
            mine, index = self.writes.place(each, loop.index, line, tuple(sizes))
            for own, other in zip(each.at, index, strict=False):
                mine = mine & (other == own)
            (old,) = loop.carried
            new = self.writes.update(each, self.writes.position, loop.index, line)
            loop.yield_(b.select(mine, self.writes.collision.join(each.k, old, new), old))
        result[each.at] = loop.results[0]


def _are_abreast(launcher: Launcher, writes: Writes, target: CubeTensor) -> bool:
    """Whether neighbouring lines are written by one invocation: what each reads lies side by side.

    One line after the other reads an element of each line of a cache, and all of them again for the
    next: to 1000 x 256 floats 512 writes a line took 1.6 times as long on Zen 4.
    """
    if launcher.machine.kind != "cpu" or not writes.lines or target.strides[-1] != 1:
        return False
    return (
        element_count(writes.lines[:-1]) * writes.lines[-1]
        >= (_GROUPS * _ABREAST * launcher.machine.threads)
        and writes.lines[-1] >= _ABREAST
    )


def _numbers(b: KernelBuilder, first: Value | int, stop: Value | int) -> Iterator[Value]:
    """Yield numbers of which a kernel does what follows: some of them in each round of a loop."""
    whole = first + (stop - first) // _TOGETHER * _TOGETHER
    for begin, end, step in ((first, whole, _TOGETHER), (whole, stop, 1)):
        with b.for_(begin, end, step=step) as loop:
            for further in range(step):
                yield loop.index + further
            loop.yield_()
