"""What a row type declares: its columns, their scalar types, and which may be missing.

A row type is a dataclass or a NamedTuple whose fields are bool, int, float or str, or one of these
`| None`.  The CSV and JSON readers share this reading of it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyrite.errors import DTypeError

SCALARS: tuple[type, ...] = (bool, int, float, str)
"""The types that a field may have."""


@dataclass(frozen=True)
class Field:
    """One column of a row type."""

    name: str
    scalar: type
    is_optional: bool
    has_default: bool


def row_fields(row: type) -> tuple[Field, ...]:
    """Return the fields that row's constructor takes, in order.

    Raises DTypeError if row is not a dataclass or NamedTuple, or a field is no scalar type.

    >>> class Point(typing.NamedTuple):
    ...     x: float
    >>> row_fields(Point)[0].scalar
    <class 'float'>
    """
    hints = typing.get_type_hints(row)
    if dataclasses.is_dataclass(row):
        defaults = {
            field.name: _has_default(field) for field in dataclasses.fields(row) if field.init
        }
    elif issubclass(row, tuple) and hasattr(row, "_fields"):
        optional: Collection[str] = getattr(row, "_field_defaults", {})
        defaults = {name: name in optional for name in hints}
    else:
        raise DTypeError(f"rows require a dataclass or NamedTuple, got {row.__name__}")
    return tuple(_field(row, name, hints[name], default) for name, default in defaults.items())


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _field(row: type, name: str, hint: object, has_default: bool) -> Field:
    options = [hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = list(typing.get_args(hint))
    scalars = [option for option in options if option is not type(None)]
    if len(scalars) != 1 or scalars[0] not in SCALARS:
        raise DTypeError(
            f"rows require fields of bool, int, float or str, or one of these | None, "
            f"got {row.__name__}.{name}: {hint}"
        )
    return Field(name, scalars[0], len(scalars) < len(options), has_default)
