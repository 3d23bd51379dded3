"""Every power of every special number, and its slope, is that of C's pow, everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_names, device_problem
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]
INFINITY = math.inf
BASES = (-INFINITY, -3, -2.5, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, INFINITY, math.nan)
EXPONENTS = (
    *(-INFINITY, -3, -2, -1.5, -1, -0.5, -0.0, 0.0, 0.5, 1, 1.5, 2, 3, 4, INFINITY, math.nan),
)


def power(x: float, y: float) -> float:
    """C's pow, where Python raises."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return INFINITY
    except ValueError:
        if x:
            return math.nan
        return math.copysign(INFINITY, x) if y % 2 == 1 else INFINITY


def powers(y: float) -> Array:
    return np.array([power(x, y) for x in BASES], np.float32)


def given(y: float, form: str, like: Tensor) -> Tensor | float:
    if form == "number":
        return y
    shape = () if form == "zero-d tensor" else like.shape
    return tensor(np.full(shape, y, np.float32), device=like.device)


@pytest.mark.sample(12, by="device")
@pytest.mark.parametrize("form", ["number", "zero-d tensor", "tensor"])
@pytest.mark.parametrize("y", EXPONENTS)
@pytest.mark.parametrize("device", WORKING)
def test_a_power_is_that_of_c(device: str, y: float, form: str) -> None:
    x = tensor(np.array(BASES, np.float32), device=device)
    got, want = (x ** given(y, form, x)).numpy(), powers(y)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


@pytest.mark.sample(12, by="device")
@pytest.mark.parametrize("form", ["number", "zero-d tensor", "tensor"])
@pytest.mark.parametrize("y", EXPONENTS)
@pytest.mark.parametrize("device", WORKING)
def test_the_slope_of_a_power_is_y_times_the_power_below(device: str, y: float, form: str) -> None:
    x = tensor(np.array(BASES, np.float32), device=device)
    got = pyrite.grad(lambda x: (x ** given(y, form, x)).sum())(x).numpy()
    with np.errstate(invalid="ignore"):
        want = np.float32(y) * powers(y - 1) if y else np.zeros(len(BASES), np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("device", WORKING)
def test_a_root_is_not_a_power(device: str) -> None:
    x = tensor(np.array([-0.0, 0.0, -INFINITY, 4], np.float32), device=device)
    np.testing.assert_array_equal((x**0.5).numpy(), [0, 0, INFINITY, 2])
    np.testing.assert_array_equal(x.sqrt().numpy(), [-0.0, 0, math.nan, 2])
    assert np.signbit(x.sqrt().numpy())[0]
