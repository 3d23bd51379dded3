"""Extents: the numbers of a problem that a kernel may get when it is launched.

A problem is a frozen record of all that a kernel depends on.  A field that is made by `extent`
holds a size or a stride, or a tuple of them; `pattern_of` takes these out, so that problems of
other sizes have equal patterns, and `with_extents` puts others in: symbols, for a kernel that
serves them all (`pyrite.symbol`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import count
from operator import attrgetter
from typing import Any, Final, Literal

from pyrite.content import ContentKey, content_of
from pyrite.sized import is_size
from pyrite.symbol import LEAST, is_symbol, require_known
from pyrite.types import DType

_KEY: Final = "extent"
#: What marks a field, as `extent` does: ``size: int = field(metadata=EXTENT)``.  It is for fields
#: before those without a default, of which type checkers know the ones that are made by `field`.
EXTENT: Final = {_KEY: True}


def extent(**given: Any) -> Any:
    """Return a field of a dataclass that holds a size or a stride, or a tuple of them."""
    return field(metadata=EXTENT, **given)


#: What marks a field, as `varying` does: for those before one without a default.
VARYING: Final = {"varying": True}


def varying(**given: Any) -> Any:
    """Return a field of a config whose number may differ from size to size of one class.

    A kernel has it built in: what serves many sizes looks kernels up by it (`pattern_in_places`).
    It is for numbers of which little is asked before that; each answer is a class of sizes.
    """
    return field(metadata=VARYING, **given)


#: A field holds extents, or a part of a problem, which may vary, or it is not compared: no key has
#: that.
Kind = Literal["extent", "part", "varying", "not compared"]
Fields = tuple[tuple[str, Kind], ...]


class _Some:
    """What stands in a pattern for an extent of two or more."""

    def written_content(self) -> str:
        """Return what stands for it in a digest: there is one."""
        return "n"

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
    return _pattern(problem, found, LEAST), tuple(found)


@dataclass(frozen=True, slots=True)
class Place:
    """What stands in a pattern for a number that varies: which of them it is."""

    number: int


def pattern_in_places(problem: Any) -> tuple[Any, tuple[Any, ...], tuple[int, ...]]:
    """Return what `pattern_of` does with places for symbols that vary, and these before extents."""
    found: list[int] = []
    varied: list[Any] = []
    return _pattern(problem, found, LEAST, varied), tuple(varied), tuple(found)


def filled(pattern: Any, numbers: Sequence[Any]) -> Any:
    """Return a pattern with numbers in its places.

    >>> filled(("lanes", Place(0), (Place(1), 8)), (4, 2))
    ('lanes', 4, (2, 8))
    """
    if type(pattern) is tuple:
        return tuple([filled(x, numbers) for x in pattern])
    return content_of(numbers[pattern.number]) if type(pattern) is Place else pattern


def vary(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a record with what a change gives in place of its fields that vary, in order.

    Those of records in it too; what has none is left as it is.
    """
    changed = {}
    for name, kind in _fields_of(value.__class__):
        part = getattr(value, name)
        other = (
            change(part) if kind == "varying" else vary(part, change) if kind == "part" else part
        )
        if other is not part:
            changed[name] = other
    return replace(value, **changed) if changed else value


def with_extents(problem: Any, extents: Iterator[Any]) -> Any:
    """Return a problem with others in place of its extents, in the order of `pattern_of`."""
    return _mapped(problem, lambda _: next(extents))


def all_extents(problem: Any) -> tuple[Any, tuple[int, ...]]:
    """Return what `pattern_of` does, with extents below 2 taken out too."""
    found: list[int] = []
    return _pattern(problem, found, 0), tuple(found)


def with_all_extents(problem: Any, extents: Iterator[int]) -> Any:
    """Return a problem with others in place of its extents, in the order of `all_extents`."""
    return _mapped(problem, lambda _: next(extents), least=0)


def remaking(problem: Any) -> Callable[[Sequence[int]], Any]:
    """Return what `with_all_extents` does with this problem, for who asks it again and again.

    It takes a third of the time.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Copy:
    ...     width: int
    ...     strides: tuple[int, ...] = extent()
    >>> remaking(Copy(4, (12, 1)))((20, 3))
    Copy(width=4, strides=(20, 3))
    """
    parts: list[Any] = []
    text = _written(problem, parts, count())
    # The text is made of names of fields and places in tuples alone.
    found = {"__builtins__": {}, **{f"p{n}": part for n, part in enumerate(parts)}}
    return eval(f"lambda n: {text}", found)  # type: ignore[no-any-return]


def _written(value: Any, parts: list[Any], places: Iterator[int]) -> str:
    """Return an expression of a value by ``parts`` that stay, and extents at places in ``n``."""
    if type(value) is tuple:
        return f"({''.join(f'{_written(x, parts, places)},' for x in value)})"
    given = {
        name: _written_extent(part, parts, places) if kind == "extent"
        else _written(part, parts, places) if kind == "part" else _kept(part, parts)
        for name, kind in _fields_of(value.__class__)
        for part in [getattr(value, name)]
    }  # fmt: skip
    if not given:
        return _kept(value, parts)
    return f"{_kept(type(value), parts)}({','.join(f'{name}={x}' for name, x in given.items())})"


