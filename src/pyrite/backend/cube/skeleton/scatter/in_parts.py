"""Writes in parts, which the threads of a processor do at once, where order makes no difference.

On one line the writes of `in_order` come one after the other, on one thread.  Of integers a sum or
an extremum is the same in every order: each part of the writes goes to a copy of the target of its
own, and the copies are joined to the target at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import row_major
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig
from pyrite.backend.cube.skeleton.scatter.identity import identity_of
from pyrite.backend.cube.skeleton.scatter.in_order import write_in_order
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.op import Constant
from pyrite.types import Number, Shape, TensorType

_BY_LINE: Final = ScatterConfig("line")
#: Bytes of two cache lines, which processors fetch together.
_LINES: Final = 128


def write_in_parts(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Do the writes to a target of integers that holds the base already."""
    identity = identity_of(writes.collision, target.dtype)
    assert identity is not None, "the config is one for such a collision"
    copies = _copies(launcher, identity, target.type, config.parts)
    depth, axes = len(writes.reads), tuple(range(len(copies.shape)))
    lines = copies.permuted((*axes[1 : depth + 1], 0, *axes[depth + 1 :]))
    write_in_order(launcher, _parts_as_lines(writes, config.parts), lines, _BY_LINE)
    if writes.count % config.parts:
        write_in_order(launcher, _rest(writes, config.parts), target, _BY_LINE)

    def join(each: Each) -> None:
        whole, result = each.operands
        value = result[each.at]
        for part in range(config.parts):
            value = writes.collision.join(each.k, value, whole[[part, *each.at]])
        result[each.at] = value

    for_each(
        launcher, "scatter_parts", content_of((config.parts, writes.collision.join)), target.shape,
        [copies], target, join, access="read_write",
    )  # fmt: skip


def _copies(launcher: Launcher, value: Number, type: TensorType, parts: int) -> CubeTensor:
    """Return tensors full of a number, (parts, *shape), of which no two share a cache line.

    One that two threads write to goes from one to the other at each write: 2^18 writes to one of
    1000 places took 230 µs instead of 155, though a hundredth went to that line.
    """
    apart = (-(-type.nbytes // _LINES) + 1) * _LINES // type.dtype.itemsize
    whole = TensorType((parts, apart), type.dtype)
    filled = dense(launcher, Constant(value, TensorType((), type.dtype)), whole)
    return filled.strided((parts, *type.shape), (apart, *row_major(type.shape)))


def _parts_as_lines(writes: Writes, parts: int) -> Writes:
    """Return the writes of whole parts, each of which has lines of its own."""
    count = writes.count // parts

    def cut(x: CubeTensor) -> CubeTensor:
        stride, *strides = x.strides
        return x.strided((count, parts, *x.shape[1:]), (stride, stride * count, *strides))

    return _mapped(writes, count, cut, (parts, *writes.lines))


def _rest(writes: Writes, parts: int) -> Writes:
    """Return the writes behind the whole parts."""
    count = writes.count % parts

    def last(x: CubeTensor) -> CubeTensor:
        offset = x.offset + (writes.count - count) * x.strides[0]
        return x.strided((count, *x.shape[1:]), x.strides, offset)

    return _mapped(writes, count, last, writes.lines)


def _mapped(
    writes: Writes, count: int, view: Callable[[CubeTensor], CubeTensor], lines: Shape
) -> Writes:
    updates = writes.updates
    return replace(
        writes, count=count, lines=lines, indices=[view(i) for i in writes.indices],
        updates=view(updates) if isinstance(updates, CubeTensor) else updates,
    )  # fmt: skip
