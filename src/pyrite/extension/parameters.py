"""The numbers among the attributes of an op, which its kernel gets when it is launched.

They stand alone, or are fields of a frozen dataclass: ``k.math.sqrt(settings.gravity)``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pyrite.op import Attributes
from pyrite.types import Number

#: The name of an attribute, and of a field of it, "" for itself.
Path = tuple[str, str]


def numbers_among(attrs: Attributes, static: frozenset[str]) -> tuple[Path, ...]:
    """Return where the numbers are that are given at launch."""
    found: list[Path] = []
    for name, value in attrs.items():
        if name in static:
            continue
        if _is_number(value):
            found.append((name, ""))
        elif is_settings(value):
            found += [(name, field) for field, v in vars_of(value).items() if _is_number(v)]
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
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def replaced(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a dataclass with other fields, which its own checks do not see."""
    made = object.__new__(type(value))
    for name, old in vars_of(value).items():
        object.__setattr__(made, name, changed.get(name, old))
    return made


def _is_number(value: Any) -> bool:
    """Whether it is given at launch: a finite number of Python, and no bool."""
    return type(value) is int or (type(value) is float and math.isfinite(value))
