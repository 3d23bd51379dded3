"""The numbers among the attributes of an op that its kernels get when they are launched.

They stand alone, or are fields of a frozen dataclass: ``k.math.sqrt(settings.gravity)``.  Nothing
is looked up by them: not the plan of a call, not its kernel, not what was recorded of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pyrite.types import Number

Attributes = Mapping[str, Any]

#: The name of an attribute, and of a field of it, "" for itself.
Path = tuple[str, str]


def numbers_among(attrs: Attributes, static: frozenset[str]) -> tuple[Path, ...]:
    """Return where the numbers are that are given at launch."""
    found: list[Path] = []
    for name, value in attrs.items():
        if name in static:
            continue
        if is_number(value):
            found.append((name, ""))
        elif is_settings(value):
            found += [(name, field) for field, v in vars_of(value).items() if is_number(v)]
    return tuple(found)


def number_at(attrs: Attributes, path: Path) -> Number:
    """Return the number at a place."""
    name, field = path
    number: Number = getattr(attrs[name], field) if field else attrs[name]
    return number


def with_numbers(attrs: Attributes, numbers: Mapping[Path, Any]) -> dict[str, Any]:
    """Return attributes with others in the places of numbers."""
    found = dict(attrs)
    fields: dict[str, dict[str, Any]] = {}
    for (name, field), number in numbers.items():
        if field:
            fields.setdefault(name, {})[field] = number
        else:
            found[name] = number
    for name, changed in fields.items():
        found[name] = replaced(attrs[name], changed)
    return found


def without_numbers(attrs: Attributes, paths: tuple[Path, ...]) -> dict[str, Any]:
    """Return what a kernel depends on of attributes: those without numbers, and the others' rest.

    A number of a dataclass is replaced by a zero of its type.
    """
    zeros = {path: type(number_at(attrs, path))(0) for path in paths if path[1]}
    left = with_numbers(attrs, zeros)
    return {name: value for name, value in left.items() if (name, "") not in paths}


def is_settings(value: Any) -> bool:
    """Whether an attribute is an instance of a frozen dataclass."""
    made = getattr(type(value), "__dataclass_params__", None)
    return made is not None and bool(made.frozen)


def vars_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _fields(kind)}


@lru_cache(maxsize=256)
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple([field.name for field in dataclasses.fields(kind)])


def replaced(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a dataclass with other fields, which its own checks do not see."""
    made = object.__new__(type(value))
    for name, old in vars_of(value).items():
        object.__setattr__(made, name, changed.get(name, old))
    return made


def is_number(value: Any) -> bool:
    """Whether it is given at launch: a finite number of Python, and no bool."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def form_without_numbers(value: Any, content: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    """Return what tells a number, or settings, from others that differ in more than numbers.

    None for what has no numbers that are given at launch.
    """
    if is_number(value):
        return (_GIVEN,)
    if not is_settings(value):
        return None
    fields = vars_of(value)
    if getattr(value, "__dict__", fields).keys() - fields.keys():
        return None  # it holds more than its fields say
    found = [(type(x), _GIVEN if is_number(x) else content(x)) for x in fields.values()]
    return tuple(found) if any(x is _GIVEN for _, x in found) else None


class _Given:
    """Stands for a number that a launch gives."""


_GIVEN: Final = _Given()


def are_same(x: Sequence[Number], y: Sequence[Number]) -> bool:
    """Whether finite numbers of the same classes are the same: 0.0 equals -0.0, and is not it."""
    return x == y and (0 not in x or repr(x) == repr(y))
