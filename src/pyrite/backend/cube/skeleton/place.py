"""Places of rules inside kernels: what their coordinates are, and what is said of those outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op.rule import Coordinate, Gather, Place, Writes, named, outside, ranges
from pyrite.types import Shape, TensorType


def types_of(inputs: Sequence[Any]) -> list[TensorType | None]:
    """Return the types of inputs: tensors, numbers, and None for those left out."""
    return [None if i is None else i.type for i in inputs]


def coordinates_at(entries: Sequence[Any], at: Sequence[Value | int]) -> list[Value | int]:
    """Return coordinates of a place, for the coordinates of a point."""
    return [at[entry.axis] if isinstance(entry, Coordinate) else entry for entry in entries]


def fault_of(
    rule: Gather | Writes, place: Place, shape: Shape, attrs: Mapping[str, Any]
) -> str | None:
    """Return what is said of an index that is outside of a shape; None where none can fail."""
    found = ranges(place, shape, counts_from_end=rule.counts_from_end)
    return outside(named(rule.asked, attrs), found) if found and not rule.drops else None


def strides_along(
    tensor: CubeTensor, entries: Sequence[Any], axes: Sequence[int]
) -> tuple[int, ...]:
    """Return how far apart the elements of a tensor at a place lie, along axes of the points."""
    return tuple(
        sum(
            stride for stride, entry in zip(tensor.strides, entries, strict=True)
            if entry == Coordinate(axis)
        )
        for axis in axes
    )  # fmt: skip
