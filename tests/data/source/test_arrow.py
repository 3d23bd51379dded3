"""CSV, Parquet and data frames become columns, and damaged files one error that names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

from pyrite.data.source.arrow import read_csv_table, read_parquet, table_of  # noqa: E402
from pyrite.errors import ArgumentError, DataError, DTypeError  # noqa: E402


def test_columns_of_a_csv_file_have_types(written: Callable[..., Path]) -> None:
    path = written(
        "table.csv",
        '\ufeffn,x,"a, b",is,day,id\r\n1,2.5,"x\ny",true,2020-01-02,007\r\n'
        '-2,3,"he ""said""",false,2021-01-02,8\r\n',
    )
    table = read_csv_table(path, types={"id": str, "n": float})
    assert [table[name].dtype.kind for name in table.names] == ["f", "f", "O", "b", "M", "O"]
    assert table["n"].tolist() == [1.0, -2.0]
    assert table["a, b"].tolist() == ["x\ny", 'he "said"']
    assert table["id"].tolist() == ["007", "8"]
    assert read_csv_table(path, columns=["x", "n"]).names == ("x", "n")


def test_a_header_can_be_given_and_the_delimiter(written: Callable[..., Path]) -> None:
    table = read_csv_table(written("table.csv", "1;a\n2;b\n"), header=["x", "y"], delimiter=";")
    assert table["x"].tolist() == [1, 2]
    assert table["y"].tolist() == ["a", "b"]
    assert len(read_csv_table(written("table.csv", "x,y\n"))) == 0


def test_missing_cells_of_a_csv_file(written: Callable[..., Path]) -> None:
    path = written("table.csv", "n,s\n1,a\nNA,b\n,?\n")
    assert np.isnan(read_csv_table(path, missing="nan")["n"]).tolist() == [False, True, True]
    dropped = read_csv_table(path, missing="drop", missing_values=("", "NA", "?"))
    assert dropped["n"].tolist() == [1]
    filled = read_csv_table(path, missing={"n": 0})
    assert filled["n"].tolist() == [1, 0, 0]
    assert filled["n"].dtype == np.int64
    with pytest.raises(DataError, match=r"got \{'n': 2\} in .*table.csv, the first in row 1 of n"):
        read_csv_table(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Empty CSV file"),
        ("a,b\n1,2\n3\n", "Row #3: Expected 2 columns, got 1"),
        ("a,b\n1,2,3\n", "Row #2: Expected 2 columns, got 3"),
        ('a,b\n1,"x\n2,y\n3,z\n', "a quote is opened and never closed"),
        (b"a,b\n1,\xff\xfe\n", r"UTF-8 text, got other bytes in columns \['b'\]"),
        ("a,a\n1,2\n", r"every column once, got \['a'\]"),
        ("n,b\n1,2\nx,3\n", "Row #3: .*int64: invalid value 'x'"),
        ("m,b\n1,2\n", r"types require names of columns, got \['n'\].*\['m', 'b'\]"),
    ],
)
def test_a_damaged_csv_file_is_one_error_that_names_it(
    written: Callable[..., Path], text: str | bytes, message: str
) -> None:
    types = {"n": int} if "int64" in message or "types" in message else None
    with pytest.raises(DataError, match=message) as caught:
        read_csv_table(written("table.csv", text), types=types)
    assert "table.csv" in str(caught.value)


def test_arguments_of_a_csv_file_are_checked(tmp_path: Path, written: Callable[..., Path]) -> None:
    path = written("table.csv", "a\n1\n")
    with pytest.raises(ArgumentError, match="bool, int, float or str"):
        read_csv_table(path, types={"a": list})
    with pytest.raises(ArgumentError, match="one character"):
        read_csv_table(path, delimiter="")
    with pytest.raises(DataError, match=r"columns require .*\['q'\]"):
        read_csv_table(path, columns=["q"])
    for other in (tmp_path, tmp_path / "none.csv"):
        for read in (read_csv_table, read_parquet):
            with pytest.raises(DataError, match="readable file"):
                read(other)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DataError, match="FIFO"):
        read_csv_table(tmp_path / "fifo")


