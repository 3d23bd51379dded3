"""Places of elements that an op reads or writes by index tensors: a coordinate for each axis.

A coordinate is that of the point itself (an element of a gather's result, a write of a scatter), an
index that is read from an input, or a number.  `places` asks a rule for them, once for all points:

>>> from pyrite.types import float32, int32
>>> def rows(at, index, *types):
...     return (index(at[0]), at[1])
>>> x, indices = TensorType((5, 3), float32), TensorType((2,), int32)
>>> places(rows, (2, 3), x.shape, [x, indices], {})
(IndexRead(input=1, at=(Coordinate(axis=0),), axes=1), Coordinate(axis=1))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyrite.errors import ShapeError
from pyrite.types import Shape, TensorType, element_count


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The coordinate of a point on one of its axes."""

    axis: int


@dataclass(frozen=True, slots=True)
class IndexRead:
    """An index, which an input holds at coordinates.

    With several ``axes`` it is the number of an element in row-major order, and stands for them.
    """

    input: int
    at: tuple[Coordinate | int, ...]
    axes: int = 1


#: The coordinate on one axis of what is read or written.
Entry = Coordinate | IndexRead | int
Place = tuple[Entry, ...]


class Index(Protocol):
    """Reads an index from an input: the second one, unless ``of`` says which."""

    def __call__(self, *at: Coordinate | int, of: int = 1, axes: int = 1) -> IndexRead:
        """Return the index at coordinates, of one axis or of several in row-major order."""
        ...


#: From the coordinates of a point, a reader of indices, and the types of the inputs and the
#: attributes of the op, to the place.
PlaceRule = Callable[..., Sequence[Entry]]


def read_index(*at: Coordinate | int, of: int = 1, axes: int = 1) -> IndexRead:
    """Return the index that an input holds at coordinates."""
    return IndexRead(of, at, axes)


def merged(place: Sequence[Entry], shape: Shape) -> Shape:
    """Return a shape with those axes as one for which one index stands.

    >>> merged((Coordinate(0), IndexRead(1, (Coordinate(0),), axes=2)), (3, 4, 5))
    (3, 20)
    """
    sizes: list[int] = []
    rest = shape
    for entry in place:
        count = entry.axes if isinstance(entry, IndexRead) else 1
        if len(rest) < count:
            break
        sizes.append(element_count(rest[:count]))
        rest = rest[count:]
    if rest or len(sizes) != len(place):
        raise ShapeError(f"a place requires a coordinate for each axis of {shape}, got {place}")
    return tuple(sizes)


def places(
    rule: PlaceRule,
    points: Shape,
    shape: Shape,
    types: Sequence[TensorType | None],
    attrs: Mapping[str, Any],
) -> Place:
    """Return the coordinates in a shape of all points of a space.

    A coordinate along an axis of size 1 is 0, as where shapes broadcast.  Raises ShapeError for
    coordinates that a point may have and the shape has not.
    """
    at = tuple(Coordinate(axis) for axis in range(len(points)))
    place = rule(at, read_index, *types, **attrs)
    return tuple([
        _index_read(entry, points, types) if isinstance(entry, IndexRead) else entry
        for entry in _fitting(place, points, merged(place, shape))
    ])  # fmt: skip


def _index_read(read: IndexRead, points: Shape, types: Sequence[TensorType | None]) -> IndexRead:
    type = types[read.input]
    assert type is not None, "indices are read from a tensor"
    at = _fitting(read.at, points, merged(read.at, type.shape))
    return IndexRead(read.input, tuple(at), read.axes)


def _fitting(place: Sequence[Any], points: Shape, shape: Shape) -> list[Any]:
    """Return coordinates that are in a shape: those along an axis of size 1 are 0."""
    found: list[Any] = []
    for entry, size in zip(place, shape, strict=True):
        is_stretched = isinstance(entry, Coordinate) and size == 1
        if not (is_stretched or _is_inside(entry, points, size)):
            raise ShapeError(
                f"a place requires coordinates inside {shape}, got {place} of points {points}"
            )
        found.append(0 if is_stretched else entry)
    return found


def _is_inside(entry: Entry, points: Shape, size: int) -> bool:
    """Whether a coordinate of all points is inside; of an index only the device knows."""
    if isinstance(entry, Coordinate):
        return points[entry.axis] <= size
    return isinstance(entry, IndexRead) or 0 <= entry < size


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The indices that an axis of a size has: from 0 on, or also negative from its end."""

    axis: int
    size: int
    counts_from_end: bool = True

    @property
    def lowest(self) -> int:
        """The least index."""
        return -self.size if self.counts_from_end else 0

    def __str__(self) -> str:
        return f"{self.lowest} <= index < {self.size} on axis {self.axis}"


def ranges(place: Place, shape: Shape, *, counts_from_end: bool) -> tuple[IndexRange, ...]:
    """Return the ranges of the indices of a place in a merged shape, in the order of their axes."""
    return tuple(
        IndexRange(axis, size, counts_from_end)
        for axis, (entry, size) in enumerate(zip(place, shape, strict=True))
        if isinstance(entry, IndexRead)
    )


def outside(op: str, found: Sequence[IndexRange]) -> str:
    """Return what the error says of an index that is in none of the ranges.

    >>> outside("take", [IndexRange(0, 3)])
    'take requires -3 <= index < 3 on axis 0, got an index outside'
    >>> outside("gather_nd", [IndexRange(0, 3), IndexRange(1, 2)])
    'gather_nd requires indices -n <= index < n for sizes n of (3, 2), got one outside'
    """
    if len(found) == 1:
        return f"{op} requires {found[0]}, got an index outside"
    lowest = "-n" if found[0].counts_from_end else "0"
    sizes = tuple(each.size for each in found)
    return f"{op} requires indices {lowest} <= index < n for sizes n of {sizes}, got one outside"
