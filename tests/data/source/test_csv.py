"""Cells become typed values, and what does not fit is named with its line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyrite.data import read_csv
from pyrite.errors import ArgumentError, DataError, DTypeError


class Row(NamedTuple):
    name: str
    size: int
    weight: float
    is_new: bool


@dataclass(frozen=True)
class Sparse:
    weight: float
    size: int | None
    colour: str = "grey"


class Length(NamedTuple):
    metres: float


class Nested(NamedTuple):
    parts: list[int]


def test_columns_are_found_by_name_and_typed(written: Callable[..., Path]) -> None:
    path = written(
        "rows.csv",
        "\ufeffis_new,extra,weight,name,size\r\n"
        'TRUE,x,1.5,"a, ""b""", 3\r\n'
        "\r\n"
        "0,y,-1e3,Zürich,-4\r\n",
    )
    assert read_csv(path, Row) == [Row('a, "b"', 3, 1.5, True), Row("Zürich", -4, -1000.0, False)]


def test_columns_can_be_mapped_and_delimited(written: Callable[..., Path]) -> None:
    path = written("rows.csv", "length (m);n\n1.5;2\n")
    rows = read_csv(path, Length, columns={"metres": "length (m)"}, delimiter=";")
    assert rows == [Length(1.5)]


def test_without_a_header_columns_are_the_fields_in_order(written: Callable[..., Path]) -> None:
    path = written("rows.csv", "a,1,2,true\n")
    assert read_csv(path, Row, header=False) == [Row("a", 1, 2.0, True)]


def test_a_header_alone_is_no_rows(written: Callable[..., Path]) -> None:
    assert read_csv(written("rows.csv", "metres\n"), Length) == []


def test_optional_fields_are_none_and_absent_columns_take_the_default(
    written: Callable[..., Path],
) -> None:
    path = written("rows.csv", "weight,size\n1,\n2,3\n")
    assert read_csv(path, Sparse) == [Sparse(1.0, None), Sparse(2.0, 3)]


def test_missing_values_follow_the_policy(written: Callable[..., Path]) -> None:
    path = written("rows.csv", "metres\n1\nNA\n3\n")
    with pytest.raises(DataError, match=r"a value for metres, got a missing one at .*rows.csv:3"):
        read_csv(path, Length, missing_values=["NA"])
    skipped = read_csv(path, Length, missing_values=["NA"], missing="skip")
    assert skipped == [Length(1.0), Length(3.0)]
    numbers = [row.metres for row in read_csv(path, Length, missing_values=["NA"], missing="nan")]
    assert math.isnan(numbers[1])
    assert numbers[::2] == [1.0, 3.0]


def test_an_integer_has_no_nan(written: Callable[..., Path]) -> None:
    path = written("rows.csv", "name,size,weight,is_new\na,,1,1\n")
    with pytest.raises(DataError, match="a value for size"):
        read_csv(path, Row, missing="nan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a header line, got an empty file: .*rows.csv"),
        ("name,size\n", r"columns \['weight', 'is_new'\], got \['name', 'size'\] in .*rows.csv"),
        ("name,size,weight,is_new,name\n", r"columns \['name'\] once"),
        ("name,size,weight,is_new\na,1,2\n", r"4 columns, got 3 at .*rows.csv:2"),
        ("name,size,weight,is_new\n\na,x,2,1\n", r"int for size, got 'x' at .*rows.csv:3"),
        ("name,size,weight,is_new\na,1.5,2,1\n", r"int for size, got '1.5'"),
        ("name,size,weight,is_new\na,1,two,1\n", r"float for weight, got 'two'"),
        ("name,size,weight,is_new\na,1,2,yes\n", r"bool for is_new, got 'yes'"),
        ("name,size,weight,is_new\na," + "9" * 5000 + ",2,1\n", r"int for size, got '9{80}'"),
        ('name,size,weight,is_new\n"a,1,2,1\n', r"well-formed rows, got unexpected end of data"),
        (
            "name,size,weight,is_new\n" + "a" * 200_000 + "\n",
            r"well-formed rows, got field larger than field limit",
        ),
        (b"name,size\n\xff\xfe,1\n", r"UTF-8 text, got .*rows.csv: invalid start byte"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(
    written: Callable[..., Path], text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match="csv requires " + message):
        read_csv(written("rows.csv", text), Row)


def test_a_missing_file_and_a_folder_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"readable file, got .*absent.csv: No such file"):
        read_csv(tmp_path / "absent.csv", Row)
    with pytest.raises(DataError, match="Is a directory"):
        read_csv(tmp_path, Row)


def test_wrong_arguments_are_refused_before_the_file_is_opened(tmp_path: Path) -> None:
    absent: Any = tmp_path / "absent.csv"
    with pytest.raises(ArgumentError, match="missing requires 'error', 'skip' or 'nan'"):
        read_csv(absent, Row, missing="ignore")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"names of fields, got \['colour'\]"):
        read_csv(absent, Row, columns={"colour": "c"})
    with pytest.raises(DTypeError, match="dataclass or NamedTuple, got dict"):
        read_csv(absent, dict)
    with pytest.raises(DTypeError, match=r"Nested.parts: list\[int\]"):
        read_csv(absent, Nested)
