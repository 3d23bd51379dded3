"""Extents: the numbers of a problem that a kernel may get when it is launched.

A problem is a frozen record of all that a kernel depends on.  A field that is made by `extent`
holds a size or a stride, or a tuple of them; `pattern_of` takes these out, so that problems of
other sizes have equal patterns, and `with_extents` puts others in: symbols, for a kernel that
serves them all (`pyrite.kernel.symbol`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, fields, is_dataclass
from typing import Any, Final

from pyrite.kernel.symbol import LEAST, is_symbol, require_known

_KEY: Final = "extent"
#: What marks a field, as `extent` does: ``size: int = field(metadata=EXTENT)``.  It is for fields
#: before those without a default, of which type checkers know the ones that are made by `field`.
EXTENT: Final = {_KEY: True}


def extent(**given: Any) -> Any:
    """Return a field of a dataclass that holds a size or a stride, or a tuple of them."""
    return field(metadata=EXTENT, **given)


class _Some:
    """What stands in a pattern for an extent of two or more."""

    def __repr__(self) -> str:
        return "n"


SOME: Final = _Some()


def pattern_of(problem: Any) -> tuple[Any, tuple[int, ...]]:
    """Return a key of a problem without its extents, and these in order.

    Extents below 2 stay: an axis of one element is another problem.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Copy:
    ...     width: int
    ...     strides: tuple[int, ...] = extent()
    >>> pattern_of(Copy(4, (12, 1)))[1]
    (12,)
    >>> pattern_of(Copy(4, (12, 1)))[0] == pattern_of(Copy(4, (20, 1)))[0]
    True
    """
    found: list[int] = []

    def leave(value: int) -> Any:
        found.append(value)
        return SOME

    return _mapped(problem, leave, _keyed), tuple(found)


def with_extents(problem: Any, extents: Iterator[Any]) -> Any:
    """Return a problem with others in place of its extents, in the order of `pattern_of`."""
    return _mapped(problem, lambda _: next(extents), _rebuilt)


def with_known(problem: Any) -> Any:
    """Return a problem of symbols with its extents built in: the kernel is for these alone."""
    return _mapped(problem, require_known, _rebuilt)


Change = Callable[[int], Any]
Make = Callable[[Any, tuple[str, ...], list[Any]], Any]


def _mapped(value: Any, change: Change, make: Make) -> Any:
    if type(value) is tuple:
        return tuple([_mapped(x, change, make) for x in value])
    names = _fields_of(type(value))
    if not names:
        return value
    parts = [
        _changed(getattr(value, name), change)
        if is_extent
        else _mapped(getattr(value, name), change, make)
        for name, is_extent in names
    ]
    return make(value, tuple([name for name, _ in names]), parts)


def _changed(value: Any, change: Change) -> Any:
    if type(value) is tuple:
        return tuple([_changed(x, change) for x in value])
    is_some = is_symbol(value) or (type(value) is int and value >= LEAST)
    return change(value) if is_some else value


_FIELDS: Final[dict[type, tuple[tuple[str, bool], ...]]] = {}


def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a record that is a value, and which hold extents."""
    found = _FIELDS.get(kind)
    if found is None:
        found = ()  # of those that are equal to themselves alone, as dtypes, nothing is exchanged
        if is_dataclass(kind) and kind.__hash__ is not object.__hash__:
            found = tuple((f.name, _KEY in f.metadata) for f in fields(kind) if f.init)
        _FIELDS[kind] = found
    return found


def _keyed(value: Any, names: tuple[str, ...], parts: list[Any]) -> Any:
    return (type(value), *parts)


def _rebuilt(value: Any, names: tuple[str, ...], parts: list[Any]) -> Any:
    return type(value)(**dict(zip(names, parts, strict=True)))
