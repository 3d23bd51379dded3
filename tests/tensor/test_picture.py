"""What a notebook shows of a tensor: valid HTML, true numbers, of any values."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import pyrite
from pyrite import Tensor


def shown(x: Tensor) -> str:
    page = x._repr_html_()
    ElementTree.fromstring(page)  # every element is closed, every text escaped
    return page


def heights(page: str) -> list[float]:
    return [float(height) for height in re.findall(r'height="([\d.]+)"/>', page)]


def test_statistics_are_those_of_the_values() -> None:
    page = shown(pyrite.tensor([[1.0, 2.0, 3.0], [6.0, 0.0, 0.0]]))
    assert "<b>float32</b> 2 × 3 on numpy" in page
    assert "min 0 · mean 2 · max 6 · std 2.082 · 2 zero" in page


def test_a_bar_is_as_high_as_its_values_are_many() -> None:
    page = shown(pyrite.tensor([0.0] * 6 + [10.0] * 3))
    assert heights(page) == [48.0, 24.0]
    assert [float(x) for x in re.findall(r'rect x="([\d.]+)"', page)] == [0.0, 248.0]


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    inf = float("inf")
    page = shown(pyrite.tensor([float("nan"), inf, inf, -inf, 1.0, 3.0]))
    assert "min 1 · mean 2 · max 3 · std 1 · 1 NaN · 2 inf · 1 -inf" in page
    assert heights(page) == [48.0, 48.0]
    assert "3 NaN" in shown(pyrite.full(3, float("nan")))


@pytest.mark.parametrize("name", [dtype.name for dtype in (
    pyrite.bool, pyrite.int8, pyrite.uint8, pyrite.int64, pyrite.float16, pyrite.bfloat16,
    pyrite.float32, pyrite.float64,
)])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5), (2, 3, 65)], ids=str)
def test_every_dtype_and_size_has_its_picture(name: str, shape: tuple[int, ...]) -> None:
    x = pyrite.ones(shape, dtype=name)
    page = shown(x)
    assert f"<b>{name}</b>" in page
    assert ("min 1 · mean 1 · max 1 · std 0" in page) == bool(x.numpy().size)
    assert ("<details open" in page) == (x.numpy().size <= 64)


def test_a_transposed_tensor_is_as_its_copy() -> None:
    x = pyrite.tensor(np.arange(6.0).reshape(2, 3))
    assert shown(x.T).replace("3 × 2", "") == shown(pyrite.tensor(x.numpy().T.copy())).replace(
        "3 × 2", ""
    )


@pytest.mark.parametrize("values", [[-1.7e308, 1.7e308], [5e-324, 0.0], [3e38, -3e38, 1.0]])
def test_numbers_at_the_ends_of_their_type_do_not_overflow(values: list[float]) -> None:
    page = shown(pyrite.tensor(values, dtype=pyrite.float64))
    assert f"max {max(values):.4g}" in page
    assert "inf" not in page
    assert "nan" not in page
