"""Products of finite numbers with a zero among them: never NaN, whatever overflows around it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_names, device_problem
from pyrite.tensor.creation import tensor
from pyrite.types import Array

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]

#: Six numbers each; the large ones overflow in pairs, and in float64 after eleven.
ROWS = np.array(list(product([0.0, 1e30, -2.0], repeat=4)), np.float32)
LONG = np.array([[1e38] * 20 + [0.0, 2.0], [0.0] + [1e38] * 21, [2.0, 0.0, 0.0] + [1.0] * 19])


def true_products(rows: Array) -> Array:
    """Running products, where Python's integers do not overflow."""
    exact = [[int(v) for v in row] for row in rows.tolist()]
    found = np.empty(rows.shape, np.float64)
    for i, row in enumerate(exact):
        running = 1
        for j, value in enumerate(row):
            running *= value
            found[i, j] = running if abs(running) < 3e38 else (np.inf if running > 0 else -np.inf)
    return found


@pytest.mark.parametrize("lies", ["rows", "columns"])
@pytest.mark.parametrize("data", [ROWS, LONG.astype(np.float32)], ids=["short", "long"])
@pytest.mark.parametrize("device", WORKING)
def test_a_product_with_a_zero_is_zero(device: str, data: Array, lies: str) -> None:
    x = tensor(data if lies == "rows" else np.ascontiguousarray(data.T), device=device)
    axis = 1 if lies == "rows" else 0
    want = true_products(data)
    running = x.cumulative_prod(axis).numpy()
    np.testing.assert_array_equal(running if lies == "rows" else running.T, want)
    np.testing.assert_array_equal(x.prod(axis).numpy(), want[:, -1])
    assert x.prod().item() == 0


@pytest.mark.parametrize("device", WORKING)
def test_an_infinite_or_missing_factor_beside_a_zero_stays_nan(device: str) -> None:
    data = np.array([[0, np.inf], [np.inf, 0], [np.nan, 0], [0, np.nan]], np.float32)
    x = tensor(data, device=device)
    assert np.isnan(x.prod(1).numpy()).all()
    assert np.isnan(x.cumulative_prod(1).numpy()[:, 1]).all()


@pytest.mark.parametrize("device", WORKING)
def test_a_gradient_of_a_product_with_a_zero_is_the_product_of_the_others(device: str) -> None:
    x = tensor(ROWS, device=device)
    got = pyrite.grad(lambda x: x.prod(1).sum())(x).numpy()
    want = np.stack([true_products(np.delete(ROWS, i, 1))[:, -1] for i in range(4)], 1)
    has_zero = (ROWS == 0).any(1)
    np.testing.assert_array_equal(got[has_zero], want[has_zero])


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 3)])
@pytest.mark.parametrize("device", WORKING)
def test_second_derivatives_of_products_hold_at_zeros(device: str, zeros: tuple[int, ...]) -> None:
    values = np.array([2.0, 3.0, 5.0, 7.0], np.float32)
    values[list(zeros)] = 0

    def slope(x: pyrite.Tensor) -> pyrite.Tensor:
        return pyrite.grad(lambda y: y.prod())(x).sum()

    got = pyrite.grad(slope)(tensor(values, device=device)).numpy()
    pairs = [[np.prod(np.delete(values, [i, j])) for j in range(4) if j != i] for i in range(4)]
    np.testing.assert_allclose(got, np.sum(pairs, 1), rtol=1e-6)
