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

    Axes that are all digits of one form together say that form; others say nothing.
    """
    digits: dict[Form, list[tuple[int, int]]] = {}
    found = []
    for axis, place in enumerate(given.places):
        digit = _digit_of(place)
        if digit is not None:
            digits.setdefault(digit.form, []).append((digit.divisor, axis))
        elif place.terms:
            found.append((coordinate(axis), place.simplified(given.shape)))
    for of, parts in digits.items():
        number = _number_of_digits(sorted(parts), of.range(given.shape), given.source)
        if number is not None:
            found.append((number, of.simplified(given.shape)))
    return found


def _number_of_digits(
    parts: list[tuple[int, int]], values: tuple[int, int], source: Shape
) -> Form | None:
    """Return the number of which axes are the digits, None if digits of its values are missing."""
    number, step = Form(), 1
    for divisor, axis in parts:
        if divisor != step:
            return None
        number = number + coordinate(axis) * step
        step *= source[axis]
    return number if 0 <= values[0] and values[1] < step else None


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
    places are divided and nothing joins them again.

    >>> from pyrite.op.index.views import windowed
    >>> found, taps = fibers(windowed((7,), 0, 2, 1))
    >>> print(found)
    (7, 2) -> (6, 2): i0 - i1, i1 where 0 <= i0 - i1 < 6
    """
    whole = given.simplified
    if whole.is_affine:
        return _Fibers(whole).found()
    turned = inverse(given)
    return (turned, ()) if turned is not None else _Fibers(given).found()


class _Fibers:
    """The coordinates of the elements that read a place, while they are solved for."""

    def __init__(self, given: IndexMap) -> None:
        self.given = given
        self.places: dict[int, Form] = {}
        self.bounds: list[Bound] = []
        self.taps: list[int] = []

    def found(self) -> tuple[IndexMap, Shape] | None:
        """Return the map of all of them and the sizes of the axes of candidates, if it is found."""
        given = self.given
        # First those that say one coordinate, which others may have too.
        for own, place in sorted(enumerate(given.places), key=lambda of: len(of[1].terms)):
            if not self.solve(coordinate(own) - place.offset, place):
                return None
        for axis, size in enumerate(given.shape):
            if axis not in self.places:
                self.places[axis] = self.counted(size) if size > 1 else Form()
        found = tuple(self.places[axis] for axis in range(len(given.shape)))
        within = (bound.at(found) for bound in given.bounds)
        shape = (*given.source, *self.taps)
        turned = IndexMap(shape, given.shape, found, (*self.bounds, *within))
        return turned.simplified, tuple(self.taps)

    def counted(self, size: int) -> Form:
        """Return the coordinate along a new axis of candidates."""
        self.taps.append(size)
        return coordinate(len(self.given.source) + len(self.taps) - 1)

    def solve(self, rest: Form, place: Form) -> bool:
        """Note the coordinates of which the factors add up to the rest, if that can be said."""
        terms: list[tuple[int, int]] = []
        digits: list[tuple[int, Digit]] = []
        for factor, atom in place.terms:
            if isinstance(atom, Digit):
                digits.append((factor, atom))
            elif atom in self.places:
                rest = rest - self.places[atom] * factor
            else:
                terms.append((factor, atom))
        if digits:
            return self.covers(rest, digits, terms)
        # Far windows of neighbours are found by their number, all others by the tap.
        steps = sorted(terms, reverse=True)
        if len(steps) == 2 and steps[0][0] > steps[1][0] == 1:
            self.windows(rest, *steps[0], steps[1][1])
        elif not terms:
            self.bounds.append(Bound(rest, 0, 1))
        else:
            self.pivot(rest, terms)
        return True

    def pivot(self, rest: Form, terms: list[tuple[int, int]]) -> None:
        """Note one coordinate by all others, which are tried."""
        pivot = max(terms, key=lambda term: self.given.shape[term[1]])
        for factor, axis in terms:
            if axis != pivot[1]:
                self.places[axis] = self.counted(self.given.shape[axis])
                rest = rest - self.places[axis] * factor
        self.divide(rest, *pivot)

    def covers(
        self, rest: Form, digits: list[tuple[int, Digit]], terms: list[tuple[int, int]]
    ) -> bool:
        """Note the windows over a place of those that begin at a form of their number, divided."""
        if len(digits) != 1 or len(terms) != 1 or digits[0][0] != 1 or terms[0][0] != 1:
            return False
        digit, tap = digits[0][1], terms[0][1]
        found = digit.form.terms
        if digit.modulus is not None or len(found) != 1:
            return False
        ((step, window),) = found
        if isinstance(window, Digit) or step < 1 or window in self.places:
            return False
        taps, divisor = self.given.shape[tap], digit.divisor
        # Window o begins at (step o + offset) // divisor, and not taps or more before the place.
        least = ((rest - (taps - 1)) * divisor - digit.form.offset + (step - 1)) // step
        self.places[window] = least + self.counted(-(-taps * divisor // step))
        self.places[tap] = rest - (self.places[window] * step + digit.form.offset) // divisor
        self.bounds += [
            Bound(self.places[window], 0, self.given.shape[window]),
            Bound(self.places[tap], 0, taps),
        ]
        return True

    def windows(self, rest: Form, step: int, window: int, tap: int) -> None:
        """Note the windows over a place, ``step`` apart and of neighbours, the last one first."""
        taps = self.given.shape[tap]
        back = self.counted(-(-taps // step)) if taps > step else Form()
        self.places[window] = rest // step - back
        self.places[tap] = rest % step + back * step
        self.bounds += [
            Bound(self.places[window], 0, self.given.shape[window]),
            Bound(self.places[tap], None, taps),
        ]

    def divide(self, rest: Form, factor: int, axis: int) -> None:
        """Note the coordinate that times its factor is the rest, and where there is one."""
        size = abs(factor)
        rest = rest if factor > 0 else rest * -1
        if size > 1:
            self.bounds.append(Bound(rest % size, 0, 1))
        self.places[axis] = rest // size
        self.bounds.append(Bound(self.places[axis], 0, self.given.shape[axis]))
