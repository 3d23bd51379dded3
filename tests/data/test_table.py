"""A table's columns and rows, what becomes of missing cells, and arrays as a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.data import ArrayDataset, DataLoader, Table
from pyrite.data.table import Cells, complete
from pyrite.errors import ArgumentError, DataError, DTypeError, IndexRangeError, ShapeError

TABLE = Table(
    {"x": [1.5, 2.5, 3.5], "n": np.array([3, 2, 1]), "name": ["a", "b", "a"], "v": np.eye(3)}
)


def cells(*values: Any) -> Cells:
    is_missing = np.array([value is None for value in values])
    kind = object if any(isinstance(value, str) for value in values) else None
    return Cells(np.array([0 if v is None else v for v in values], kind), is_missing)


def test_columns_rows_and_selections() -> None:
    assert TABLE.names == ("x", "n", "name", "v")
    assert TABLE[-1]["x"] == 3.5
    assert TABLE[0]["name"] == "a"
    assert TABLE.only("n", "x").names == ("n", "x")
    assert TABLE.without("name").matrix(np.float64).tolist()[1] == [2.5, 2.0, 0.0, 1.0, 0.0]
    assert TABLE.only("x").matrix().dtype == np.float32
    assert TABLE.rows(TABLE["n"] > 1)["x"].tolist() == [1.5, 2.5]
    assert TABLE.rows([2, 0])["n"].tolist() == [1, 3]
    codes, values = TABLE.codes("name")
    assert codes.tolist() == [0, 1, 0]
    assert values == ["a", "b"]
    assert repr(TABLE.only("x", "name")) == "Table(3 rows; x: float64, name: object)"
    assert len(Table({})) == 0


def test_a_table_is_a_dataset_of_its_rows() -> None:
    (batch,) = DataLoader(TABLE, 3, tensors=False)
    assert batch["x"].tolist() == [1.5, 2.5, 3.5]
    assert batch["name"] == ["a", "b", "a"]
    assert batch["v"].shape == (3, 3)


def test_an_array_dataset_has_the_rows_of_its_arrays() -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3)
    dataset = ArrayDataset(x, y)
    assert len(dataset) == 3
    assert np.shares_memory(dataset[-1][0], x)
    assert dataset[-1][1] == 2
    with pytest.raises(ShapeError, match=r"equal length, got shapes \[\(3, 2\), \(2,\)\]"):
        ArrayDataset(x, y[:2])
    with pytest.raises(ArgumentError, match="at least one"):
        ArrayDataset()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TABLE["q"], ArgumentError, r"names of its columns .*got \['q'\]"),
        (lambda: TABLE[3], IndexRangeError, "got 3"),
        (lambda: TABLE.only("x", "q"), ArgumentError, r"got \['q'\]"),
        (lambda: TABLE.without("q"), ArgumentError, r"got \['q'\]"),
        (lambda: TABLE.matrix(), DTypeError, r"got \['name'\] with cells as \['a'\]; leave"),
        (lambda: Table({}).matrix(), ArgumentError, "at least one column"),
        (lambda: Table({"x": [1], "y": [1, 2]}), ShapeError, "equal length"),
        (lambda: Table({"x": 1}), ShapeError, "equal length"),
    ],
)
def test_what_is_not_there_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_missing_cells_become_what_is_said() -> None:
    columns = {"n": cells(1, None, 3), "x": cells(0.5, 1.5, None), "s": cells("a", "b", "c")}
    as_nan = complete(columns, "nan", "f")
    np.testing.assert_array_equal(as_nan["n"], [1, np.nan, 3])
    np.testing.assert_array_equal(as_nan["x"], [0.5, 1.5, np.nan])
    assert complete(columns, "drop", "f")["n"].tolist() == [1]
    given = complete(columns, {"n": -1, "x": 9}, "f")
    assert given["n"].tolist() == [1, -1, 3]
    assert given["n"].dtype == columns["n"].values.dtype
    assert given["x"].tolist() == [0.5, 1.5, 9]


@pytest.mark.parametrize(
    ("missing", "error", "message"),
    [
        ("error", DataError, r"got \{'n': 1, 's': 2\} in f, the first in row 1 of n; pass"),
        ("nan", DataError, r"got \{'s': 2\} in f, the first in row 0 of s"),
        ({"n": 1}, DataError, r"got \{'s': 2\}"),
        ({"n": "one", "s": ""}, ArgumentError, "int64 for n, got 'one'"),
        ({"q": 1}, ArgumentError, r"got \['q'\]"),
        ("skip", ArgumentError, "'error', 'nan', 'drop' or values by column, got 'skip'"),
    ],
)
def test_missing_cells_that_nothing_is_said_of_are_named(
    missing: Any, error: type[Exception], message: str
) -> None:
    columns = {"n": cells(1, None, 3), "s": cells(None, "b", None)}
    with pytest.raises(error, match=message):
        complete(columns, missing, "f")


def test_rows_that_there_are_not_are_refused() -> None:
    table = Table({"x": [1, 2, 3]})
    assert table.rows([]).names == ("x",)
    assert table.rows([-1, 0])["x"].tolist() == [3, 1]
    assert table.rows([True, False, True])["x"].tolist() == [1, 3]
    with pytest.raises(IndexRangeError, match="rows requires -3 <= index < 3, got 7"):
        table.rows([0, 7])
    with pytest.raises(ShapeError, match=r"rows requires a mask \(3,\), got shape \(2,\)"):
        table.rows([True, False])
    with pytest.raises(DTypeError, match="rows requires a list of integers, got float64"):
        table.rows([0.5])