ARROW = {
    "n": pa.array([1, None, 3], pa.int16()),
    "x": pa.array([0.5, 1.5, 2.5], pa.float32()),
    "word": pa.array(["a", "b", "a"]).dictionary_encode(),
    "price": pa.array([1, 2, 3]).cast(pa.decimal128(30, 2)),
    "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "ragged": pa.array([[1], [2, 3], []]),
    "when": pa.array([0, 1, 2], pa.timestamp("s")),
}


def test_columns_of_a_parquet_file_and_of_frames_are_arrays(tmp_path: Path) -> None:
    arrow = pa.table(ARROW)
    pyarrow.parquet.write_table(arrow, tmp_path / "t.parquet", row_group_size=2)
    for table in (
        read_parquet(tmp_path / "t.parquet", missing={"n": 0}),
        table_of(arrow, missing={"n": 0}),
    ):
        assert table.names == tuple(ARROW)
        assert table["n"].tolist() == [1, 0, 3]
        assert table["n"].dtype == np.int16
        assert table["x"].dtype == np.float32
        assert table["word"].tolist() == ["a", "b", "a"]
        assert table["price"].tolist() == [1.0, 2.0, 3.0]
        assert table["vector"].shape == (3, 2)
        assert [cell.tolist() for cell in table["ragged"]] == [[1], [2, 3], []]
        assert table["when"].dtype.kind == "M"
    few = read_parquet(tmp_path / "t.parquet", columns=["x", "n"], missing="drop")
    assert few.names == ("x", "n")
    assert few["x"].tolist() == [0.5, 2.5]
    with pytest.raises(DataError, match=r"columns require .*\['q'\]"):
        read_parquet(tmp_path / "t.parquet", columns=["q"])


def test_a_damaged_parquet_file_is_one_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table(ARROW), path)
    whole = path.read_bytes()
    damaged = [b"", whole[:-1], whole[: len(whole) // 2], b"PAR1" + whole[:99], whole[50:]]
    rng = np.random.default_rng(0)
    for _ in range(40):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            changed[place] = int(rng.integers(256))
        damaged.append(bytes(changed))
    outcomes, named = [], []
    for content in damaged:
        path.write_bytes(content)
        try:
            read_parquet(path, missing="drop")
            outcomes.append("read")
        except DataError as error:
            named.append("t.parquet" in str(error))
            outcomes.append("refused")
    assert outcomes[:5] == ["refused"] * 5
    assert "refused" in outcomes[5:]
    assert all(named)


def test_a_row_may_be_longer_than_a_block_of_the_reader(written: Callable[..., Path]) -> None:
    long = "x" * 3_000_000
    table = read_csv_table(written("table.csv", f"n,text\n1,a\n2,{long}\n3,c\n"))
    assert table["n"].tolist() == [1, 2, 3]
    assert table["text"][1] == long


def test_a_table_without_rows_is_a_matrix_without_rows(written: Callable[..., Path]) -> None:
    for missing in ("error", "nan", "drop"):
        table = read_csv_table(written("table.csv", "x,y\n"), missing=missing)  # type: ignore[arg-type]
        assert table.matrix().shape == (0, 2)
    vectors = table_of(pa.table({"v": pa.array([[1.0, 2.0]])})).rows([])
    assert vectors.matrix().shape == (0, 2)


def test_categories_of_a_frame_are_their_texts() -> None:
    codes = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view())
    )
    table = table_of(pa.table({"c": codes}), missing={"c": "?"})
    assert table["c"].tolist() == ["b", "?", "a"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"n": [1, 2], "s": ["a", None], "x": [0.5, 1.5]})
    table = table_of(frame, missing={"s": "?"})
    assert table["n"].tolist() == [1, 2]
    assert table["s"].tolist() == ["a", "?"]
    assert table.only("n", "x").matrix().tolist() == [[1.0, 0.5], [2.0, 1.5]]


def test_what_is_no_frame_or_has_other_columns_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"Arrow C stream .* got dict; Table\("):
        table_of({"x": [1]})
    nested: Any = pa.table({"deep": [{"a": 1}]})
    with pytest.raises(DataError, match=r"got struct<a: int64> for deep .*columns="):
        table_of(nested)
