"""The special functions against SciPy and, where SciPy itself is not exact enough, mpmath."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.backend.numpy import special
from pyrite.types import Array

scipy_special = pytest.importorskip("scipy.special")
mpmath = pytest.importorskip("mpmath")

FUNCTIONS = ("erf", "erfinv", "ndtr", "lgamma", "digamma", "trigamma")
REFERENCES: dict[str, Callable[..., Array]] = {
    "erf": scipy_special.erf,
    "erfinv": scipy_special.erfinv,
    "ndtr": scipy_special.ndtr,
    "lgamma": scipy_special.gammaln,
    "digamma": scipy_special.digamma,
    "trigamma": lambda x: scipy_special.polygamma(1, x),
}
TINY = 10.0 ** np.linspace(-300, -1, 3001)
NEAR_1 = 1 - 10.0 ** np.linspace(-15.9, -1, 3001)
POSITIVE = np.concatenate(
    [TINY, np.linspace(0, 40, 80_001)[1:], 10.0 ** np.linspace(1.6, 300, 501)]
)


def error(found: Array, expected: Array, floor: float = 0.0) -> float:
    """Return the largest error, relative to the expected value or to the floor if that is more."""
    wrong = found != expected
    size = np.maximum(np.abs(expected[wrong]), floor)
    return float(np.max(np.abs(found - expected)[wrong] / size, initial=0.0))


def exact(function: Callable[..., object], points: Array) -> Array:
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(float(p)))) for p in points])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "points", "bound"),
    [
        ("erf", np.concatenate([np.linspace(-7, 7, 200_000), TINY]), 1e-15),
        ("erfinv", np.concatenate([np.linspace(-1, 1, 100_001)[1:-1], TINY, NEAR_1]), 2e-15),
        ("ndtr", np.linspace(-5, 40, 200_001), 2e-15),
        ("ndtr", np.linspace(-37, -5, 100_001), 1e-12),
        ("lgamma", POSITIVE[np.abs(POSITIVE - 1.5) > 0.9], 2e-15),
        ("trigamma", POSITIVE[(POSITIVE > 1e-150) & (POSITIVE < 1e150)], 2e-15),
    ],
)
def test_a_dense_grid_agrees_with_scipy(name: str, points: Array, bound: float) -> None:
    assert error(getattr(special, name)(points), REFERENCES[name](points)) <= bound


def test_digamma_agrees_with_scipy_where_its_root_allows() -> None:
    assert error(special.digamma(POSITIVE), scipy_special.digamma(POSITIVE), floor=1.0) <= 3e-15


def test_lgamma_is_relatively_exact_at_its_roots() -> None:
    steps = 10.0 ** np.linspace(-15, -1, 100)
    between = np.linspace(0.6, 2.4, 400)
    points = np.concatenate([1 - steps, 1 + steps, 2 - steps, 2 + steps, between])
    assert error(special.lgamma(points), exact(mpmath.loggamma, points)) <= 2e-15
    assert special.lgamma(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["lgamma", "digamma", "trigamma"])
def test_negative_arguments_agree_with_mpmath_also_next_to_poles(name: str) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-12, 0, 500), -rng.integers(1, 9, 100) + 1e-7])
    reference = {
        "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
        "digamma": lambda x: mpmath.psi(0, x),
        "trigamma": lambda x: mpmath.psi(1, x),
    }[name]
    expected = exact(reference, points)
    floor = 1 + scipy_special.gammaln(1 - points) if name == "lgamma" else np.ones_like(points)
    found = getattr(special, name)(points)
    assert np.max(np.abs(found - expected) / np.maximum(np.abs(expected), floor)) <= 3e-15


def test_erf_of_float32_is_rounded_right_in_all_but_a_few_places() -> None:
    x = np.linspace(-5, 5, 300_001, dtype=np.float32)
    expected = scipy_special.erf(x.astype(np.float64)).astype(np.float32)
    found = special.erf(x)
    assert found.dtype == np.float32
    assert np.mean(found != expected) < 1e-3
    np.testing.assert_array_max_ulp(found, expected, maxulp=1)


@pytest.mark.parametrize("name", ["erfinv", "ndtr", "lgamma", "digamma", "trigamma"])
def test_float32_is_the_rounded_result_of_float64(name: str) -> None:
    x = np.linspace(0.01, 0.99, 20_001, dtype=np.float32)
    expected = REFERENCES[name](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(getattr(special, name)(x), expected, maxulp=1)


@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("erf", [np.inf, -np.inf, np.nan, 30.0], [1.0, -1.0, np.nan, 1.0]),
        ("erfinv", [1.0, -1.0, 1.5, -2.0, np.inf, np.nan], [np.inf, -np.inf, *[np.nan] * 4]),
        ("ndtr", [np.inf, -np.inf, np.nan, -50.0], [1.0, 0.0, np.nan, 0.0]),
        ("lgamma", [0.0, -0.0, -1.0, -7.0, np.inf, -np.inf, -1e300], [np.inf] * 7),
        ("lgamma", [1e306, np.nan], [np.inf, np.nan]),
        ("digamma", [0.0, -0.0, np.inf, np.nan], [-np.inf, np.inf, np.inf, np.nan]),
        ("digamma", [-1.0, -50.0, -np.inf], [np.nan] * 3),
        ("trigamma", [0.0, -0.0, -1.0, -9.0], [np.inf] * 4),
        ("trigamma", [np.inf, np.nan, -np.inf], [0.0, np.nan, np.nan]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_poles_infinities_and_nan(
    name: str, points: list[float], expected: list[float], dtype: type
) -> None:
    with np.errstate(over="ignore"):
        found = getattr(special, name)(np.array(points, dtype))
    np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_odd_functions_keep_the_sign_of_zero() -> None:
    for function in (special.erf, special.erfinv):
        assert np.signbit(function(np.array([0.0, -0.0]))).tolist() == [False, True]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shape_and_dtype_stay_for_empty_zero_d_and_strided_arrays(name: str) -> None:
    function = getattr(special, name)
    grid = np.linspace(0.1, 0.9, 12).reshape(3, 4)
    assert function(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert function(np.float32(0.5)).dtype == np.float32
    assert np.shape(function(np.float32(0.5))) == ()
    np.testing.assert_array_equal(function(grid.T), function(grid).T)


def test_erf_does_not_change_its_argument() -> None:
    x = np.full(5, 9.0)
    special.erf(x)
    assert x.tolist() == [9.0] * 5


def test_blocks_join_without_a_seam() -> None:
    x = np.linspace(-3, 3, 2 * special.BLOCK + 7)
    parts = [special.erf(part) for part in np.array_split(x, 7)]
    np.testing.assert_array_equal(special.erf(x), np.concatenate(parts))
