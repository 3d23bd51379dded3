"""Typed rows from JSON Lines files: one JSON object per line (jsonlines.org)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from pyrite.data.source.row import Field, row_fields
from pyrite.errors import DataError
from pyrite.opening import open_file, reader

Row = TypeVar("Row")


@reader("json", DataError)
def read_json_rows(path: str | PathLike[str], row: type[Row]) -> list[Row]:
    """The rows of a UTF-8 JSON Lines file, each an instance of row, a dataclass or NamedTuple.

    A key belongs to the field of its name; other keys are ignored; a key may be absent where the
    field has a default.  An integer is accepted for a float, nothing else is converted.  Blank
    lines are skipped.

    Raises DataError, naming file and line, if the file or a value cannot be read; DTypeError if row
    is no row type.
    """
    path = Path(path)
    fields = row_fields(row)
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            return [
                row(**_values(line, fields, f"{path}:{number}"))
                for number, line in enumerate(file, start=1)
                if line.strip()
            ]
    except OSError as error:
        raise DataError(f"json requires a readable file, got {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"json requires UTF-8 text, got {path}: {error.reason}") from error


def _values(line: str, fields: Sequence[Field], place: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"json requires one object per line, got {error} at {place}") from error
    if not isinstance(value, dict):
        raise DataError(f"json requires one object per line, got {type(value).__name__} at {place}")
    present = [field for field in fields if field.name in value or not field.has_default]
    return {field.name: _checked(value, field, place) for field in present}


def _checked(values: Mapping[str, Any], field: Field, place: str) -> Any:
    if field.name not in values:
        raise DataError(f"json requires key {field.name!r}, got {sorted(values)} at {place}")
    value = values[field.name]
    if value is None and field.is_optional:
        return None
    if field.scalar is float and type(value) is int:
        return _float(value, field, place)
    if type(value) is not field.scalar:
        raise DataError(
            f"json requires {field.scalar.__name__} at key {field.name!r}, "
            f"got {type(value).__name__} at {place}"
        )
    return value


def _float(value: int, field: Field, place: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise DataError(
            f"json requires a float at key {field.name!r}, got an integer beyond it at {place}"
        ) from error