def _written_extent(value: Any, parts: list[Any], places: Iterator[int]) -> str:
    if type(value) is tuple:
        return f"({''.join(f'{_written_extent(x, parts, places)},' for x in value)})"
    return f"n[{next(places)}]" if _is_extent(value, 0) else _kept(value, parts)


def _kept(part: Any, parts: list[Any]) -> str:
    parts.append(part)
    return f"p{len(parts) - 1}"


def with_known(problem: Any) -> Any:
    """Return a problem of symbols with its extents built in: the kernel is for these alone."""
    return _mapped(problem, require_known)


def with_known_parts(value: Any) -> Any:
    """Return a problem with no symbol but its extents: those elsewhere are built in."""
    if type(value) is tuple:
        return tuple([with_known_parts(x) for x in value])
    if is_size(value):
        return require_known(value)
    parts = {
        name: part if kind == "extent" else with_known_parts(part)
        for name, kind in _fields_of(value.__class__)
        for part in [getattr(value, name)]
    }
    return type(value)(**parts) if parts else value


# ---- patterns ----


def _pattern(value: Any, found: list[int], least: int, varied: list[Any] | None = None) -> Hashable:
    """Return the key of a problem without the extents from the least on, which are found.

    Without symbols that vary too, if what is ``varied`` is wanted.  A kernel is looked up by it at
    every new size, and most of a problem is plain.
    """
    kind: type = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]
    if kind is tuple:
        return tuple([
            x if type(x) in _PLAIN else _pattern(x, found, least, varied) for x in value
        ])  # fmt: skip
    if is_size(value):
        return require_known(value)
    if not _fields_of(kind):
        return content_of(value)
    kinds, values = _compared(kind)
    parts: list[Any] = [kind]
    for of, part in zip(kinds, values(value), strict=True):
        if of == "extent":
            part = _left(part, found, least)
        elif type(part) not in _PLAIN:
            if of == "varying" and varied is not None and is_size(part):
                varied.append(part)
                part = Place(len(varied) - 1)
            else:
                part = _pattern(part, found, least, varied)
        parts.append(part)
    return tuple(parts)


def _left(value: Any, found: list[int], least: int) -> Any:
    """Return what a pattern has in place of an extent, or of several."""
    if value.__class__ is tuple:
        return tuple([_left(x, found, least) for x in value])
    if is_size(value):
        if least and value < least:
            return require_known(value)
        found.append(value)
        return SOME
    if is_symbol(value) or (value.__class__ is int and value >= least):
        found.append(value)
        return SOME
    return value


@cache
def _compared(kind: type) -> tuple[tuple[Kind, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return what the fields of a record hold that a key has, and what gives their values."""
    kept = [(name, of) for name, of in _fields_of(kind) if of != "not compared"]
    names, kinds = [name for name, _ in kept], tuple([of for _, of in kept])
    if len(names) > 1:
        return kinds, attrgetter(*names)
    return kinds, lambda value: tuple([getattr(value, name) for name in names])


# ---- other extents ----


Change = Callable[[int], Any]


def _mapped(value: Any, change: Change, least: int = LEAST) -> Any:
    """Return a problem with what a change gives in place of its extents, in order."""
    if type(value) is tuple:
        return tuple([_mapped(x, change, least) for x in value])
    parts = {}
    for name, kind in _fields_of(value.__class__):
        part = getattr(value, name)
        if kind == "extent":
            part = _changed(part, change, least)
        elif kind == "part":
            part = _mapped(part, change, least)
        parts[name] = part
    return type(value)(**parts) if parts else value


def _changed(value: Any, change: Change, least: int) -> Any:
    if type(value) is tuple:
        return tuple([_changed(x, change, least) for x in value])
    return change(value) if _is_extent(value, least) else value


def _is_extent(value: Any, least: int) -> bool:
    return is_symbol(value) or (type(value) is int and value >= least)


@cache
def _fields_of(kind: type) -> Fields:
    """Return the fields of a record that is a value, and what they hold."""
    if not is_dataclass(kind) or kind.__hash__ is object.__hash__:
        return ()  # of those that are equal to themselves alone, as dtypes, nothing is exchanged
    return tuple([(f.name, _kind_of(f)) for f in fields(kind) if f.init])


def _kind_of(field: Field[Any]) -> Kind:
    if not field.compare:
        return "not compared"
    if "varying" in field.metadata:
        return "varying"
    return "extent" if _KEY in field.metadata else "part"


#: What is its own content: equal ones are the same.
_PLAIN: Final = frozenset({str, int, type(None), DType, ContentKey})
