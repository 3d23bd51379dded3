"""Choices that many sizes share, as configs are: of sizes that are not known, one question each.

What leads to a choice compares sizes by the dozen, and each comparison would be a guard.  So the
guard is the choice: the function that chose is called with other sizes, and is to choose the same.
Numbers in what it chose that are made of sizes, or vary (`pyrite.kernel.extent`), may be others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, wraps
from typing import Any, Final, Generic, Protocol, TypeVar

from pyrite.cached import UnhashableSymbolError
from pyrite.kernel.extent import (
    SOME,
    all_extents,
    pattern_of,
    remaking,
    vary,
    with_extents,
    with_known_parts,
)
from pyrite.recent import Recent
from pyrite.sized import SizeSymbols, has_symbol, size_of
from pyrite.symbol import LEAST, numbers_of
from pyrite.types import Number

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: How many sizes of one kind of problem a choice is kept for.
_SIZES: Final = 64


class Finder(Protocol):
    """Finds on disk what another process chose: see `pyrite.backend.cube.kept`."""

    def __call__(self, name: str, arguments: tuple[Any, ...], choose: Callable[[], T], /) -> T:
        """Return what a function of that name chose for arguments, or what is chosen now."""
        ...


#: What finds choices that are kept; none where each is made.
FINDERS: Final[list[Finder]] = []


def kept(function: F) -> F:
    """Have what a function chooses kept on disk: it takes longer than to read a file.

    It depends on its arguments alone, and gives numbers, strings, None, or tuples and records of
    such.
    """
    name = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def found(*given: Any) -> Any:
        if not FINDERS:
            return function(*given)
        return FINDERS[-1](name, given, lambda: function(*given))

    return found  # type: ignore[return-value]


def chosen(maxsize: int) -> Callable[[F], F]:
    """Keep what a function chose for its last arguments, of which the first is a problem.

    With symbols of sizes among the extents of the problem the choice is one question.  It depends
    on the arguments alone; others are known.

    >>> from dataclasses import dataclass
    >>> from pyrite.kernel.extent import extent
    >>> @dataclass(frozen=True)
    ... class Rows:
    ...     count: int = extent()
    >>> @chosen(16)
    ... def blocks(rows, most):
    ...     return "one" if rows.count <= most else "many"
    >>> symbols = SizeSymbols()
    >>> blocks(Rows(symbols.size(30)), 100)
    'one'
    >>> found = symbols.program([7])
    >>> found(50), found(300)
    ((7,), None)
    """

    def mark(function: F) -> F:
        latest = lru_cache(maxsize)(function)
        choices: Recent[Hashable, _Choice[Any]] = Recent(maxsize)

        @wraps(function)
        def found(problem: Any, *given: Any, **named: Any) -> Any:
            try:
                return latest(problem, *given, **named)
            except UnhashableSymbolError:
                known = with_known_parts(problem)
            like, extents = all_extents(known)
            if not has_symbol(extents):
                return latest(known, *given, **named)
            key = (like, given, *named.items())
            choice = choices.get(key)
            if choice is None:
                choice = _Choice(lambda of: latest(of, *given, **named), known)
                choices.put(key, choice)
            return choice.asked(extents)

        return found  # type: ignore[return-value]

    return mark


class _Choice(Generic[T]):
    """What a function chooses for problems that differ in their extents alone."""

    def __init__(self, function: Callable[[Any], T], problem: Any) -> None:
        remade = remaking(problem)

        def of(*sizes: int) -> tuple[T, Any, tuple[int, ...], tuple[Number, ...]]:
            found = function(remade(sizes))
            varied: list[Number] = []

            def taken(number: Number) -> Any:
                varied.append(number)
                return SOME

            return found, *pattern_of(vary(found, taken)), tuple(varied)

        #: From the extents to what is chosen, its pattern, its own extents, and what varies.
        self._of = lru_cache(_SIZES)(of)

    def asked(self, extents: Sequence[Any]) -> T:
        """Return the choice, by a question to the symbols among the extents."""
        symbols = _symbols_of(extents)
        symbols.answer(self._pattern, extents)
        found, _, own, varied = self._of(*numbers_of(extents))
        if varied:
            numbers = iter(
                [symbols.computed(self._number, (i, *extents), None) for i in range(len(varied))]
            )
            found = vary(found, lambda _: next(numbers))
        if own:
            made = [symbols.computed(self._extent, (i, *extents), LEAST) for i in range(len(own))]
            found = with_extents(found, iter(made))
        return found

    def _pattern(self, *sizes: int) -> Any:
        return self._of(*sizes)[1]

    def _extent(self, i: int, *sizes: int) -> int:
        return self._of(*sizes)[2][i]

    def _number(self, i: int, *sizes: int) -> Number:
        return self._of(*sizes)[3][i]


def _symbols_of(extents: Sequence[Any]) -> SizeSymbols:
    symbol = next(found for x in extents if (found := size_of(x)) is not None)
    return symbol.symbols
