"""Reading by index tensors: each element of the result finds its own, or each vector of them.

Indices are tested where they are used; see `backend.cube.fault`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.each import Each, EachConfig, for_each
from pyrite.backend.cube.skeleton.each import select as select_each
from pyrite.backend.cube.skeleton.elementwise import as_tensor
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import Shape, bool_, element_count, uint32


@dataclass(frozen=True, slots=True)
class GatherConfig:
    """``width`` neighbours are read at one index, by each point of an `EachConfig`."""

    each: EachConfig
    width: int


def candidates(x: CubeTensor, shape: Shape, end: int, machine: Machine) -> list[GatherConfig]:
    """Return the configs for slices of x that are the axes of the result from ``end`` on."""
    are_neighbours = end < len(shape) and x.strides[-1] == 1
    widths = [w for w in (16, 8, 4, 2, 1) if w == 1 or (are_neighbours and shape[-1] % w == 0)]
    # On a processor neighbours of a workgroup become the elements of vectors.
    sizes = (256, 1) if machine.kind == "cpu" else machine.workgroup_sizes
    return [GatherConfig(EachConfig(size), w) for w in widths for size in sizes]


def select(x: CubeTensor, shape: Shape, end: int, machine: Machine) -> GatherConfig:
    """Return a config: vectors of neighbours where there are, else of elements on a processor."""
    found = candidates(x, shape, end, machine)
    width = max(c.width for c in found if c.width <= machine.vector)
    points = element_count(shape) // width
    size = select_each(points, machine).workgroup_size
    if machine.kind == "cpu" and width == 1 and points >= 256:
        size = 256
    return next(c for c in found if c.width == width and c.each.workgroup_size == size)


def outside(op: str, sizes: Shape, axis: int = 0) -> str:
    """Return what is said of an index that is outside of axes of those sizes, from an axis on."""
    if len(sizes) == 1:
        n = sizes[0]
        return f"{op} requires {-n} <= index < {n} on axis {axis}, got an index outside"
    return f"{op} requires indices -n <= index < n for sizes n of {sizes}, got one outside"


def _store_found(
    each: Each, x: Operand, places: Sequence[tuple[Value, Any]], rest: Any, width: int = 1
) -> None:
    """Write the elements of x at indices and further coordinates, or 0 where one is outside."""
    b = each.b
    inside = b.const(True, bool_)
    for is_inside, _ in places:
        inside = inside & is_inside
    each.fail(~inside)
    at = each.at if width == 1 else [*each.at[:-1], b.index(each.at[-1]) * width]
    place = x.at(rest(at, [index for _, index in places]))
    result = each.operands[-1]
    result.store_along(result.at(at), x.load_along(place, width, exists=inside))


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
        _store_found(each, source, places, lambda at, i: [*at[:axis], *i, *at[axis + 1 :]])

    config = select(x, shape, len(shape), launcher.machine)
    for_each(
        launcher, op.name, f"{axis} {size}", shape, views, target, body,
        fault=outside(op.name, (size,), axis), config=config.each,
    )  # fmt: skip
    return [target]


@lowers("take", "embedding")
def take(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """An index for each slice across one axis; of an embedding the first."""
    x, indices = inputs
    axis, shape = attrs.get("axis", 0), out[0].shape
    size, end = x.shape[axis], axis + len(indices.shape)
    target = launcher.empty(out[0])
    config = select(x, shape, end, launcher.machine)

    def body(each: Each) -> None:
        source, index, _ = each.operands
        places = [each.as_index(index[each.at[axis:end]], size)]
        _store_found(each, source, places, lambda at, i: [*at[:axis], *i, *at[end:]], config.width)

    for_each(
        launcher, op.name, f"{axis} {size} {end} {config.width}", _points(shape, config.width),
        inputs, target, body, fault=outside(op.name, (size,), axis), config=config.each,
    )  # fmt: skip
    return [target]


def _points(shape: Shape, width: int) -> Shape:
    """Return the shape of the vectors of a result."""
    return shape if width == 1 else (*shape[:-1], shape[-1] // width)


@lowers("gather_nd")
def gather_nd(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """A vector of indices for each slice behind the leading axes."""
    x, indices = inputs
    rank, count = len(indices.shape) - 1, indices.shape[-1]
    sizes, shape = x.shape[:count], out[0].shape
    target = launcher.empty(out[0])
    config = select(x, shape, rank, launcher.machine)

    def body(each: Each) -> None:
        source, index, _ = each.operands
        places = [
            each.as_index(index[[*each.at[:rank], axis]], size) for axis, size in enumerate(sizes)
        ]
        _store_found(each, source, places, lambda at, i: [*i, *at[rank:]], config.width)

    for_each(
        launcher, op.name, f"{rank} {sizes} {config.width}", _points(shape, config.width), inputs,
        target, body, fault=outside(op.name, sizes), config=config.each,
    )  # fmt: skip
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
