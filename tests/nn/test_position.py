"""Positions: sinusoids by their formula, rotations by complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full, tensor

rng = np.random.default_rng(0)


def test_sinusoids_are_those_of_the_paper() -> None:
    table = nn.sinusoids(50, 6, 100.0, dtype="float64").numpy()
    for t in (0, 1, 49):
        for i in range(3):
            angle = t / 100.0 ** (2 * i / 6)
            np.testing.assert_allclose(table[t, 2 * i : 2 * i + 2], [np.sin(angle), np.cos(angle)])


def test_positions_are_added_and_are_no_parameters(tmp_path: Any) -> None:
    layer = nn.PositionalEncoding(6, max_length=10)
    x = rng.standard_normal((2, 4, 6)).astype(np.float32)
    want = x + nn.sinusoids(4, 6).numpy()
    np.testing.assert_allclose(layer(tensor(x)).numpy(), want, rtol=1e-6)
    assert layer.num_params() == 0
    assert not layer.record().arrays
    assert layer(tensor(x.astype(np.float16))).dtype.name == "float16"


def rotated(x: Any, start: int, frequencies: Any, pairs: str) -> Any:
    angles = (start + np.arange(x.shape[-2]))[:, None] * frequencies
    half = x.shape[-1] // 2
    pick = (np.s_[..., 0::2], np.s_[..., 1::2]) if pairs == "neighbours" else (
        np.s_[..., :half], np.s_[..., half:],
    )  # fmt: skip
    turned = (x[pick[0]] + 1j * x[pick[1]]) * np.exp(1j * angles)
    out = np.empty_like(x)
    out[pick[0]], out[pick[1]] = turned.real, turned.imag
    return out


@pytest.mark.parametrize("pairs", ["neighbours", "halves"])
@pytest.mark.parametrize("start", [0, 3])
def test_rotations_are_products_of_complex_numbers(pairs: Any, start: int) -> None:
    layer = nn.RotaryEncoding(
        12, 8, theta=500.0, pairs=pairs, scaling=lambda f: f / 2, dtype="float64"
    )
    x = rng.standard_normal((2, 3, 5, 8))
    frequencies = 500.0 ** (-np.arange(4) / 4) / 2
    want = rotated(x, start, frequencies, pairs)
    np.testing.assert_allclose(layer(tensor(x), start).numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pairs", ["neighbours", "halves"])
def test_a_product_depends_on_the_distance_alone(pairs: Any) -> None:
    layer = nn.RotaryEncoding(64, 8, pairs=pairs, dtype="float64")
    query, key = (tensor(a) for a in rng.standard_normal((2, 1, 8)))
    products = [
        (layer(query, t) * layer(key, t + 5)).sum().item() for t in (0, 7, 40)
    ]  # fmt: skip
    np.testing.assert_allclose(products, products[0])


def test_half_precision_is_rotated_in_single_and_rounded_once() -> None:
    layer = nn.RotaryEncoding(600, 4)
    x = rng.standard_normal((1, 4)).astype(np.float16)
    want = layer(tensor(x.astype(np.float32)), 599).numpy().astype(np.float16)
    np.testing.assert_array_equal(layer(tensor(x), 599).numpy(), want)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.sinusoids(3, 5), ArgumentError, "sinusoids requires an even features, got 5"),
        (lambda: nn.RotaryEncoding(3, 4, pairs="odd"), ArgumentError, '"neighbours" or "halves"'),
        (
            lambda: nn.RotaryEncoding(3, 4, scaling=lambda f: f[:1]),
            ShapeError,
            "scaling to return 2 frequencies, got shape",
        ),
        (
            lambda: nn.RotaryEncoding(6, 4)(full((5, 4), 0.0), start=2),
            ShapeError,
            "0 <= position < 6, got 2 to 6",
        ),
        (
            lambda: nn.PositionalEncoding(4, 3)(full((1, 4, 4), 0.0)),
            ShapeError,
            "0 <= position < 3, got 0 to 3",
        ),
        (
            lambda: nn.PositionalEncoding(4)(full((2, 5), 0.0)),
            ShapeError,
            r"x of shape \(..., T, 4\), got \(2, 5\)",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
