"""Caches and sets of what is made of sizes: where a size is a symbol, nothing is kept by a hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from pyrite.errors import KernelError

V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class UnhashableSymbolError(KernelError, TypeError):
    """A symbol was put into a cache, from which it would come out for other sizes."""


def cached(maxsize: int) -> Callable[[F], F]:
    """Keep what a function returned for its last arguments, as `functools.lru_cache` does.

    With symbols of sizes (`pyrite.symbol`) among the arguments it is called each time.
    """

    def mark(function: F) -> F:
        kept = lru_cache(maxsize)(function)

        @wraps(function)
        def found(*given: Any, **named: Any) -> Any:
            try:
                return kept(*given, **named)
            except UnhashableSymbolError:
                return function(*given, **named)

        return found  # type: ignore[return-value]

    return mark


def distinct(values: Iterable[V]) -> list[V]:
    """Return values in order, of equal ones the first; symbols of sizes are compared, not hashed.

    >>> distinct([3, 1, 3])
    [3, 1]
    """
    given = list(values)
    try:
        return list(dict.fromkeys(given))
    except UnhashableSymbolError:
        found: list[V] = []
        for value in given:
            if value not in found:
                found.append(value)
        return found
