"""Typed rows from CSV files.

The standard library's parser finds the cells (RFC 4180, strict: an open quote is an error); this
module gives them types and says, with the line number, which cell does not fit.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import Literal, TextIO, TypeVar

from pyrite.data.source.row import Field, row_fields
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file, reader

Row = TypeVar("Row")

Missing = Literal["error", "skip", "nan"]
"""What a missing cell does if its field is not `| None`: stop, drop the row, be a float's NaN."""

Scalar = bool | int | float | str


@reader("csv", DataError)
def read_csv(
    path: str | PathLike[str],
    row: type[Row],
    *,
    columns: Mapping[str, str] | None = None,
    header: bool = True,
    delimiter: str = ",",
    missing: Missing = "error",
    missing_values: Collection[str] = ("",),
) -> list[Row]:
    """Return the rows of a UTF-8 CSV file, each an instance of row, a dataclass or NamedTuple.

    A column belongs to the field of its name, or to the field that columns maps to it; others are
    ignored.  Without a header the columns are the fields, in order.  Cells are stripped; a cell in
    missing_values is None where the field allows it and follows `missing` where not.  Booleans are
    true, false, 1 or 0 in any case.  Blank lines are skipped.

    Raises DataError, naming file and line, if the file or a cell cannot be read; DTypeError if row
    is no row type; ArgumentError if `missing` is no policy or columns names no field.
    """
    form = _TableFormat(
        Path(path), row_fields(row), columns or {}, missing, frozenset(missing_values)
    )
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
            lines = _numbered(file, delimiter, form.path)
            titles = _titles(lines, form) if header else form.names
            return [row(**values) for values in _rows(lines, titles, form)]
    except OSError as error:
        raise DataError(f"csv requires a readable file, got {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"csv requires UTF-8 text, got {path}: {error.reason}") from error


@dataclass(frozen=True)
class _TableFormat:
    """What is read, from which file, and what a missing cell means there."""

    path: Path
    fields: tuple[Field, ...]
    columns: Mapping[str, str]
    missing: Missing
    missing_values: frozenset[str]

    def __post_init__(self) -> None:
        unknown = set(self.columns).difference(field.name for field in self.fields)
        if unknown:
            raise ArgumentError(f"columns require names of fields, got {sorted(unknown)}")
        if self.missing not in ("error", "skip", "nan"):
            raise ArgumentError(f"missing requires 'error', 'skip' or 'nan', got {self.missing!r}")

    @property
    def names(self) -> list[str]:
        """The title of each field's column."""
        return [self.columns.get(field.name, field.name) for field in self.fields]


class _SkippedRow(Exception):
    """A missing cell under the policy 'skip'."""


def _numbered(file: TextIO, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield each line that is not blank, its cells stripped, with its number, counted from 1."""
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        place = f"{path}:{reader.line_num}"
        raise DataError(f"csv requires well-formed rows, got {error} at {place}") from error


def _titles(lines: Iterator[tuple[int, list[str]]], form: _TableFormat) -> list[str]:
    """The header, which has a column for each field without a default, and no such column twice."""
    _, titles = next(lines, (0, []))
    if not titles:
        raise DataError(f"csv requires a header line, got an empty file: {form.path}")
    columns = list(zip(form.fields, form.names, strict=True))
    absent = [name for field, name in columns if name not in titles and not field.has_default]
    if absent:
        raise DataError(f"csv requires columns {absent}, got {titles} in {form.path}")
    repeated = [name for _, name in columns if titles.count(name) > 1]
    if repeated:
        raise DataError(f"csv requires columns {repeated} once, got {titles} in {form.path}")
    return titles


def _rows(
    lines: Iterator[tuple[int, list[str]]], titles: Sequence[str], form: _TableFormat
) -> Iterator[dict[str, Scalar | None]]:
    """Yield the values of each row by the name of their field."""
    columns = [
        (titles.index(name), field)
        for field, name in zip(form.fields, form.names, strict=True)
        if name in titles
    ]
    for line, cells in lines:
        place = f"{form.path}:{line}"
        if len(cells) != len(titles):
            raise DataError(f"csv requires {len(titles)} columns, got {len(cells)} at {place}")
        try:
            yield {field.name: _value(cells[at], field, form, place) for at, field in columns}
        except _SkippedRow:
            continue


def _value(cell: str, field: Field, form: _TableFormat, place: str) -> Scalar | None:
    if cell in form.missing_values:
        return _missing_value(field, form.missing, place)
    try:
        return _PARSERS[field.scalar](cell)
    except ValueError as error:
        raise DataError(
            f"csv requires {field.scalar.__name__} for {field.name}, got {cell[:80]!r} at {place}"
        ) from error


def _missing_value(field: Field, missing: Missing, place: str) -> float | None:
    if field.is_optional:
        return None
    if missing == "nan" and field.scalar is float:
        return float("nan")
    if missing == "skip":
        raise _SkippedRow
    raise DataError(
        f"csv requires a value for {field.name}, got a missing one at {place}; "
        f"declare {field.name}: {field.scalar.__name__} | None, or pass missing='skip'"
    )


def _bool(text: str) -> bool:
    word = text.lower()
    if word not in _BOOLS:
        raise ValueError(text)
    return _BOOLS[word]


_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_PARSERS: Mapping[type, Callable[[str], Scalar]] = {bool: _bool, int: int, float: float, str: str}
