"""Search among sorted values: it has no class, for what it reads next depends on what it read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import bool_, uint32


@lowers("searchsorted", why="a search has no class")
def searchsorted(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the place of each value among the sorted ones, by halving; NaN is above all."""
    x, values = inputs
    sources = [x, as_tensor(launcher, values)]
    (count,) = x.shape
    # Sizes of one bound on the rounds share a kernel; rounds beyond the last change nothing.
    rounds = next(r for r in _ROUNDS if count >> r == 0)
    is_left = attrs["side"] == "left"
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        b, (size,) = each.b, each.extents
        ordered, wanted, result = each.operands
        value = _ordered(each, wanted[each.at])
        with b.for_(0, rounds, carried=[b.index(0), b.index(size)]) as loop:
            low, high = loop.carried
            middle = (low + high) >> 1
            is_open = low < high
            other = _ordered(each, ordered.load(ordered.at([middle]), mask=is_open))
            goes_right = (
                _is_less(each, other, value) if is_left else ~_is_less(each, value, other)
            ) & is_open
            loop.yield_(
                b.select(goes_right, middle + 1, low), b.select(goes_right | ~is_open, high, middle)
            )
        result[each.at] = b.cast(loop.results[0], out[0].dtype)

    variant = (attrs["side"], rounds)
    for_each(launcher, op.name, variant, out[0].shape, sources, target, body, extents=(count,))
    return [target]


#: Numbers of halvings, of which the last is enough for any size.
_ROUNDS: Final = (4, 8, 12, 16, 20, 24, 28, 32)


def _ordered(each: Each, x: Value) -> Value:
    return each.b.cast(x, uint32) if x.dtype is bool_ else x


def _is_less(each: Each, x: Value, y: Value) -> Value:
    if not x.dtype.is_float:
        return x < y
    return (x < y) | (each.k.isnan(y) & ~each.k.isnan(x))
