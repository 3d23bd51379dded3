"""Tables from CSV and Parquet files and from data frames.  Needs pyarrow, the extra [data].

pyarrow reads the files; data frames of any library (pandas, polars, DuckDB, pyarrow) come through
the Arrow C stream.  Here their columns become arrays of NumPy, and what is wrong one error.

Invariant: a file that cannot be read whole is a DataError naming it, never a part of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from pyrite.data.table import Cells, MissingCells, Table, complete
from pyrite.errors import ArgumentError, DataError, DTypeError
from pyrite.opening import open_file, reader

_LARGEST_BLOCK = 2**31 - 1

_TYPES: dict[type, Any] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(),
}  # fmt: skip


@reader("csv", DataError)
def read_csv_table(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    types: Mapping[str, type] | None = None,
    missing: MissingCells = "error",
    missing_values: Collection[str] = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"),
    header: Sequence[str] | None = None,
    delimiter: str = ",",
) -> Table:
    """Return the columns of a UTF-8 CSV file: those named, or all, in the order of the file.

    A column is int64, float64, bool, datetime64 or text, whichever its cells all are; types says it
    for a column (bool, int, float or str).  header gives the names where the first line has none.
    Cells in missing_values are missing, and become what `missing` says: "error", "nan" (in numbers,
    as floats), "drop" (their rows), or values by column.

    Raises DataError, naming file and row, if rows differ in length, a cell is not of its type, a
    column is not there or there twice, or a cell is missing; ArgumentError for a policy or type
    that there is not.
    """
    unknown = {name: t for name, t in (types or {}).items() if t not in _TYPES}
    if unknown or len(delimiter) != 1:
        raise ArgumentError(
            f"csv requires types bool, int, float or str and a delimiter of one character, "
            f"got {unknown} and {delimiter!r}"
        )

    def read(*, in_one_block: bool) -> Any:
        with open_file(path) as file:
            size = _require_closed_quotes(file)
            # One block for all: 0 is the reader's own size, a megabyte.
            block_size = min(size, _LARGEST_BLOCK) if in_one_block else 0
            return pyarrow.csv.read_csv(
                file,
                pyarrow.csv.ReadOptions(
                    use_threads=not in_one_block,
                    column_names=header,
                    block_size=block_size or None,
                ),
                pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    column_types={name: _TYPES[t] for name, t in (types or {}).items()},
                    null_values=list(missing_values),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )

    def read_again() -> Any:
        try:
            return read(in_one_block=False)
        except pa.ArrowInvalid:
            # A row may be longer than a block; and threads do not count rows, which errors name.
            return read(in_one_block=True)

    table = _read("csv", path, read_again)
    _require_once(table.column_names, f"csv {path}")
    foreign = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if foreign:
        raise DataError(f"csv requires UTF-8 text, got other bytes in columns {foreign} of {path}")
    _require_columns("types", list(types or {}), table.column_names, path)
    return _complete("csv", table, columns, missing, path)


@reader("parquet", DataError)
def read_parquet(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    missing: MissingCells = "error",
) -> Table:
    """Return the columns of a Parquet file: those named, in that order, or all; others stay unread.

    Lists of equal lengths become arrays (N, K), others an array of N arrays.  missing is as for
    `read_csv_table`.

    Raises DataError, naming the file, if it is no whole Parquet file, a column is not there, is of
    a type that no array has, or has missing cells.
    """

    def read() -> Any:
        with open_file(path) as file, pyarrow.parquet.ParquetFile(file) as parquet:
            _require_columns("columns", columns or [], parquet.schema_arrow.names, path)
            return parquet.read(columns=list(columns) if columns is not None else None)

    return _complete("parquet", _read("parquet", path, read), columns, missing, path)


def table_of(
    frame: Any, *, columns: Sequence[str] | None = None, missing: MissingCells = "error"
) -> Table:
    """Return the columns of a data frame of pandas, polars, pyarrow, DuckDB, or any other library.

    It is read through the Arrow C stream (`__arrow_c_stream__`); an index of pandas is left out.

    Raises DTypeError if it has none, or a column holds several types; DataError if columns are not
    there, are of a type that no array has, or have missing cells.
    """
    if not hasattr(frame, "__arrow_c_stream__"):
        raise DTypeError(
            "table_of requires a data frame with an Arrow C stream (pandas, polars, pyarrow, "
            f"DuckDB), got {type(frame).__name__}; Table({{name: array}}) takes arrays"
        )
    try:
        table = pa.table(frame)
    except pa.ArrowException as error:
        raise DTypeError(f"table_of requires columns of one type each, got {error}") from error
    _require_once(table.column_names, "the data frame")
    return _complete("table_of", table, columns, missing, type(frame).__name__)


def _read(name: str, path: str | PathLike[str], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except pa.ArrowMemoryError as error:
        raise MemoryError(str(error)) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name} requires a readable file, got {path}: {reason}") from error


def _require_closed_quotes(file: BinaryIO) -> int:
    """Return the file's size in bytes, from its beginning on.

    Raises OSError for a quote that is never closed, after which Arrow takes all for one cell.
    """
    is_open, size = False, 0
    while piece := file.read(1 << 20):
        is_open ^= piece.count(b'"') % 2 == 1
        size += len(piece)
    if is_open:
        raise OSError("a quote is opened and never closed; is the file truncated?")
    file.seek(0)
    return size


def _complete(
    name: str,
    table: Any,
    columns: Sequence[str] | None,
    missing: MissingCells,
    source: str | PathLike[str],
) -> Table:
    _require_columns("columns", columns or [], table.column_names, source)
    cells = {}
    for column in columns if columns is not None else table.column_names:
        try:
            cells[column] = _cells(table.column(column))
        except (pa.ArrowException, DTypeError) as error:
            kind = table.column(column).type
            raise DataError(
                f"{name} requires columns of numbers, texts, times or lists of numbers, got {kind} "
                f"for {column} in {source}; leave it out: columns=[...]"
            ) from error
    return complete(cells, missing, str(source))


def _cells(column: Any) -> Cells:
    """Return a chunked array of Arrow as values and what is missing."""
    is_missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = _decoded(column)
        kind = column.type
    if pa.types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Cells(_lists(column, kind), is_missing)
    if pa.types.is_null(kind):
        return Cells(np.full(len(column), np.nan), is_missing)
    default = _default(kind)
    if default is not None and is_missing.any():
        column = column.fill_null(default)
    return Cells(column.to_numpy(zero_copy_only=False), is_missing)


def _decoded(column: Any) -> Any:
    """Return the values of a column of codes and a dictionary of values."""
    if not pa.types.is_string_view(column.type.value_type):
        return column.cast(column.type.value_type)
    # polars' categories; Arrow cannot look up views by codes.
    parts = [part.dictionary.cast(pa.string()).take(part.indices) for part in column.chunks]
    return pa.chunked_array(parts, pa.string())


def _default(kind: Any) -> Any:
    """Return what stands for a missing cell until it is dealt with, None where NumPy has its own.

    Raises DTypeError for a type that has no array.
    """
    types = pa.types
    if types.is_boolean(kind):
        return False
    if types.is_integer(kind):
        return 0
    if (
        types.is_floating(kind) or types.is_temporal(kind) or _is_text(kind)
        or types.is_binary(kind) or types.is_large_binary(kind)
    ):  # fmt: skip
        return None
    raise DTypeError(f"a column requires a type that an array has, got {kind}")


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _lists(column: Any, kind: Any) -> NDArray[Any]:
    """Return lists of numbers as (N, K), or as N arrays in an array of objects."""
    _default(kind.value_type)
    lists = [
        np.empty(0) if cell is None else np.asarray(cell.values.to_numpy(zero_copy_only=False))
        for cell in (c if c.is_valid else None for c in column)
    ]
    if len({cell.shape for cell in lists}) == 1:
        return np.stack(lists)
    array = np.empty(len(lists), object)
    array[:] = lists
    return array


def _require_columns(
    what: str, names: Collection[str], there: Sequence[str], source: str | PathLike[str]
) -> None:
    absent = [name for name in names if name not in there]
    if absent:
        raise DataError(f"{what} require names of columns, got {absent}; {source} has {there}")


def _require_once(names: Sequence[str], source: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"table requires every column once, got {twice} more often in {source}")
