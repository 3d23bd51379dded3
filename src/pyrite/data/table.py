"""Table: columns by name, each an array, and the dataset of their rows.

What reads columns (CSV, Parquet, SQLite, data frames) gives a Table.  A cell that is missing is
dealt with when it is read, so a Table has none; NaN is a float like any other.

Invariant: the columns are as long as the table, and nobody changes them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pyrite.data.dataset import Dataset, checked_index, checked_positions
from pyrite.errors import ArgumentError, DataError, DTypeError, ShapeError

MissingCells = Literal["error", "nan", "drop"] | Mapping[str, Any]
"""What missing cells become: an error; NaN, in numbers; nothing, with their rows; or a value that
is given for their column."""


class Table(Dataset[dict[str, Any]]):
    """Columns of equal length by name; as a dataset, its rows as dicts.

    columns are arrays (N,), or (N, ...) where each cell is an array.  Texts are arrays of objects.

    Raises ShapeError unless all columns have the same first length.

    >>> table = Table({"x": [1.5, 2.5], "name": ["a", "b"]})
    >>> table["x"], table[1]["name"], len(table)
    (array([1.5, 2.5]), 'b', 2)
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        self._columns = {name: _array(values) for name, values in columns.items()}
        shapes = {name: column.shape for name, column in self._columns.items()}
        if not all(shapes.values()) or len({shape[0] for shape in shapes.values()}) > 1:
            raise ShapeError(f"table requires columns of equal length, got shapes {shapes}")
        self._length = next(iter(shapes.values()))[0] if shapes else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._length

    @overload
    def __getitem__(self, key: int, /) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: str, /) -> NDArray[Any]: ...
    def __getitem__(self, key: int | str, /) -> Any:
        """Return a row by its number, or a column by its name.

        Raises IndexRangeError for another row, ArgumentError for another name.
        """
        if isinstance(key, str):
            self._require([key])
            return self._columns[key]
        row = checked_index(key, len(self))
        return {name: column[row] for name, column in self._columns.items()}

    def only(self, *names: str) -> Table:
        """Return the table of these columns, in this order.  Raises ArgumentError for others."""
        self._require(names)
        return Table({name: self._columns[name] for name in names})

    def without(self, *names: str) -> Table:
        """Return the table of all other columns.  Raises ArgumentError for names that it lacks."""
        self._require(names)
        return self.only(*(name for name in self.names if name not in names))

    def rows(self, positions: ArrayLike) -> Table:
        """Return the table of the rows at these positions, or where a mask (N,) is True.

        Raises IndexRangeError for another row; ShapeError for a mask of another length; DTypeError
        for what is neither.
        """
        chosen = np.asarray(positions)
        if chosen.dtype != np.bool_:
            chosen = checked_positions(chosen, len(self), "rows")
        elif chosen.shape != (len(self),):
            raise ShapeError(f"rows requires a mask ({len(self)},), got shape {chosen.shape}")
        return Table({name: column[chosen] for name, column in self._columns.items()})

    def matrix(self, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Return all columns side by side: (N, columns), a column of arrays (N, K) as K of them.

        Raises DTypeError, with the column and a cell of it, if one is not of numbers.

        >>> Table({"x": [1, 2], "y": [0.5, 1.5]}).matrix().tolist()
        [[1.0, 0.5], [2.0, 1.5]]
        """
        foreign = [name for name, c in self._columns.items() if c.dtype.kind not in "biuf"]
        if foreign:
            cell = self._columns[foreign[0]][:1].tolist()
            raise DTypeError(
                f"matrix requires columns of numbers, got {foreign} with cells as {cell}; "
                "leave them out: table.without(...), or encode them first"
            )
        if not self._columns:
            raise ArgumentError("matrix requires at least one column, got none")
        parts = [
            column.reshape(len(self), math.prod(column.shape[1:]))
            for column in self._columns.values()
        ]
        return np.concatenate(parts, axis=1, dtype=np.dtype(dtype), casting="unsafe")

    def codes(self, name: str) -> tuple[NDArray[np.int64], list[Any]]:
        """Return a column's cells as numbers of their sorted values, and these: (N,), values.

        >>> Table({"kind": ["b", "a", "b"]}).codes("kind")
        (array([1, 0, 1]), ['a', 'b'])
        """
        values, codes = np.unique(self[name], return_inverse=True)
        return codes.astype(np.int64, copy=False), values.tolist()

    def __repr__(self) -> str:
        """Return the number of rows, and each column's name and dtype."""
        columns = ", ".join(f"{name}: {column.dtype}" for name, column in self._columns.items())
        return f"Table({len(self)} rows; {columns})"

    def _require(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self._columns]
        if unknown:
            raise ArgumentError(f"table requires names of its columns {self.names}, got {unknown}")


class Cells(NamedTuple):
    """A column as it was read: values (N, ...), and which of them (N,) are missing."""

    values: NDArray[Any]
    is_missing: NDArray[np.bool_]


def complete(columns: Mapping[str, Cells], missing: MissingCells, source: str) -> Table:
    """Return the table of columns without missing cells, which become what `missing` says.

    Raises DataError, with columns, counts and a row, for those that it does not provide for;
    ArgumentError if it is no policy, or names a column that there is not.
    """
    _check_policy(missing, columns, source)
    if missing == "drop":
        masks = [cells.is_missing for cells in columns.values()]
        kept = ~np.logical_or.reduce(masks) if masks else np.zeros(0, bool)
        return Table({name: cells.values[kept] for name, cells in columns.items()})
    values, left = {}, {}
    for name, cells in columns.items():
        filled = cells.values if not cells.is_missing.any() else _filled(name, cells, missing)
        if filled is None:
            left[name] = cells.is_missing
        else:
            values[name] = filled
    if left:
        name, mask = next(iter(left.items()))
        counts = {name: int(mask.sum()) for name, mask in left.items()}
        raise DataError(
            f"table requires no missing cells, got {counts} in {source}, the first in row "
            f"{int(mask.argmax())} of {name}; pass missing='nan' (numbers), 'drop' (rows), or "
            f"values: missing={{{name!r}: ...}}"
        )
    return Table(values)


def _filled(name: str, cells: Cells, missing: MissingCells) -> NDArray[Any] | None:
    """Return the values with missing ones replaced, None where the policy has nothing for them."""
    if isinstance(missing, Mapping):
        if name not in missing:
            return None
        values = cells.values.copy()
        try:
            values[cells.is_missing] = missing[name]
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentError(
                f"missing requires a value of {values.dtype} for {name}, got {missing[name]!r}"
            ) from error
        return values
    if missing != "nan" or cells.values.dtype.kind not in "iuf":
        return None
    kind = cells.values.dtype if cells.values.dtype.kind == "f" else np.float64
    values = cells.values.astype(kind)
    values[cells.is_missing] = np.nan
    return values


def _check_policy(missing: MissingCells, columns: Collection[str], source: str) -> None:
    if isinstance(missing, Mapping):
        unknown = [name for name in missing if name not in columns]
        if unknown:
            raise ArgumentError(
                f"missing requires names of columns, got {unknown}, of which {source} has none"
            )
    elif missing not in ("error", "nan", "drop"):
        raise ArgumentError(
            f"missing requires 'error', 'nan', 'drop' or values by column, got {missing!r}"
        )


def _array(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "U" else array
