"""Writes by atomics, all at once: where whoever comes first makes no difference.

Integers wrap around, so sums and extrema of them are the same in every order, and so is which write
has the greatest number: the last one, which stays where writes are assigned.  Sums of floats are
not, and are never made like this.
"""

from __future__ import annotations

from functools import lru_cache

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import KernelBuilder
from pyrite.kernel.ir import ATOMICS
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Constant
from pyrite.op.rule import Collision
from pyrite.types import DType, Shape, TensorType, int32, uint32


def atomic_dtype(dtype: DType) -> DType | None:
    """Return the dtype with atomics in which elements of a dtype can meet; None where none."""
    if dtype.is_float or dtype.bits > 32:
        return None
    return uint32 if dtype.kind == "uint" else int32


@lru_cache(maxsize=256)
def atomic_of(collision: Collision, dtype: DType) -> str | None:
    """Return the atomic instruction that a collision of integers is, None where it is none.

    >>> from pyrite.op.rule.scatter import ADD, MULTIPLY
    >>> atomic_of(ADD, int32), atomic_of(MULTIPLY, int32)
    ('add', None)
    """
    b = KernelBuilder("join", workgroup_size=1)
    old, new = b.scalar("old", dtype), b.scalar("new", dtype)
    joined = collision.join(RecordingAlgebra(b), old, new).node
    is_one = joined.kind == "alu" and set(joined.inputs) == {old.node, new.node}
    return joined.attr if is_one and joined.attr in ATOMICS else None


def write_atomically(launcher: Launcher, writes: Writes, target: CubeTensor) -> None:
    """Do the writes to a target of 32-bit integers that holds the base already."""
    name = atomic_of(writes.collision, target.dtype)
    assert name is not None, "the config is one for such a collision"

    def body(each: Each) -> None:
        result, (number, *line) = each.operands[-1], each.at
        inside, index = writes.place(each, each.b.index(number), line, each.extents)
        value = writes.update(each, writes.position, each.b.index(number), line)
        result.memory.atomic(name, result.at([*index, *line]), value, mask=inside)

    for_each(
        launcher, "scatter_atomic", content_of((name, writes.variant)),
        (writes.count, *writes.lines), writes.sources, target, body, extents=_sizes(writes, target),
        fault=writes.fault, access="atomic",
    )  # fmt: skip


def nobody(launcher: Launcher, type: TensorType) -> CubeTensor:
    """Return the numbers of the last writes where there are none: -1."""
    return dense(launcher, Constant(-1, TensorType((), type.dtype)), type)


def greatest_writes(launcher: Launcher, writes: Writes, target: CubeTensor) -> None:
    """Raise the elements of a target of int32 to the numbers of the last writes to them."""

    def body(each: Each) -> None:
        latest, (number, *line) = each.operands[-1], each.at
        inside, index = writes.place(each, each.b.index(number), line, each.extents)
        value = each.b.cast(each.b.index(number), int32)
        latest.memory.atomic("max", latest.at([*index, *line]), value, mask=inside)

    for_each(
        launcher, "scatter_greatest", content_of(writes.variant),
        (writes.count, *writes.lines), [*writes.indices, *writes.tables], target, body,
        extents=_sizes(writes, target),
        fault=writes.fault, access="atomic",
    )  # fmt: skip


def assign_last(launcher: Launcher, writes: Writes, target: CubeTensor) -> None:
    """Assign the last of the writes to each place."""
    latest = nobody(launcher, TensorType(target.shape, int32))
    greatest_writes(launcher, writes, latest)

    def body(each: Each) -> None:
        b, result, (number, *line) = each.b, each.operands[-1], each.at
        last = each.operands[writes.position]
        inside, index = writes.find(each, b.index(number), line, each.extents)
        there = last.load(last.at([*index, *line]), mask=inside)
        with b.if_(inside & (there == b.cast(b.index(number), int32))):
            result[[*index, *line]] = writes.update(
                each, writes.position + 1, b.index(number), line
            )

    sources = [*writes.indices, *writes.tables, latest, *writes.values]
    for_each(
        launcher, "scatter_assigned", content_of(writes.variant),
        (writes.count, *writes.lines), sources, target, body, extents=_sizes(writes, target),
        access="read_write",
    )  # fmt: skip


def _sizes(writes: Writes, target: CubeTensor) -> Shape:
    """Return the sizes of the axes that are written by index."""
    return target.shape[: len(writes.reads)]
