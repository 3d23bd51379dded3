"""Windows: under each element of a result the taps that it folds, by a map with axes of taps."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.cached import cached
from pyrite.op.index.form import Form, coordinates, number_of
from pyrite.op.index.index_map import Bound, IndexMap
from pyrite.types import Array, Shape

#: The padding of each axis, before and after it.
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Maps of windows: the last ``taps`` axes number the taps of each window.

    Bounds say which taps are elements, and ``counted`` which count where a fold asks how many:
    the elements, unless padding counts too.  ``position`` is what a fold gets as the position of an
    element, else the number of its tap.
    """

    index: IndexMap
    taps: int
    position: Form | None = None
    counted: tuple[Bound, ...] | None = None

    @property
    def shape(self) -> Shape:
        """One element for each window."""
        return self.index.shape[: -self.taps or None]

    @property
    def sizes(self) -> Shape:
        """How many taps a window has along each axis."""
        return self.index.shape[len(self.shape) :]

    @property
    def place(self) -> Form:
        """The position of a tap."""
        if self.position is not None:
            return self.position
        at = coordinates(len(self.index.shape))[len(self.shape) :]
        return number_of(at, self.sizes)

    @property
    def counting(self) -> tuple[Bound, ...]:
        """The bounds of taps that count, in their simplest form."""
        given = self.index.bounds if self.counted is None else self.counted
        found = (bound.tightened(self.index.shape) for bound in given)
        return tuple(dict.fromkeys(bound for bound in found if bound))

    @property
    def common_count(self) -> int | None:
        """How many taps count in every window; None if windows differ."""
        counts = self.counts
        return int(counts.flat[0]) if counts.size == 1 else None

    @property
    def counts(self) -> Array:
        """How many taps count in each window; axes along which all have as many are of size 1."""
        return _counts(self)


@cached(256)
def _counts(windows: Windows) -> Array:
    shape, rank = windows.index.shape, len(windows.shape)
    bounds = windows.counting
    free = set(range(rank, len(shape))).difference(*(bound.form.axes for bound in bounds))
    total: Array = np.full((1,) * rank, math.prod(shape[axis] for axis in free))
    for group in _connected(bounds):
        axes = frozenset[int]().union(*(bound.form.axes for bound in group))
        own = tuple(n if axis in axes else 1 for axis, n in enumerate(shape))
        grid = np.indices(own, sparse=True)
        holds = functools.reduce(np.logical_and, (bound.holds(grid) for bound in group))
        total = total * np.broadcast_to(holds, own).sum(tuple(range(rank, len(shape))))
    for axis in range(rank):
        first = total.take([0], axis)
        if (total == first).all():
            total = first
    return total


def _connected(bounds: Iterable[Bound]) -> list[list[Bound]]:
    """Return the bounds in groups such that no two groups read one axis."""
    groups: list[list[Bound]] = []
    for bound in bounds:
        met = [g for g in groups if any(bound.form.axes & other.form.axes for other in g)]
        groups = [g for g in groups if g not in met]
        groups.append([*(b for g in met for b in g), bound])
    return groups


def sliding_windows(
    source: Shape, counts: Shape, kernel_size: Shape, stride: Shape, padding: Pairs,
    dilation: Shape, *, counts_padding: bool = False,
) -> Windows:  # fmt: skip
    """Return windows of one form over the last axes of a source, which stride and dilate.

    ``counts_padding`` says that padding counts: no more of it than there is, also where a window
    reaches further.
    """
    rank, lead = len(counts), len(source) - len(counts)
    at = coordinates(lead + 2 * rank)
    places = [
        at[lead + a] * stride[a] + at[lead + rank + a] * dilation[a] - padding[a][0]
        for a in range(rank)
    ]
    sizes = source[lead:]
    index = IndexMap(
        (*source[:lead], *counts, *kernel_size),
        source,
        (*at[:lead], *places),
        _inside(places, sizes),
    )
    counted = None
    if counts_padding:
        axes = zip(places, padding, sizes, strict=True)
        counted = tuple(Bound(p, -before, n + after) for p, (before, after), n in axes)
    return Windows(index, rank, number_of(places, sizes), counted)


def covering_windows(source: Shape, counts: Shape) -> Windows:
    """Return windows that cover the last axes: i n // c is the start of the i-th of c."""
    rank, lead = len(counts), len(source) - len(counts)
    at, sizes = coordinates(lead + 2 * rank), source[lead:]
    places, bounds, taps = [], [], []
    for a, (n, count) in enumerate(zip(sizes, counts, strict=True)):
        window, tap = at[lead + a], at[lead + rank + a]
        start, end = (window * n) // count, (window * n + (n + count - 1)) // count
        places.append(start + tap)
        bounds.append(Bound(places[-1] - end, None, 0))
        numbers = np.arange(count)
        taps.append(int(np.max(-(-(numbers + 1) * n // count) - numbers * n // count, initial=1)))
    index = IndexMap((*source[:lead], *counts, *taps), source, (*at[:lead], *places), tuple(bounds))
    return Windows(index, rank, number_of(places, sizes))


def _inside(places: Sequence[Form], sizes: Shape) -> tuple[Bound, ...]:
    return tuple(Bound(place, 0, size) for place, size in zip(places, sizes, strict=True))
