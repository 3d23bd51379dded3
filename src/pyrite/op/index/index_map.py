"""Index maps: where in a source the elements of a result stand, and which of them stand anywhere.

A map gives for the coordinates of an element of ``shape`` its place in a tensor of shape
``source``: a `Form` for each axis.  Where one of its bounds does not hold there is no place, and
whoever reads the map puts a fill there.

    >>> from pyrite.op.index.form import coordinate
    >>> i = coordinate(0)
    >>> print(IndexMap((6,), (4,), (i - 1,), (Bound(i - 1, 0, 4),)))
    (6,) -> (4,): i0 - 1 where 0 <= i0 - 1 < 4
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.cached import cached, distinct
from pyrite.op.index.form import Form, coordinates, form, number_of
from pyrite.types import Shape, element_count


@dataclass(frozen=True, slots=True)
class Bound:
    """``low <= form < high``; None leaves a side open."""

    form: Form
    low: int | None = None
    high: int | None = None

    def holds(self, coordinates: Sequence[Any]) -> Any:
        """Return whether it holds at coordinates, as ints, arrays or values of a kernel."""
        found = self.form.at(coordinates)
        sides = []
        if self.low is not None:
            sides.append(found >= self.low)
        if self.high is not None:
            sides.append(found < self.high)
        return functools.reduce(operator.and_, sides, True)

    def at(self, places: Sequence[Form]) -> Bound:
        """Return it as a bound of what the places are made of."""
        return Bound(self.form.at(places) if self.form.terms else self.form, self.low, self.high)

    def tightened(self, shape: Shape) -> Bound | None:
        """Return it without the sides that always hold over a shape, None if neither is left."""
        simple = self.form.simplified(shape)
        first, last = simple.range(shape)
        low = None if self.low is None or first >= self.low else self.low
        high = None if self.high is None or last < self.high else self.high
        return None if low is None and high is None else Bound(simple, low, high)

    def __str__(self) -> str:
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" < {self.high}"
        return f"{low}{self.form}{high}"


@dataclass(frozen=True, slots=True)
class IndexMap:
    """From coordinates of ``shape`` to places in ``source``, where all bounds hold."""

    shape: Shape
    source: Shape
    places: tuple[Form, ...]
    bounds: tuple[Bound, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.places) == len(self.source), "a map has a form for each axis of its source"

    # ---- what it is ----

    @property
    def simplified(self) -> IndexMap:
        """The same map in its simplest form: no digit and no bound that says nothing."""
        return _simplified(self)

    @property
    def is_affine(self) -> bool:
        """Whether places are sums of coordinates times factors: strides say it."""
        return all(place.is_affine for place in self.simplified.places)

    @property
    def is_total(self) -> bool:
        """Whether every element has a place."""
        return not self.bounds or not self.simplified.bounds

    @property
    def is_identity(self) -> bool:
        """Whether every element stands where it stood."""
        own = tuple(c.simplified(self.shape) for c in coordinates(len(self.shape)))
        return self.shape == self.source and self.is_total and self.simplified.places == own

    @property
    def most(self) -> int:
        """What no number on the way to its places and its bounds exceeds."""
        forms = (*self.places, *(bound.form for bound in self.bounds))
        return max((form.most(self.shape) for form in forms), default=0)

    # ---- what it says ----

    def at(self, coordinates: Sequence[Any]) -> list[Any]:
        """Return the place of an element, or those of arrays or vectors of them."""
        return [place.at(coordinates) for place in self.places]

    def valid(self, coordinates: Sequence[Any]) -> Any:
        """Return whether there is a place; True where there always is."""
        found: Any = True
        for bound in self.bounds:
            holds = bound.holds(coordinates)
            found = holds if found is True else found & holds
        return found

    def compose(self, inner: IndexMap) -> IndexMap:
        """Return the map through both: an element of ours is one of ``inner``'s shape, read there.

        >>> from pyrite.op.index.views import permuted, sliced
        >>> print(sliced((3, 4), (0, 1), (3, 2), (1, 2)).compose(permuted((4, 3), (1, 0))))
        (3, 2) -> (4, 3): 2*i1 + 1, i0
        """
        assert self.source == inner.shape, f"{inner} does not give what {self} reads"
        return IndexMap(
            self.shape,
            inner.source,
            tuple(place.at(self.places) if place.terms else place for place in inner.places),
            (*self.bounds, *(bound.at(self.places) for bound in inner.bounds)),
        )

    def masked(self, *bounds: Bound) -> IndexMap:
        """Return it with more bounds."""
        return IndexMap(self.shape, self.source, self.places, (*self.bounds, *bounds))

    def strides(self, strides: Sequence[int]) -> tuple[tuple[int, ...], int] | None:
        """Return strides and offset of what is read, in a source of such strides.

        None where that takes a copy: the map has bounds, or divides what the strides do not join.

        >>> from pyrite.op.index.views import reshaped
        >>> joined = reshaped((2, 3), (6,))
        >>> joined.strides((3, 1)), joined.strides((1, 2))
        (((1,), 0), None)
        """
        if not self.is_total:
            return None
        offset, steps = 0, [0] * len(self.shape)
        for place, stride in zip(self.places, strides, strict=True):
            offset += place.offset * stride
            for factor, atom in place.terms:
                if not isinstance(atom, int):
                    return self._joined_strides(strides)
                steps[atom] += factor * stride
        return tuple(steps), 0 if 0 in self.shape else offset

    def _joined_strides(self, strides: Sequence[int]) -> tuple[tuple[int, ...], int] | None:
        """Return what `strides` does where places divide, which strides may join again."""
        address = Form()
        for place, stride in zip(self.places, strides, strict=True):
            address = address + place * stride
        return _strides_of(address, self.shape)

    def numbered(self) -> Form:
        """Return the number of the place in row-major order."""
        return number_of(self.places, self.source)

    def __str__(self) -> str:
        text = f"{self.shape} -> {self.source}: {', '.join(map(str, self.places))}"
        return f"{text} where {' and '.join(map(str, self.bounds))}" if self.bounds else text


@cached(4096)
def _simplified(given: IndexMap) -> IndexMap:
    if element_count(given.shape) == 0:
        return IndexMap(given.shape, given.source, (Form(),) * len(given.source))
    kept = distinct(b for bound in given.bounds if (b := bound.tightened(given.shape)))
    places = tuple(place.simplified(given.shape) for place in given.places)
    return IndexMap(given.shape, given.source, places, tuple(kept))


def _strides_of(address: Form, shape: Shape) -> tuple[tuple[int, ...], int] | None:
    """Return the strides and the offset that an address is, with strides for axes of size 1."""
    if element_count(shape) == 0:
        return tuple(map(address.factor, range(len(shape)))), 0
    lone = form(0, ((n, axis) for n, axis in address.terms if shape_of(axis, shape) == 1))
    simple = address.simplified(shape)
    if not simple.is_affine:
        return None
    steps = simple + lone
    return tuple(map(steps.factor, range(len(shape)))), simple.offset


def shape_of(atom: Any, shape: Shape) -> int:
    """Return the size of the axis that an atom is, 0 if it is none."""
    return shape[atom] if isinstance(atom, int) else 0
