"""Index maps the other way: which elements of a result read a place of the source."""

from __future__ import annotations

from pyrite.op.index.form import Digit, Form, coordinate
from pyrite.op.index.index_map import Bound, IndexMap
from pyrite.types import Shape, element_count


def inverse(given: IndexMap) -> IndexMap | None:
    """Return the map from each place to the one element that reads it; None where there is none.

    It exists where every place is read once: of permutations, reversals and reshapes, and of what
    is composed of them.

    >>> from pyrite.op.index.views import permuted, reshaped
    >>> print(inverse(permuted((2, 3, 4), (2, 0, 1))))
    (2, 3, 4) -> (4, 2, 3): i2, i0, i1
    >>> print(inverse(reshaped((2, 3), (6,))))
    (2, 3) -> (6,): 3*i0 + i1
    """
    if element_count(given.shape) != element_count(given.source) or not given.is_total:
        return None
    if element_count(given.shape) == 0:
        return IndexMap(given.source, given.shape, (Form(),) * len(given.shape))
    # As it is first: digits of one form are seen to be that until they are simplified apart.
    return _turned(given) or _turned(given.simplified)


def _turned(given: IndexMap) -> IndexMap | None:
    found: dict[int, Form] = {}
    for number, of in _numbers(given):
        parts = _parted(number, of, given.shape)
        if parts is None or found.keys() & parts.keys():
            return None
        found |= parts
    places = tuple(found.get(axis, Form()) for axis in range(len(given.shape)))
    if any(axis not in found and n > 1 for axis, n in enumerate(given.shape)):
        return None
    return IndexMap(given.source, given.shape, places).simplified


def _numbers(given: IndexMap) -> list[tuple[Form, Form]]:
    """Return what coordinates of the source are: forms, and of which coordinates of ours.

    Axes that are digits of one form together say that form.
    """
    joined: dict[Form, Form] = {}
    found = []
    for axis, place in enumerate(given.places):
        digit = _digit_of(place)
        if digit is not None:
            joined[digit.form] = joined.get(digit.form, Form()) + coordinate(axis) * digit.divisor
        elif place.terms:
            found.append((coordinate(axis), place))
    both = [*found, *((number, of) for of, number in joined.items())]
    return [(number, of.simplified(given.shape)) for number, of in both]


def _digit_of(place: Form) -> Digit | None:
    if len(place.terms) == 1 and not place.offset and place.terms[0][0] == 1:
        atom = place.terms[0][1]
        return atom if isinstance(atom, Digit) else None
    return None


def _parted(number: Form, of: Form, shape: Shape) -> dict[int, Form] | None:
    """Return the coordinates of ours from a number that is a form of them; None if it is not one.

    The form must count: each factor is the product of the sizes of those before, in their order.
    """
    if not of.is_affine:
        return None
    found: dict[int, Form] = {}
    rest = number - of.range(shape)[0]
    step = 1
    terms = sorted((abs(factor), factor, axis) for factor, axis in of.terms)
    for n, (size, factor, axis) in enumerate(terms):
        assert isinstance(axis, int)
        if size != step:
            return None
        count = shape[axis]
        digit = rest // step if n == len(terms) - 1 else rest // step % count
        found[axis] = digit if factor > 0 else (count - 1) - digit
        step *= count
    return found


def fibers(given: IndexMap) -> tuple[IndexMap, Shape] | None:
    """Return for each place all elements that read it, as a map, and over how many they are sought.

    The map's shape is the source's, and behind it axes that count candidates; its bounds say which
    are right.  So the transpose of reading through ``given`` is a sum over these axes.  None where
    one coordinate has a part in several places, or places are divided.

    >>> from pyrite.op.index.views import windowed
    >>> found, taps = fibers(windowed((7,), 0, 3, 2))
    >>> print(found)
    (7, 3) -> (3, 3): (i0 - i1) // 2, i1 where (i0 - i1) % 2 < 1 and 0 <= (i0 - i1) // 2 < 3
    """
    whole = given.simplified
    if not whole.is_affine:
        turned = inverse(given)
        return None if turned is None else (turned, ())
    used = [axis for place in whole.places for _, axis in place.terms]
    if len(used) != len(set(used)):
        return None
    return _solved(whole)


def _solved(given: IndexMap) -> tuple[IndexMap, Shape]:
    rank = len(given.source)
    places: dict[int, Form] = {}
    bounds: list[Bound] = []
    taps: list[int] = []

    def counted(axis: int) -> Form:
        taps.append(given.shape[axis])
        places[axis] = coordinate(rank + len(taps) - 1)
        return places[axis]

    for own, place in enumerate(given.places):
        rest = coordinate(own) - place.offset
        terms = [(factor, axis) for factor, axis in place.terms if isinstance(axis, int)]
        if not terms:
            bounds.append(Bound(rest, 0, 1))
            continue
        pivot = max(terms, key=lambda t: given.shape[t[1]])
        for factor, axis in terms:
            if axis != pivot[1]:
                rest = rest - counted(axis) * factor
        places[pivot[1]] = _solution(rest, *pivot, given.shape, bounds)
    for axis, size in enumerate(given.shape):
        if axis not in places:
            if size == 1:
                places[axis] = Form()
            else:
                counted(axis)
    found = tuple(places[axis] for axis in range(len(given.shape)))
    within = (bound.at(found) for bound in given.bounds)
    shape = (*given.source, *taps)
    return IndexMap(shape, given.shape, found, (*bounds, *within)).simplified, tuple(taps)


def _solution(rest: Form, factor: int, axis: int, shape: Shape, bounds: list[Bound]) -> Form:
    """Return the coordinate that times the factor is the rest; note where it is one."""
    size = abs(factor)
    rest = rest if factor > 0 else rest * -1
    if size > 1:
        bounds.append(Bound(rest % size, 0, 1))
    found = rest // size
    bounds.append(Bound(found, 0, shape[axis]))
    return found
