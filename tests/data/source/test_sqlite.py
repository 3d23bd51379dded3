"""Queries of SQLite become columns; nothing is written, and what is wrong is one error."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pyrite.data.source.sqlite import read_sqlite
from pyrite.errors import ArgumentError, DataError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a ? b#.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (n, x, s, b)")
        rows = [(1, 0.5, "a", b"\x01"), (2, 3, "b", b""), (None, 1.5, "c", b"\x02")]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    return path


def test_a_query_gives_columns(path: Path) -> None:
    table = read_sqlite(path, "SELECT * FROM t ORDER BY s", missing={"n": 0})
    assert table["n"].tolist() == [1, 2, 0]
    assert table["n"].dtype == np.int64
    assert table["x"].tolist() == [0.5, 3.0, 1.5]
    assert table["s"].tolist() == ["a", "b", "c"]
    assert table["b"].tolist() == [b"\x01", b"", b"\x02"]
    one = read_sqlite(path, "SELECT n, x AS y FROM t WHERE s = :s", {"s": "b"})
    assert one.names == ("n", "y")
    assert one["n"].tolist() == [2]
    assert len(read_sqlite(path, "SELECT n FROM t WHERE n > ?", [9])) == 0


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM t", DataError, r"got \{'n': 1\} in .* row 2 of n"),
        ("SELECT q FROM t", DataError, "that runs, got no such column: q"),
        ("DELETE FROM t", DataError, "readonly"),
        ("SELECT n, n FROM t", DataError, "every column once"),
        (
            "SELECT s AS v FROM t UNION SELECT x FROM t",
            DataError,
            "'int', 'str'. for v",
        ),
        ("BEGIN", ArgumentError, "gives rows"),
        ("SELECT ?", DataError, "bind"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(
    path: Path, query: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_sqlite(path, query)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    path.write_bytes(b"no database at all" * 99)
    with pytest.raises(DataError, match=r"not a database"):
        read_sqlite(path, "SELECT 1 FROM t")
    with pytest.raises(DataError, match="readable file"):
        read_sqlite(tmp_path / "none.db", "SELECT 1")
    assert not (tmp_path / "none.db").exists()
