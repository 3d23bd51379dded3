"""Samples: small whatever is in them, and the same after they were written as JSON."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
import PIL.Image
import pytest

from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor
from pyrite.train import ImageSample, Sample, TableSample, TextSample
from pyrite.train.sample import sample_from_json, sample_to_json

HOSTILE = "<script>alert(1)</script> ]]> \x1b[31m\x00 \ud800 [bold]"


def decoded(sample: ImageSample) -> Any:
    return np.asarray(PIL.Image.open(io.BytesIO(sample.png)))


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.float32([[0, 1], [0.5, 2]]), [[0, 255], [128, 255]]),
        (np.float64([[-1, math.nan], [math.inf, -math.inf]]), [[0, 0], [255, 0]]),
        (np.uint8([[0, 7], [200, 255]]), [[0, 7], [200, 255]]),
        (np.int64([[-5, 7], [300, 255]]), [[0, 7], [255, 255]]),
        (np.array([[True, False], [False, True]]), [[255, 0], [0, 255]]),
        (np.float16([[[0, 1], [1, 0]]]), [[0, 255], [255, 0]]),
    ],
)
def test_pixels_become_bytes(pixels: Any, expected: Any) -> None:
    sample = ImageSample.of("x", pixels)
    assert decoded(sample).tolist() == expected
    assert (sample.width, sample.height) == (2, 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("channels", [3, 4])
def test_channels_come_first_as_in_tensors(channels: int, dtype: str) -> None:
    pixels = np.zeros((channels, 2, 3), np.float32)
    pixels[1, 1, 2] = 1
    found = decoded(ImageSample.of("x", tensor(pixels).astype(dtype)))
    assert found.shape == (2, 3, channels)
    assert found[1, 2].tolist() == [0, 255, 0, 0][:channels]


def test_one_image_has_one_file_name() -> None:
    one, same, other = (ImageSample.of("x", np.full((2, 2), v)) for v in (1, 1, 2))
    assert one.file == same.file != other.file


def test_a_large_image_is_reduced() -> None:
    sample = ImageSample.of("x", np.random.default_rng(0).random((3, 700, 1400)))
    assert (sample.width, sample.height) == (512, 256)
    assert len(sample.png) < 1 << 20


@pytest.mark.parametrize("shape", [(2,), (2, 3, 3), (5, 4, 4), (0, 3), (1, 1, 2, 2)])
def test_what_is_no_image_is_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="ImageSample requires"):
        ImageSample.of("x", np.zeros(shape))


def test_texts_and_tables_are_cut() -> None:
    text = TextSample("n" * 1000, "t" * 10_000)
    assert (len(text.name), len(text.text), text.text[-1]) == (200, 4000, "…")
    table = TableSample("worst", ["c"] * 100, [["x" * 100] * 100] * 1000)
    assert (len(table.columns), len(table.rows), len(table.rows[0])) == (16, 50, 16)
    assert (table.name, len(str(table.rows[0][0]))) == ("worst (950 more rows)", 60)
    assert len(json.dumps(sample_to_json(table))) < 64 << 10


def test_rows_are_as_long_as_there_are_columns() -> None:
    table = TableSample("x", ["a", "b"], [[1], [np.float32(0.5), "two", 3], [10**30, None]])
    assert table.rows == ((1, None), (0.5, "two"), (1e30, None))


SAMPLES: list[Sample] = [
    TextSample(HOSTILE, HOSTILE),
    TableSample(HOSTILE, [HOSTILE, "b"], [[HOSTILE, 1], [None, 0.25]]),
    ImageSample.of(HOSTILE, np.eye(3), HOSTILE),
    TextSample("", ""),
    TableSample("", [], []),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: type(s).__name__)
def test_json_brings_it_back(sample: Sample) -> None:
    line = json.dumps(sample_to_json(sample), allow_nan=False)
    assert sample_from_json(json.loads(line)) == sample


def test_numbers_that_json_lacks_are_spelled() -> None:
    told = sample_to_json(TableSample("x", ["a", "b"], [[math.nan, -math.inf]]))
    assert told["rows"] == [["nan", "-inf"]]


IMAGE = sample_to_json(ImageSample.of("x", np.eye(2)))


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "film", "name": "x"},
        {"kind": "text", "name": 1, "text": "x"},
        {"kind": "text", "name": "x", "text": ["x"]},
        {"kind": "table", "name": "x", "columns": ["a"], "rows": [[{"b": 1}]]},
        {"kind": "table", "name": "x", "columns": ["a"], "rows": ["abc"]},
        {"kind": "table", "name": "x", "columns": 1, "rows": []},
        *({**IMAGE, "file": file} for file in (
            "../../../etc/passwd", "/etc/passwd", "x.png", "", None, f"{'a' * 24}.png/..",
            f"../{'a' * 24}.png", f"{'a' * 24}.png\n")),
        *({**IMAGE, "width": size} for size in (None, 0, -1, 513, 10**400, "3", 2.0, True, [1])),
        {},
    ],
)  # fmt: skip
def test_what_no_sample_wrote_is_refused(told: Any) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        sample_from_json(told)
