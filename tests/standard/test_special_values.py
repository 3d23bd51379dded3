"""Elementwise functions at the special values of the standard's text, signs of zeros included."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import pyrite

from .calls import CALLS
from .exclusions import EITHER_ZERO, NOT_JUDGED
from .judge import TOLERANCE

DEVICES = ("numpy", "cpu")

UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp", "expm1",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive",
    "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc",
)  # fmt: skip
BINARY = (
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal",
    "hypot", "less", "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter",
    "not_equal", "pow", "remainder", "subtract",
)  # fmt: skip

#: Every value that stands in a "special cases" list of the standard, and numbers on both sides.
SPECIAL = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0,
    2.5, -2.5, 0.25, -0.25, math.pi, -math.pi, math.pi / 2, 30.0, -30.0,
]  # fmt: skip

of_float = pytest.mark.parametrize("dtype", ["float32", "float64"])
on_each = pytest.mark.parametrize("device", DEVICES)


def test_every_elementwise_function_is_here() -> None:
    assert set(UNARY) | set(BINARY) <= set(CALLS)


def assert_as_the_judge(name: str, *arrays: Any, device: str) -> None:
    with np.errstate(all="ignore"):
        want = np.asarray(getattr(strict, name)(*map(strict.asarray, arrays))._array)
    got = getattr(pyrite, name)(*(pyrite.tensor(a, device=device) for a in arrays)).numpy()
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    exact = (want == 0) | ~np.isfinite(want)
    np.testing.assert_array_equal(got[exact], want[exact])
    zero = (want == 0) & (name not in EITHER_ZERO)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
    rtol = TOLERANCE[want.dtype.name]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


@pytest.mark.sample(20)
@of_float
@on_each
@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_a_special_value(name: str, device: str, dtype: str) -> None:
    assert_as_the_judge(name, np.array(SPECIAL, dtype), device=device)


@pytest.mark.sample(16)
@of_float
@on_each
@pytest.mark.parametrize("name", [n for n in BINARY if n not in NOT_JUDGED])
def test_a_function_of_two_special_values(name: str, device: str, dtype: str) -> None:
    x, y = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    assert_as_the_judge(name, x.copy(), y.copy(), device=device)


@on_each
@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        (math.inf, math.inf, math.nan), (0.0, 0.0, math.nan), (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0),
        (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0), (2.0, 0.0, math.inf), (2.0, -0.0, -math.inf),
        (-2.0, 0.0, -math.inf), (-2.0, -0.0, math.inf), (2.0, math.inf, 0.0),
        (-2.0, -math.inf, 0.0), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (math.nan, 1.0, math.nan),
    ],
)  # fmt: skip
def test_floor_divide_of_the_special_values_that_the_standard_fixes(
    x: float, y: float, want: float, device: str
) -> None:
    left, right = (pyrite.tensor(v, dtype="float64", device=device) for v in (x, y))
    got = (left // right).item()
    np.testing.assert_equal(got, want)
    assert math.isnan(want) or math.copysign(1, got) == math.copysign(1, want)
