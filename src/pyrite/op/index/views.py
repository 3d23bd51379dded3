"""The maps of views, from shapes and attributes."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.op.index.form import Form, coordinate, coordinates, number_of
from pyrite.op.index.index_map import IndexMap
from pyrite.types import Shape, element_count


def identity(shape: Shape) -> IndexMap:
    """Return the map that reads every element where it is."""
    return IndexMap(shape, shape, coordinates(len(shape)))


def permuted(source: Shape, axes: Sequence[int]) -> IndexMap:
    """Return the map whose axis i is axis ``axes[i]`` of the source."""
    places = tuple(coordinate(axes.index(axis)) for axis in range(len(source)))
    return IndexMap(tuple(source[a] for a in axes), source, places)


def broadcast(source: Shape, shape: Shape) -> IndexMap:
    """Return the map that stretches a source to a shape to which it broadcasts."""
    new = len(shape) - len(source)
    places = (
        Form() if n == 1 != shape[axis] else coordinate(axis)
        for axis, n in enumerate(source, start=new)
    )
    return IndexMap(shape, source, tuple(places))


def sliced(source: Shape, start: Shape, size: Shape, step: Sequence[int]) -> IndexMap:
    """Return the map to the elements ``start + i * step`` of each axis, 0 <= i < size."""
    axes = zip(coordinates(len(source)), start, step, strict=True)
    return IndexMap(size, source, tuple(i * stride + first for i, first, stride in axes))


def windowed(source: Shape, axis: int, size: int, step: int) -> IndexMap:
    """Return the map to windows along an axis, whose elements are a new last axis."""
    count = (source[axis] - size) // step + 1
    shape = (*source[:axis], count, *source[axis + 1 :], size)
    places = list(coordinates(len(source)))
    places[axis] = places[axis] * step + coordinate(len(source))
    return IndexMap(shape, source, tuple(places))


def reshaped(source: Shape, shape: Shape) -> IndexMap:
    """Return the map that reads elements in row-major order as another shape.

    Axes are parted into groups of as many elements on both sides: where one of them is a single
    axis of the source, its place is affine.
    """
    if element_count(source) == 0:
        return IndexMap(shape, source, (Form(),) * len(source))
    places: list[Form] = []
    axis = 0
    own = coordinates(len(shape))
    for sizes, given in _groups(source, shape):
        group = own[axis : axis + len(given)]
        if sizes == given and len(sizes) == 1 and sizes != (1,):
            places += group
        else:
            places += _digits(number_of(group, given), sizes)
        axis += len(given)
    return IndexMap(shape, source, tuple(places))


def _digits(number: Form, sizes: Shape) -> list[Form]:
    """Return the coordinates of the element of that number; a leading axis needs no modulus."""
    found: list[Form] = []
    divisor = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        is_first = all(n == 1 for n in sizes[:axis])
        if size == 1:
            found.append(Form())
        else:
            found.append(number // divisor if is_first else number // divisor % size)
        divisor *= size
    return found[::-1]


def _groups(source: Shape, shape: Shape) -> list[tuple[Shape, Shape]]:
    """Return runs of axes of both shapes that hold as many elements."""
    found: list[tuple[Shape, Shape]] = []
    i = j = 0
    while i < len(source) or j < len(shape):
        begin, other = i, j
        left, right = source[i : i + 1], shape[j : j + 1]
        i, j = i + len(left), j + len(right)
        while element_count(left) != element_count(right):
            if element_count(left) < element_count(right):
                left, i = source[begin : i + 1], i + 1
            else:
                right, j = shape[other : j + 1], j + 1
        found.append((left, right))
    return found
