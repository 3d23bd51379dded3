"""Formulas: how an integer of a model follows from sizes that the graph can measure.

A formula is floor((a u + b v + c) / q) of products u and v of sizes.  It is found from the values
at some traces and holds at all: those that it was not found from judge it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import lcm, prod

#: Divisors that are tried where nothing simpler fits: strides and scale factors, multiplied.
MOST_DIVISOR = 64


@dataclass(frozen=True, slots=True)
class Monomial:
    """A whole number of a product of sizes, which are given by their positions."""

    factor: int
    sizes: tuple[int, ...]

    def at(self, sizes: Sequence[int]) -> int:
        """Return its value for sizes."""
        return self.factor * prod(sizes[i] for i in self.sizes)


@dataclass(frozen=True, slots=True)
class Formula:
    """The floor of (the terms + offset) / divisor."""

    terms: tuple[Monomial, ...]
    offset: int = 0
    divisor: int = 1

    def at(self, sizes: Sequence[int]) -> int:
        """Return its value for sizes."""
        return (sum(term.at(sizes) for term in self.terms) + self.offset) // self.divisor


def formula_of(
    values: Sequence[int], sizes: Sequence[Sequence[int]], fitted: int
) -> Formula | None:
    """Return the simplest formula that gives the values from the sizes; None where there is none.

    values: the integer at each trace; sizes: at each trace those that can be measured.
    It is found from the first ``fitted`` traces, and must be right at the others too.
    """
    seen, known = values[:fitted], sizes[:fitted]
    for formula in _candidates(seen, known):
        if all(formula.at(row) == value for value, row in zip(values, sizes, strict=True)):
            return formula
    return None


def _candidates(values: Sequence[int], sizes: Sequence[Sequence[int]]) -> Iterator[Formula]:
    """Give formulas that are right at these traces, simple ones first."""
    columns = range(len(sizes[0]))
    for count in (1, 2, 3):
        for chosen in combinations_with_replacement(columns, count):
            yield from _linear(values, sizes, (chosen,))
    for pair in combinations(columns, 2):
        yield from _linear(values, sizes, ((pair[0],), (pair[1],)))
    for column in columns:
        yield from _floors(values, [row[column] for row in sizes], column)


def _linear(
    values: Sequence[int], sizes: Sequence[Sequence[int]], products: Sequence[tuple[int, ...]]
) -> Iterator[Formula]:
    """Give the formula that is linear in some products of sizes, if there is one."""
    rows = [[*(prod(row[i] for i in p) for p in products), 1] for row in sizes]
    solution = _solved(rows, values)
    if solution is None or not all(solution[:-1]):
        return
    divisor = lcm(*(x.denominator for x in solution))
    whole = [int(x * divisor) for x in solution]
    terms = tuple(Monomial(factor, p) for factor, p in zip(whole, products, strict=False))
    yield Formula(terms, whole[-1], divisor)


def _solved(rows: Sequence[Sequence[int]], values: Sequence[int]) -> list[Fraction] | None:
    """Return the one x for which rows @ x == values; None where there is none, or several."""
    table = [[Fraction(x) for x in (*row, v)] for row, v in zip(rows, values, strict=True)]
    unknowns = len(rows[0])
    for column in range(unknowns):
        pivot = next((i for i in range(column, len(table)) if table[i][column]), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        lead = table[column] = [x / table[column][column] for x in table[column]]
        for i, row in enumerate(table):
            if i != column and row[column]:
                table[i] = [x - row[column] * y for x, y in zip(row, lead, strict=True)]
    if any(row[-1] for row in table[unknowns:]):
        return None
    return [row[-1] for row in table[:unknowns]]


def _floors(values: Sequence[int], sizes: Sequence[int], column: int) -> Iterator[Formula]:
    """Give the formulas floor((size + offset) / divisor), small offsets first."""
    for divisor in range(2, MOST_DIVISOR + 1):
        low = max(v * divisor - s for v, s in zip(values, sizes, strict=True))
        high = min(v * divisor + divisor - 1 - s for v, s in zip(values, sizes, strict=True))
        for offset in sorted(range(low, high + 1), key=lambda n: (abs(n), n)):
            yield Formula((Monomial(1, (column,)),), offset, divisor)
