"""Moves whose pieces are boxes: parts of the result at equal distances along each axis.

Each is a copy of a view of its input to a view of the result, by whole vectors and without a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.cached import cached
from pyrite.op.index import Bound, IndexMap, coordinates
from pyrite.types import Array, Shape


@dataclass(frozen=True, slots=True)
class Box:
    """The elements ``start + i * step`` of each axis of a result, 0 <= i < size."""

    start: Shape
    size: Shape
    step: Shape

    def fills(self, shape: Shape) -> bool:
        """Whether it is all of a result."""
        return self.size == shape

    def read(self, index: IndexMap) -> IndexMap:
        """Return what a map reads for the elements of the box."""
        axes = zip(coordinates(len(self.size)), self.start, self.step, strict=True)
        at = [i * step + start for i, start, step in axes]
        places = tuple(place.at(at) if place.terms else place for place in index.places)
        return IndexMap(self.size, index.source, places).simplified


@cached(1024)
def box_of(index: IndexMap) -> Box | None:
    """Return where the bounds of a map hold, None where that is no box."""
    along: dict[int, list[Bound]] = {}
    for bound in index.simplified.bounds:
        if len(bound.form.axes) != 1:
            return None
        (axis,) = bound.form.axes
        along.setdefault(axis, []).append(bound)
    found = [_line(along.get(axis, ()), axis, index.shape) for axis in range(len(index.shape))]
    lines = [line for line in found if line is not None]
    if len(lines) < len(found):
        return None
    start, size, step = zip(*lines, strict=True) if lines else ((), (), ())
    return Box(start, size, step)


#: The first, the number and the distance of places along an axis.
_Line = tuple[int, int, int]


def _line(bounds: Sequence[Bound], axis: int, shape: Shape) -> _Line | None:
    """Return where some bounds hold along an axis, None where that is no line."""
    if all(bound.form.is_affine for bound in bounds):
        first, end = 0, shape[axis]
        for bound in bounds:
            low, high = _ends(bound, axis)
            first = first if low is None else max(first, low)
            end = end if high is None else min(end, high)
        return (first, end - first, 1) if first < end else (0, 0, 1)
    kept = np.ones(shape[axis], bool)
    for bound in bounds:
        kept &= _along(bound, axis, shape)
    return _progression(kept)


def _ends(bound: Bound, axis: int) -> tuple[int | None, int | None]:
    """Return the first coordinate at which an affine bound holds, and the first behind."""
    factor, offset = bound.form.factor(axis), bound.form.offset
    least = None if bound.low is None else bound.low - offset
    beyond = None if bound.high is None else bound.high - offset
    if factor > 0:
        ends = least, beyond
    else:
        # factor * i >= n where i <= -n / -factor, so it holds from the last that is too low on.
        factor = -factor
        ends = (
            None if beyond is None else 1 - beyond,
            None if least is None else 1 - least,
        )
    first, end = [None if n is None else -(-n // factor) for n in ends]
    return first, end


def _along(bound: Bound, axis: int, shape: Shape) -> Array:
    """Return at which coordinates along an axis a bound holds that reads no other."""
    at: list[Array | int] = [0] * len(shape)
    at[axis] = np.arange(shape[axis])
    return np.broadcast_to(bound.holds(at), shape[axis])


def _progression(kept: Array) -> _Line | None:
    """Return the first, the number and the distance of places that are kept, if it is one."""
    (places,) = np.nonzero(kept)
    if len(places) == 0:
        return 0, 0, 1
    step = int(places[1] - places[0]) if len(places) > 1 else 1
    if len(places) > 2 and np.any(np.diff(places) != step):
        return None
    return int(places[0]), len(places), step


def cover(boxes: Sequence[Box], shape: Shape) -> bool:
    """Return whether boxes are known to hold every element: they differ along one axis at most."""
    if any(box.fills(shape) for box in boxes):
        return True
    for axis, size in enumerate(shape):
        others = shape[:axis] + shape[axis + 1 :]
        if all(box.size[:axis] + box.size[axis + 1 :] == others for box in boxes):
            lines = [(box.start[axis], box.size[axis], box.step[axis]) for box in boxes]
            return _cover_line(lines, size)
    return False


def _cover_line(lines: Sequence[_Line], size: int) -> bool:
    """Whether lines hold each of so many places."""
    lines = [line for line in lines if line[1] > 0]
    if all(count == 1 or step == 1 for _, count, step in lines):
        end = 0
        for first, count, _ in sorted(lines, key=lambda line: line[0]):
            if first > end:
                return False
            if first + count > end:
                end = first + count
        return end >= size
    held = np.zeros(size, bool)
    for first, count, step in lines:
        held[first : first + count * step : step] = True
    return bool(held.all())
