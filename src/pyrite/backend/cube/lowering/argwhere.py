"""Positions of what is not zero: each is written to the row that a running count names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import truth
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.copy import contiguous, dense
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.fold import sum_of
from pyrite.backend.cube.skeleton.scan import scan_axis
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Constant, Op
from pyrite.types import TensorType, int32


@lowers("argwhere", why="what waits for values has no class")
def all_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return as many positions as there are: the host waits for their number."""
    (x,) = inputs
    before = _counts_before(launcher, x)
    count = contiguous(launcher, before.sliced((x.type.size,), (1,), (1,)), always=True)
    look = launcher.faults.look([x.doubt])
    found = launcher.runtime.read_all([(count.buffer, int32, (1,)), *look.wanted])
    size = int(look.take(found)[0][0])
    target = launcher.empty(TensorType((size, len(x.shape)), int32))
    _write_positions(launcher, x, before, target)
    return [target]


@lowers("argwhere_within", why="what counts other elements has no class")
def first_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the positions of what is not zero, in row-major order, and the filling behind them."""
    (x,) = inputs
    fill = Constant(attrs["fill_value"], TensorType((), int32))
    target = dense(launcher, fill, out[0])
    _write_positions(launcher, x, _counts_before(launcher, x), target)
    return [target]


def _counts_before(launcher: Launcher, x: CubeTensor) -> CubeTensor:
    """Return how many elements before each, in row-major order, are not zero, and in all."""
    ones = launcher.empty(TensorType((x.type.size,), int32))
    shaped = ones.reshaped(x.shape)
    assert shaped is not None, "a dense tensor takes any shape"
    map_elements(
        launcher, "is_nonzero", "", lambda k, v: k.cast(truth(k.builder, v), int32), [x], shaped
    )
    total = TensorType((x.type.size + 1,), int32)
    return scan_axis(launcher, sum_of(int32), ones, 0, total, has_initial=True)


def _write_positions(
    launcher: Launcher, x: CubeTensor, before: CubeTensor, target: CubeTensor
) -> None:
    """Write the coordinates of each element that is not zero to its row, if there is one."""
    ndim = target.shape[1]

    def body(each: Each) -> None:
        b, (size,) = each.b, each.extents
        source, counts, result = each.operands
        row = b.index(counts[[each.index]])
        with b.if_(truth(b, source[each.at]) & (row < size)):
            for axis in range(ndim):
                result[row, axis] = b.cast(b.index(each.at[axis]), int32)

    if target.type.size:
        sources, extents = [x, before], target.shape[:1]
        for_each(launcher, "argwhere", "", x.shape, sources, target, body, extents=extents)
