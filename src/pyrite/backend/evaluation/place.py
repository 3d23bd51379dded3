"""The places of a rule, as arrays: where in row-major order elements lie, and which exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.op.rule import (
    Coordinate,
    Gather,
    IndexRead,
    Place,
    Writes,
    merged,
    named,
    outside,
    ranges,
)
from pyrite.types import Shape, TensorType, element_count, int64


class Call(NamedTuple):
    """A call of an op whose rule gives the places of points in a shape."""

    arrays: Arrays
    rule: Gather | Writes
    inputs: Sequence[Any]
    attrs: Mapping[str, Any]
    points: Shape
    shape: Shape
    place: Place

    @property
    def like(self) -> Any:
        """An index tensor, or any input where none is read: what is made lies on its device."""
        read = [entry.input for entry in self.place if isinstance(entry, IndexRead)]
        return self.inputs[read[0]] if read else next(i for i in self.inputs if i is not None)


def types_of(arrays: Arrays, inputs: Sequence[Any]) -> list[TensorType | None]:
    """Return the types of inputs, in the dtypes in which they are computed."""
    return [None if i is None else arrays.type_of(i) for i in inputs]


def call_of(
    arrays: Arrays, rule: Gather | Writes, inputs: Sequence[Any], attrs: Mapping[str, Any],
    points: Shape, shape: Shape,
) -> Call:  # fmt: skip
    """Return a call, with the places that its rule gives."""
    place = rule.places(points, shape, types_of(arrays, inputs), attrs)
    return Call(arrays, rule, inputs, attrs, points, merged(place, shape), place)


def flat_places(call: Call) -> tuple[Any, Any]:
    """Return where in the shape the places of all points are, int64, and whether they are inside.

    The place of a point that is not is 0.  Raises IndexRangeError, unless the rule drops those.
    """
    rule, arrays, points, shape = call.rule, call.arrays, call.points, call.shape
    found = ranges(call.place, shape, counts_from_end=rule.counts_from_end)
    lowest = {each.axis: each.lowest for each in found}
    flat: Any = arrays.full((), 0, int64, call.like)
    inside = flat == 0
    for axis, entry in enumerate(call.place):
        flat = flat * shape[axis]
        if isinstance(entry, IndexRead):
            index = _index(call, entry)
            inside = inside & (index >= lowest[axis]) & (index < shape[axis])
            flat = flat + arrays.algebra.where(index < 0, index + shape[axis], index)
        else:
            flat = flat + _coordinate(arrays, entry, points, call.like)
    if found and not rule.drops:
        message = outside(named(rule.asked, call.attrs), found)
        arrays.fail(~inside, message)
    return arrays.broadcast_to(flat * inside, points), arrays.broadcast_to(inside, points)


def _index(call: Call, read: IndexRead) -> Any:
    """Return the indices of all points, in a shape that broadcasts to theirs."""
    arrays, indices = call.arrays, call.arrays.as_index(call.inputs[read.input])
    shape = arrays.type_of(indices).shape
    flat: Any = arrays.full((), 0, int64, indices)
    for n, entry in zip(shape, read.at, strict=True):
        flat = flat * n + _coordinate(arrays, entry, call.points, indices)
    return arrays.take(arrays.reshape(indices, (element_count(shape),)), flat)


def _coordinate(arrays: Arrays, entry: Coordinate | int, points: Shape, like: Any) -> Any:
    """Return the coordinate of all points, in a shape that broadcasts to theirs."""
    if isinstance(entry, int):
        return entry
    along = [1] * len(points)
    along[entry.axis] = points[entry.axis]
    return arrays.reshape(arrays.arange(points[entry.axis], int64, like), along)
