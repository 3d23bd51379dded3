"""JSON Lines give typed rows, and what does not fit is named with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pyrite.data import read_json_rows
from pyrite.errors import DataError


class Row(NamedTuple):
    x: float
    n: int
    note: str | None = None


def test_each_line_is_a_row(written: Callable[..., Path]) -> None:
    path = written(
        "rows.jsonl", '{"n": 1, "x": 2, "other": []}\n\n{"x": 0.5, "n": 3, "note": null}\n'
    )
    rows = read_json_rows(path, Row)
    assert rows == [Row(2.0, 1), Row(0.5, 3)]
    assert type(rows[0].x) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": 1, "n": 1}\n{"x": 1', r"one object per line, got .* at .*rows.jsonl:2"),
        ("[1, 2]", r"one object per line, got list at .*:1"),
        ("[" * 200_000, r"one object per line, got .* at .*:1"),
        ('{"x": 1}', r"key 'n', got \['x'\] at"),
        ('{"x": 1, "n": true}', r"int at key 'n', got bool at"),
        ('{"x": 1, "n": 1.0}', r"int at key 'n', got float at"),
        ('{"x": "1", "n": 1}', r"float at key 'x', got str at"),
        ('{"x": null, "n": 1}', r"float at key 'x', got NoneType at"),
        ('{"x": 1, "n": 1, "note": 5}', r"str at key 'note', got int at"),
        ('{"x": 1' + "0" * 400 + ', "n": 1}', r"a float at key 'x', got an integer beyond it at"),
        ('{"x": 1, "n": 1' + "0" * 5000 + "}", r"one object per line, got Exceeds the limit"),
        (b'{"x": "\xff"}', r"UTF-8 text, got .*rows.jsonl: invalid start byte"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(
    written: Callable[..., Path], text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match="json requires " + message):
        read_json_rows(written("rows.jsonl", text), Row)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"readable file, got .*absent.jsonl: No such file"):
        read_json_rows(tmp_path / "absent.jsonl", Row)
