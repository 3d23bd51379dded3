"""Items from columns and from rows of files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pyrite.data import Image, InMemoryDataset
from pyrite.errors import ArgumentError, ShapeError


class Point(NamedTuple):
    x: float
    name: str


def test_columns_are_zipped_into_items() -> None:
    pixels = np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2)
    dataset = InMemoryDataset.from_arrays(Image, pixels, label=np.array([7, 8, 9]))
    assert len(dataset) == 3
    assert dataset[1].label == 8
    assert dataset[1].pixels.base is pixels.base or np.shares_memory(dataset[1].pixels, pixels)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"equal length, got shapes \[\(3,\), \(2,\)\]"):
        InMemoryDataset.from_arrays(complex, np.zeros(3), np.zeros(2))
    with pytest.raises(ShapeError, match="equal length"):
        InMemoryDataset.from_arrays(complex, np.zeros(()))
    with pytest.raises(ArgumentError, match="at least one column"):
        InMemoryDataset.from_arrays(complex)


def test_the_same_rows_come_from_csv_and_json(tmp_path: Path) -> None:
    csv, json = tmp_path / "points.csv", tmp_path / "points.jsonl"
    csv.write_text("name,x\na,1\nb,2.5\n")
    json.write_text('{"x": 1, "name": "a"}\n{"name": "b", "x": 2.5}\n')
    expected = [Point(1.0, "a"), Point(2.5, "b")]
    assert list(InMemoryDataset.from_csv(csv, Point)) == expected
    assert list(InMemoryDataset.from_json_rows(json, Point)) == expected
