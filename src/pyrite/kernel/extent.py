"""Extents: the numbers of a problem that a kernel may get when it is launched.

A problem is a frozen record of all that a kernel depends on.  A field that is made by `extent`
holds a size or a stride, or a tuple of them; `pattern_of` takes these out, so that problems of
other sizes have equal patterns, and `with_extents` puts others in: symbols, for a kernel that
serves them all (`pyrite.kernel.symbol`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, Final, Literal

from pyrite.content import Known, content_of
from pyrite.kernel.symbol import LEAST, is_symbol, require_known
from pyrite.types import DType

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
    """Return a key of a problem, by content, without its extents, and these in order.

    Extents below 2 stay: an axis of one element is another problem.  Fields that are not compared
    (``field(compare=False)``) are left out: no kernel depends on them alone.

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

    return _mapped(problem, leave, _keyed, _content), tuple(found)


def with_extents(problem: Any, extents: Iterator[Any]) -> Any:
    """Return a problem with others in place of its extents, in the order of `pattern_of`."""
    return _mapped(problem, lambda _: next(extents), _rebuilt)


def all_extents(problem: Any) -> tuple[Any, tuple[int, ...]]:
    """Return what `pattern_of` does, with extents below 2 taken out too."""
    found: list[int] = []

    def leave(value: int) -> Any:
        found.append(value)
        return SOME

    return _mapped(problem, leave, _keyed, _content, least=0), tuple(found)


def with_all_extents(problem: Any, extents: Iterator[int]) -> Any:
    """Return a problem with others in place of its extents, in the order of `all_extents`."""
    return _mapped(problem, lambda _: next(extents), _rebuilt, least=0)


def with_known(problem: Any) -> Any:
    """Return a problem of symbols with its extents built in: the kernel is for these alone."""
    return _mapped(problem, require_known, _rebuilt)


Change = Callable[[int], Any]
#: A field holds extents, or a part of a problem, or it is not compared: no key has that.
Kind = Literal["extent", "part", "not compared"]
Fields = tuple[tuple[str, Kind], ...]
Make = Callable[[Any, Fields, list[Any]], Any]


def _mapped(
    value: Any, change: Change, make: Make, leaf: Callable[[Any], Any] = lambda value: value,
    least: int = LEAST,
) -> Any:  # fmt: skip
    if type(value) is tuple:
        return tuple([_mapped(x, change, make, leaf, least) for x in value])
    found = _fields_of(type(value))
    if not found:
        return leaf(value)
    parts = []
    for name, kind in found:
        part = getattr(value, name)
        if kind == "extent":
            part = _changed(part, change, least)
        elif kind == "part":
            part = _mapped(part, change, make, leaf, least)
        parts.append(part)
    return make(value, found, parts)


def _changed(value: Any, change: Change, least: int) -> Any:
    if type(value) is tuple:
        return tuple([_changed(x, change, least) for x in value])
    is_some = is_symbol(value) or (type(value) is int and value >= least)
    return change(value) if is_some else value


_FIELDS: Final[dict[type, Fields]] = {}


def _fields_of(kind: type) -> Fields:
    """Return the fields of a record that is a value, and what they hold."""
    found = _FIELDS.get(kind)
    if found is None:
        found = ()  # of those that are equal to themselves alone, as dtypes, nothing is exchanged
        if is_dataclass(kind) and kind.__hash__ is not object.__hash__:
            found = tuple((f.name, _kind_of(f)) for f in fields(kind) if f.init)
        _FIELDS[kind] = found
    return found


def _kind_of(field: Field[Any]) -> Kind:
    if not field.compare:
        return "not compared"
    return "extent" if _KEY in field.metadata else "part"


#: What is its own content: equal ones are the same.
_PLAIN: Final = frozenset({str, int, type(None), DType, Known})


def _content(value: Any) -> Hashable:
    # Most of a problem is plain, and a kernel is looked up at every new size.
    return value if value.__class__ in _PLAIN else content_of(value)


def _keyed(value: Any, of: Fields, parts: list[Any]) -> Any:
    pairs = zip(of, parts, strict=True)
    return (type(value), *[part for (_, kind), part in pairs if kind != "not compared"])


def _rebuilt(value: Any, of: Fields, parts: list[Any]) -> Any:
    return type(value)(**{name: part for (name, _), part in zip(of, parts, strict=True)})
