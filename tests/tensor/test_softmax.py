"""Softmax and its kin at their extremes; against torch in test_activation.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import AxisError, ShapeError
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.tensor import Tensor
from pyrite.types import float16


def test_quiet_softmax_is_softmax_with_a_zero_beside_it() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)) * 5
    with_zero = np.concatenate([x, np.zeros((3, 1))], axis=1)
    expected = tensor(with_zero).softmax().numpy()[:, :4]
    np.testing.assert_allclose(tensor(x).quiet_softmax().numpy(), expected, rtol=1e-13)
    assert tensor([-1000.0, -1000.0]).quiet_softmax().numpy().tolist() == [0, 0]
    assert tensor([1000.0, -1000.0]).quiet_softmax().numpy().tolist() == [1, 0]


def test_softmax_of_many_float16_does_not_overflow_its_sum() -> None:
    x = tensor(np.zeros(100_000)).astype(float16)
    assert x.log_softmax().numpy()[0] == pytest.approx(-math.log(100_000), rel=1e-3)


def test_softmax_sums_to_one_and_bears_large_and_masked_values() -> None:
    x = tensor(np.array([[1e4, 0.0, -math.inf], [-1e4, -1e4, -math.inf]]))
    assert x.softmax().numpy().tolist() == [[1, 0, 0], [0.5, 0.5, 0]]
    assert x.log_softmax().numpy()[0].tolist() == [0, -1e4, -math.inf]
    assert tensor(np.zeros((0, 3))).softmax().shape == (0, 3)
    assert tensor(np.zeros((3, 0))).log_softmax().shape == (3, 0)
    with pytest.raises(AxisError, match=r"^softmax requires -2 <= axis < 2, got axis=2"):
        x.softmax(2)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "quiet_softmax"])
def test_hessian_vector_products_of_softmax_agree_with_differences(name: str) -> None:
    rng = np.random.default_rng(5)
    x, v, weights = (rng.normal(size=(2, 4)) for _ in range(3))

    def loss(t: Tensor) -> Tensor:
        return (getattr(t, name)() * tensor(weights)).square().sum()

    product = grad(lambda t: (grad(loss)(t) * tensor(v)).sum())(tensor(x)).numpy()
    step = 1e-5
    ahead, behind = (grad(loss)(tensor(x + s * v)).numpy() for s in (step, -step))
    np.testing.assert_allclose(product, (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", ["_softmax_backward", "_log_softmax_backward"])
def test_a_cotangent_of_another_shape_is_refused(op: str) -> None:
    with pytest.raises(ShapeError, match=r"requires g.shape == \(2, 3\), got \(1, 3\)"):
        getattr(zeros((1, 3)), op)(zeros((2, 3)))
