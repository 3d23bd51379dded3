"""Forms: integers made of coordinates by sums, factors, floored divisions and remainders.

A form is an offset and terms, each a factor times an atom.  An atom is the number of an axis, whose
coordinate is meant, or a `Digit`, a form divided and taken modulo, as reshapes need.  Forms are
values: equal ones compare and hash as equal, so they serve as keys of kernels.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.cached import distinct
from pyrite.types import Shape


@dataclass(frozen=True, slots=True)
class Digit:
    """``form // divisor % modulus``, both floored; without a modulus only divided."""

    form: Form
    divisor: int
    modulus: int | None = None

    def __str__(self) -> str:
        text = f"({self.form})"
        if self.divisor != 1:
            text += f" // {self.divisor}"
        return text if self.modulus is None else f"{text} % {self.modulus}"


@dataclass(frozen=True, slots=True)
class Form:
    """``offset + sum of factor * atom``.  Made by `form`, `coordinate` and operators.

    >>> i, j = coordinate(0), coordinate(1)
    >>> str(3 * i + j - 1), str((3 * i + j) // 4 % 2)
    ('3*i0 + i1 - 1', '(3*i0 + i1) // 4 % 2')
    """

    offset: int = 0
    terms: tuple[tuple[int, int | Digit], ...] = ()

    def __eq__(self, other: object) -> bool:
        # Terms first: offsets of forms of other axes may be sizes that nobody need know the same.
        if not isinstance(other, Form):
            return NotImplemented
        return self.terms == other.terms and self.offset == other.offset

    @property
    def is_affine(self) -> bool:
        """Whether it neither divides nor takes remainders."""
        return all(isinstance(atom, int) for _, atom in self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether it reads no coordinate."""
        return not self.terms

    @property
    def axes(self) -> frozenset[int]:
        """The axes whose coordinates it reads."""
        return frozenset().union(*map(_axes, (atom for _, atom in self.terms)))

    def factor(self, axis: int) -> int:
        """Return the factor of a coordinate, outside of digits."""
        return next((factor for factor, atom in self.terms if atom == axis), 0)

    def __add__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return Form(self.offset + other, self.terms) if other else self
        if not self.terms or not other.terms:
            return Form(self.offset + other.offset, self.terms or other.terms)
        return form(self.offset + other.offset, (*self.terms, *other.terms))

    def __sub__(self, other: Form | int) -> Form:
        return self + as_form(other) * -1

    def __rsub__(self, other: int) -> Form:
        return as_form(other) - self

    def __mul__(self, factor: int) -> Form:
        if factor in (0, 1):
            return self if factor else Form()
        return Form(self.offset * factor, tuple([(n * factor, atom) for n, atom in self.terms]))

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, divisor: int) -> Form:
        if divisor == 1:
            return self
        sole = self._sole
        if sole is not None and sole.modulus is None:
            return _digit(sole.form, sole.divisor * divisor)
        if sole is not None and sole.modulus is not None and sole.modulus % divisor == 0:
            return _digit(sole.form, sole.divisor * divisor, sole.modulus // divisor)
        return _digit(self, divisor)

    def __mod__(self, modulus: int) -> Form:
        sole = self._sole
        if sole is not None and (sole.modulus is None or sole.modulus % modulus == 0):
            return _digit(sole.form, sole.divisor, modulus)
        return _digit(self, 1, modulus)

    @property
    def _sole(self) -> Digit | None:
        """The digit that it is, if it is one."""
        if len(self.terms) != 1 or self.offset:
            return None
        ((factor, atom),) = self.terms
        return atom if factor == 1 and isinstance(atom, Digit) else None

    def at(self, coordinates: Sequence[Any]) -> Any:
        """Return its value at coordinates: ints, arrays, values of a kernel, or other forms."""
        found: Any = self.offset
        for factor, atom in self.terms:
            value = _atom_at(atom, coordinates)
            term = value if factor == 1 else value * factor
            found = term if isinstance(found, int) and found == 0 else found + term
        return found

    def range(self, shape: Shape) -> tuple[int, int]:
        """Return bounds, both included, of its values over the coordinates of a shape."""
        low = high = self.offset
        for factor, atom in self.terms:
            ends = [factor * end for end in _atom_range(atom, shape)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def most(self, shape: Shape) -> int:
        """Return what no number on the way to its values exceeds, over the coordinates of a shape.

        >>> ((100 * coordinate(0)) // 50).most((7,))
        600
        """
        sizes = [abs(n) * max(map(abs, _atom_range(atom, shape))) for n, atom in self.terms]
        inner = [atom.form.most(shape) for _, atom in self.terms if isinstance(atom, Digit)]
        return max(abs(self.offset) + sum(sizes), *inner, 0)

    def simplified(self, shape: Shape) -> Form:
        """Return a form with the same values over the coordinates of a shape, with fewer digits.

        What its digits divide is never negative.

        >>> i, j = coordinate(0), coordinate(1)
        >>> str(((6 * i + j) // 3).simplified((2, 6)))
        '2*i0 + (i1) // 3'
        """
        if self.is_affine:
            kept = tuple([t for t in self.terms if isinstance(t[1], int) and shape[t[1]] > 1])
            return self if len(kept) == len(self.terms) else Form(self.offset, kept)
        merged = _joined(self)
        terms = (_simple(atom, shape) * factor for factor, atom in merged.terms)
        return sum(terms, Form(merged.offset))

    def __str__(self) -> str:
        parts = [_term(factor, atom) for factor, atom in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts).replace("+ -", "- ")


def form(offset: int, terms: Iterable[tuple[int, int | Digit]]) -> Form:
    """Return the one form of a sum: equal atoms as one, coordinates before digits."""
    factors: dict[int, int] = {}
    digits: list[Digit] = []
    of_digits: list[int] = []
    for factor, atom in terms:
        if isinstance(atom, int):
            factors[atom] = factors.get(atom, 0) + factor
        elif atom in digits:
            of_digits[digits.index(atom)] += factor
        else:
            digits.append(atom)
            of_digits.append(factor)
    found: list[tuple[int, int | Digit]] = [(factors[axis], axis) for axis in sorted(factors)]
    if digits:
        last = list(zip(of_digits, digits, strict=True))
        found += sorted(last, key=lambda term: str(term[1])) if len(last) > 1 else last
    return Form(offset, tuple([term for term in found if term[0]]))


@functools.cache
def coordinate(axis: int) -> Form:
    """Return the coordinate along an axis."""
    return Form(0, ((1, axis),))


@functools.cache
def coordinates(rank: int) -> tuple[Form, ...]:
    """Return the coordinates along so many axes."""
    return tuple(map(coordinate, range(rank)))


def _digit(inner: Form, divisor: int, modulus: int | None = None) -> Form:
    return Form(0, ((1, Digit(inner, divisor, modulus)),))


def as_form(value: Form | int) -> Form:
    """Return a number as a form."""
    return value if isinstance(value, Form) else Form(value)


def number_of(forms: Sequence[Form], shape: Shape) -> Form:
    """Return the number of an element in row-major order, by its coordinates."""
    found = Form()
    for size, place in zip(shape, forms, strict=True):
        found = found * size + place if found.terms or found.offset else place
    return found


# ---- atoms ----


def _axes(atom: int | Digit) -> frozenset[int]:
    return frozenset((atom,)) if isinstance(atom, int) else atom.form.axes


def _atom_at(atom: int | Digit, coordinates: Sequence[Any]) -> Any:
    if isinstance(atom, int):
        return coordinates[atom]
    found = atom.form.at(coordinates)
    if atom.divisor != 1:
        found = found // atom.divisor
    return found if atom.modulus is None else found % atom.modulus


def _atom_range(atom: int | Digit, shape: Shape) -> tuple[int, int]:
    if isinstance(atom, int):
        return 0, max(shape[atom] - 1, 0)
    low, high = (end // atom.divisor for end in atom.form.range(shape))
    if atom.modulus is None or (0 <= low and high < atom.modulus):
        return low, high
    return 0, atom.modulus - 1


def _term(factor: int, atom: int | Digit) -> str:
    name = f"i{atom}" if isinstance(atom, int) else str(atom)
    if factor in (1, -1):
        return name if factor == 1 else f"-{name}"
    return f"{factor}*{name}" if isinstance(atom, int) else f"{factor}*({name})"


# ---- simplification ----


def _joined(given: Form) -> Form:
    """Return it with digits that continue each other as one: a (f // m) + (f % m) is f."""
    terms = list(given.terms)
    if given.is_affine:
        return given
    for (n, high), (k, low) in itertools.permutations(terms, 2):
        if isinstance(high, Digit) and isinstance(low, Digit) and _continues(n, high, k, low):
            modulus = None if high.modulus is None else high.modulus * (low.modulus or 1)
            both = (k, Digit(low.form, low.divisor, modulus))
            rest = (t for t in terms if t not in ((n, high), (k, low)))
            return _joined(form(given.offset, (*rest, both)))
    return given


def _continues(n: int, high: Digit, k: int, low: Digit) -> bool:
    if low.modulus is None or high.form != low.form:
        return False
    return high.divisor == low.divisor * low.modulus and n == k * low.modulus


def _simple(atom: int | Digit, shape: Shape) -> Form:
    """Return an atom as a form with as few digits as it takes."""
    if isinstance(atom, int):
        return coordinate(atom) if shape[atom] > 1 else Form()
    inner = atom.form.simplified(shape)
    if atom.modulus is not None:
        inner = _within(inner, atom.divisor * atom.modulus, shape)
    divided = _divided(inner, atom.divisor, shape)
    if atom.modulus is None:
        return divided
    low, high = divided.range(shape)
    if 0 <= low and high < atom.modulus:
        return divided
    return divided % atom.modulus


def _within(inner: Form, modulus: int, shape: Shape) -> Form:
    """Return it without what is a multiple of a modulus."""
    reduced = form(inner.offset % modulus, ((n % modulus, a) for n, a in inner.terms))
    # A factor of -1 reduced to modulus - 1 says the same and reads worse.
    kept = form(inner.offset % modulus, ((n, a) for n, a in inner.terms if n % modulus))
    low, high = kept.range(shape)
    if 0 <= low and high < modulus:
        return kept
    found = min(kept, reduced, key=_extent(shape))
    # A processor's remainder of what is negative is another.
    return found + modulus * max(-(found.range(shape)[0] // modulus), 0)


def _extent(shape: Shape) -> Any:
    return lambda f: f.range(shape)[1] - f.range(shape)[0]


def _divided(inner: Form, divisor: int, shape: Shape) -> Form:
    """Return a form over a divisor: what it divides comes out, what is too small goes."""
    if divisor == 1:
        return inner
    whole = form(
        inner.offset // divisor,
        ((n // divisor, a) for n, a in inner.terms if n % divisor == 0),
    )
    rest = form(inner.offset % divisor, ((n, a) for n, a in inner.terms if n % divisor))
    for step in _steps(rest, divisor):
        fine = form(rest.offset % step, ((n, a) for n, a in rest.terms if n % step))
        low, high = fine.range(shape)
        if 0 <= low and high < step:
            coarse = form(
                rest.offset // step, ((n // step, a) for n, a in rest.terms if n % step == 0)
            )
            return whole + _quotient(coarse, divisor // step, shape)
    return whole + _quotient(rest, divisor, shape)


def _steps(rest: Form, divisor: int) -> Iterator[int]:
    """Give divisors of the divisor that divide some of the factors, greatest first."""
    factors = [_gcd(n, divisor) for n, _ in rest.terms]
    common = functools.reduce(_gcd, factors, divisor)
    yield from sorted(distinct(f for f in (*factors, common) if f > 1), reverse=True)


def _gcd(x: int, y: int) -> int:
    """Return the greatest common divisor, which mostly is one of the two."""
    if y and x % y == 0:
        return abs(y)
    return abs(x) if x and y % x == 0 else math.gcd(x, y)


def _quotient(inner: Form, divisor: int, shape: Shape) -> Form:
    low, high = (end // divisor for end in inner.range(shape))
    if low == high:
        return Form(low)
    # Processors divide towards 0: down only where nothing is negative.
    before = max(-low, 0)
    return (inner + before * divisor) // divisor - before
