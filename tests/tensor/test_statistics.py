"""Statistics against NumPy, SciPy and torch, and where they are at their limits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import bfloat16, float16, float32

INF = float("inf")
AXES: list[Any] = [None, 0, -1, (0, 2), ()]


def normal(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(2).normal(3, 2, shape).astype(dtype)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_variance_and_deviation_are_those_of_numpy(axis: Any, correction: int) -> None:
    x = normal((2, 3, 4))
    for name, keepdims in itertools.product(("var", "std"), (False, True)):
        got = getattr(tensor(x), name)(axis, correction=correction, keepdims=keepdims)
        want = getattr(np, name)(x, axis=axis, ddof=correction, keepdims=keepdims)
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want)


def test_a_large_mean_costs_the_variance_no_digits() -> None:
    x = tensor(np.array([10000.0, 10001.0, 10002.0], np.float32))
    assert x.var(correction=1).item() == 1.0


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_narrow_floats_are_computed_in_float32(dtype: Any) -> None:
    # Squares of 300 overflow float16; rounded to it, their mean of 8100 does not.
    data = np.array([300.0, 300, 300, 120]).astype(dtype.numpy)
    got = tensor(data).var()
    assert got.dtype is dtype
    assert got.item() == np.array(data.astype(np.float64).var()).astype(dtype.numpy).item()
    many = tensor(np.zeros(70000, dtype.numpy))
    assert many.logsumexp().item() == np.array(np.log(70000)).astype(dtype.numpy).item()


def test_the_bias_names_of_burn_are_without_correction() -> None:
    x = tensor(normal((3, 4)))
    np.testing.assert_array_equal(x.var_bias(1).numpy(), x.var(1).numpy())
    variance, mean = x.var_mean(0, correction=1, keepdims=True)
    np.testing.assert_allclose(variance.numpy(), x.numpy().var(0, ddof=1, keepdims=True))
    np.testing.assert_allclose(mean.numpy(), x.numpy().mean(0, keepdims=True))
    variance, mean = x.var_mean_bias()
    assert (variance.item(), mean.item()) == (x.var().item(), x.mean().item())


def test_a_count_not_above_the_correction_gives_nan_without_a_warning() -> None:
    assert np.isnan(tensor([1.0]).var(correction=1).item())
    assert np.isnan(tensor(np.zeros((0,), np.float32)).var().item())
    assert tensor([1.0, 2.0]).var(correction=2).item() == INF


def test_the_gradient_of_a_deviation_of_zero_is_zero() -> None:
    x = tensor(np.array([[2.0, 2.0], [1.0, 3.0]]))
    assert grad(lambda x: x.std(1).sum())(x).tolist() == [[0, 0], [-0.5, 0.5]]


def test_gradients_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = normal((3, 4))
    for name in ("var", "std"):
        got = grad(lambda x, n=name: (getattr(x, n)(1, correction=1) ** 2).sum())(tensor(x))
        t = torch.tensor(x, requires_grad=True)
        (getattr(t, name)(1, correction=1) ** 2).sum().backward()
        np.testing.assert_allclose(got.numpy(), t.grad.numpy())


def test_integers_have_a_float_variance() -> None:
    assert tensor([1, 3]).var().dtype is float32
    assert tensor([1, 3]).std().item() == 1


@pytest.mark.parametrize("correction", [0, 1])
def test_covariance_is_that_of_numpy(correction: int) -> None:
    x = normal((3, 5))
    np.testing.assert_allclose(tensor(x).cov(correction=correction), np.cov(x, ddof=correction))
    np.testing.assert_allclose(tensor(x[0]).cov(), np.cov(x[0]))
    with pytest.raises(ShapeError, match=r"cov requires shape \(N,\) or \(D, N\), got \(1, 2, 3\)"):
        tensor(np.zeros((1, 2, 3))).cov()


@pytest.mark.parametrize("axis", AXES)
def test_logsumexp_is_that_of_scipy(axis: Any) -> None:
    special = pytest.importorskip("scipy.special")
    x = normal((2, 3, 4)) * 300
    for keepdims in (False, True):
        got = tensor(x).logsumexp(axis, keepdims=keepdims)
        want = special.logsumexp(x, axis=axis if axis != () else None, keepdims=keepdims)
        if axis == ():
            want = x
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want)


def test_logsumexp_of_infinities() -> None:
    x = tensor(np.array([[-INF, -INF], [INF, 1.0], [-INF, 2.0]]))
    assert x.logsumexp(1).tolist() == [-INF, INF, 2]
    got = grad(lambda x: x.logsumexp(1)[::2].sum())(x).numpy()
    np.testing.assert_array_equal(got[[0, 2]], [[0, 0], [0, 1]])
    with pytest.raises(ShapeError, match="logsumexp requires sizes >= 1"):
        tensor(np.zeros((0,))).logsumexp()
