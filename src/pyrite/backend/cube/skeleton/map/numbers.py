"""Index maps without their numbers: what kernels of moves of all sizes have in common.

Sizes, offsets, factors, divisors and limits of a map are extents of a problem; what is left says
which coordinates make which place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.kernel.extent import extent
from pyrite.op.index import Bound, Form, IndexMap
from pyrite.op.index.form import Digit


@dataclass(frozen=True, slots=True)
class Maps:
    """Index maps in two parts: their structure, and all of their numbers in order.

    >>> from pyrite.op.index.views import sliced
    >>> maps = (sliced((3, 4), (0, 1), (3, 2), (1, 2)),)
    >>> Maps.of(maps).numbers
    (3, 2, 3, 4, 0, 1, 1, 2)
    >>> Maps.of(maps).maps == maps
    True
    """

    structure: Hashable
    numbers: tuple[int, ...] = extent()

    @classmethod
    def of(cls, maps: Sequence[IndexMap]) -> Maps:
        """Return the parts of some maps."""
        numbers: list[int] = []
        return cls(tuple([_map(index, numbers) for index in maps]), tuple(numbers))

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """The maps, with symbols for numbers where these are symbols."""
        numbers, structure = iter(self.numbers), self.structure
        assert isinstance(structure, tuple)
        return tuple([_made_map(of, numbers) for of in structure])


def _map(index: IndexMap, numbers: list[int]) -> Hashable:
    numbers += (*index.shape, *index.source)
    places = tuple([_form(place, numbers) for place in index.places])
    bounds = tuple([_bound(bound, numbers) for bound in index.bounds])
    return len(index.shape), places, bounds


def _bound(bound: Bound, numbers: list[int]) -> Hashable:
    form, limits = _form(bound.form, numbers), (bound.low, bound.high)
    numbers += [limit for limit in limits if limit is not None]
    return form, tuple([limit is not None for limit in limits])


def _form(form: Form, numbers: list[int]) -> Hashable:
    numbers.append(form.offset)
    terms: list[Hashable] = []
    for factor, atom in form.terms:
        numbers.append(factor)
        terms.append(_digit(atom, numbers) if isinstance(atom, Digit) else atom)
    return tuple(terms)


def _digit(digit: Digit, numbers: list[int]) -> Hashable:
    numbers.append(digit.divisor)
    numbers += () if digit.modulus is None else (digit.modulus,)
    return _form(digit.form, numbers), digit.modulus is not None


def _made_map(structure: Any, numbers: Iterator[int]) -> IndexMap:
    rank, places, bounds = structure
    shape, source = (tuple([next(numbers) for _ in range(n)]) for n in (rank, len(places)))
    made = tuple([_made_form(place, numbers) for place in places])
    return IndexMap(shape, source, made, tuple([_made_bound(b, numbers) for b in bounds]))


def _made_bound(structure: Any, numbers: Iterator[int]) -> Bound:
    of_form, limits = structure
    form = _made_form(of_form, numbers)
    low, high = [next(numbers) if has_limit else None for has_limit in limits]
    return Bound(form, low, high)


def _made_form(structure: Any, numbers: Iterator[int]) -> Form:
    offset = next(numbers)
    terms = tuple([(next(numbers), _made_atom(atom, numbers)) for atom in structure])
    return Form(offset, terms)


def _made_atom(structure: Any, numbers: Iterator[int]) -> int | Digit:
    if isinstance(structure, int):
        return structure
    form, has_modulus = structure
    divisor = next(numbers)
    modulus = next(numbers) if has_modulus else None
    return Digit(_made_form(form, numbers), divisor, modulus)
