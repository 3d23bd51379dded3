"""Tables from SQLite databases, by the standard library; nothing is ever written to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.data.table import Cells, MissingCells, Table, complete
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file, reader


@reader("sqlite", DataError)
def read_sqlite(
    path: str | PathLike[str],
    query: str,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    *,
    missing: MissingCells = "error",
) -> Table:
    """Return what a SELECT gives, as columns: int64, float64, text or bytes, as their cells are.

    parameters stand for the ? or :name in the query.  missing is as for `read_csv_table`: "error",
    "nan", "drop", or values by column.

    Raises DataError, naming the file, if it is no SQLite database, the query cannot be run or would
    write, two columns have one name, a column has cells of several types, or cells are missing.
    """
    try:
        open_file(path).close()
        location = Path(path).absolute().as_uri() + "?mode=ro"
        with closing(sqlite3.connect(location, uri=True)) as connection:
            cursor = connection.execute(query, parameters)
            if cursor.description is None:
                raise ArgumentError(f"sqlite requires a query that gives rows, got {query!r}")
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except OSError as error:
        raise DataError(f"sqlite requires a readable file, got {path}: {error.strerror}") from error
    except (sqlite3.Error, OverflowError) as error:
        raise DataError(f"sqlite requires a query of {path} that runs, got {error}") from error
    if len(set(names)) < len(names):
        raise DataError(f"sqlite requires every column once, got {names}; name them: AS ...")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    cells = {name: _cells(name, values, path) for name, values in zip(names, columns, strict=True)}
    return complete(cells, missing, str(path))


def _cells(name: str, values: Sequence[Any], path: str | PathLike[str]) -> Cells:
    is_missing = np.fromiter((value is None for value in values), bool, len(values))
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        kind = np.int64 if kinds == {int} else np.float64
        numbers = [0 if value is None else value for value in values]
        return Cells(np.array(numbers, kind), is_missing)
    if len(kinds) == 1:
        objects: NDArray[Any] = np.empty(len(values), object)
        objects[:] = values
        return Cells(objects, is_missing)
    found = sorted(kind.__name__ for kind in kinds)
    raise DataError(f"sqlite requires cells of one type, got {found} for {name} in {path}")
