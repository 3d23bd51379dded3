"""Reading by index tensors: each element of the result finds its own.

Indices are tested where they are used; see `backend.cube.fault`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.each import Each, for_each
from pyrite.backend.cube.lowering.elementwise import as_tensor
from pyrite.backend.cube.lowering.registry import lowers
from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import Shape, bool_, uint32


def outside(op: str, sizes: Shape, axis: int = 0) -> str:
    """Return what is said of an index that is outside of axes of those sizes, from an axis on."""
    if len(sizes) == 1:
        n = sizes[0]
        return f"{op} requires {-n} <= index < {n} on axis {axis}, got an index outside"
    return f"{op} requires indices -n <= index < n for sizes n of {sizes}, got one outside"


def _store_found(each: Each, x: Operand, places: Sequence[tuple[Value, Any]], rest: Any) -> None:
    """Write the element of x at indices and further coordinates, or 0 where one is outside."""
    inside = each.b.const(True, bool_)
    for is_inside, _ in places:
        inside = inside & is_inside
    each.fail(~inside)
    found = x.load(x.at(rest([index for _, index in places])), mask=inside)
    each.operands[-1][each.at] = found


@lowers("take_along_axis")
def take_along_axis(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """An index for each element of the result, along one axis."""
    x, indices = inputs
    axis, shape = attrs["axis"], out[0].shape
    size = x.shape[axis]
    target = launcher.empty(out[0])
    views = [
        x.broadcast_to((*shape[:axis], size, *shape[axis + 1 :])),
        indices.broadcast_to(shape),
    ]

    def body(each: Each) -> None:
        source, index, _ = each.operands
        places = [each.as_index(index[each.at], size)]
        _store_found(each, source, places, lambda at: [*each.at[:axis], *at, *each.at[axis + 1 :]])

    fault = outside(op.name, (size,), axis)
    for_each(launcher, op.name, f"{axis} {size}", shape, views, target, body, fault=fault)
    return [target]


@lowers("take", "embedding")
def take(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """An index for each slice across one axis; of an embedding the first."""
    x, indices = inputs
    axis = attrs.get("axis", 0)
    size, end = x.shape[axis], axis + len(indices.shape)
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        source, index, _ = each.operands
        places = [each.as_index(index[each.at[axis:end]], size)]
        _store_found(each, source, places, lambda at: [*each.at[:axis], *at, *each.at[end:]])

    fault = outside(op.name, (size,), axis)
    variant = f"{axis} {size} {end}"
    for_each(launcher, op.name, variant, out[0].shape, inputs, target, body, fault=fault)
    return [target]


@lowers("gather_nd")
def gather_nd(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """A vector of indices for each slice behind the leading axes."""
    x, indices = inputs
    rank, count = len(indices.shape) - 1, indices.shape[-1]
    sizes = x.shape[:count]
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        source, index, _ = each.operands
        places = [
            each.as_index(index[[*each.at[:rank], axis]], size) for axis, size in enumerate(sizes)
        ]
        _store_found(each, source, places, lambda at: [*at, *each.at[rank:]])

    fault = outside(op.name, sizes)
    variant = f"{rank} {sizes}"
    for_each(launcher, op.name, variant, out[0].shape, inputs, target, body, fault=fault)
    return [target]


@lowers("searchsorted")
def searchsorted(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Where each value belongs among the sorted ones, by halving; NaN is above all."""
    x, values = inputs
    sources = [x, as_tensor(launcher, values)]
    (size,) = x.shape
    is_left = attrs["side"] == "left"
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        b = each.b
        ordered, wanted, result = each.operands
        value = _ordered(each, wanted[each.at])
        with b.for_(0, size.bit_length(), carried=[b.index(0), b.index(size)]) as loop:
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

    for_each(launcher, op.name, f"{size} {attrs['side']}", out[0].shape, sources, target, body)
    return [target]


def _ordered(each: Each, x: Value) -> Value:
    return each.b.cast(x, uint32) if x.dtype is bool_ else x


def _is_less(each: Each, x: Value, y: Value) -> Value:
    if not x.dtype.is_float:
        return x < y
    return (x < y) | (each.k.isnan(y) & ~each.k.isnan(x))
