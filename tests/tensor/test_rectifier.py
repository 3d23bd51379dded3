"""Rectifiers: slopes by channel, shrinking, and gradients at kinks; more in test_activation.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


def slope(fn: Callable[..., Any], at: Any) -> Array:
    """Return the gradient of the sum of ``fn``."""
    found: Array = grad(lambda x: fn(x).sum())(tensor(np.asarray(at))).numpy()
    return found


def test_prelu_has_a_slope_per_channel() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for shape, count in (((2, 3, 4), 3), ((2, 3), 3), ((2, 3, 4, 5), 1), ((5,), 1)):
        x, weight = rng.normal(size=shape), rng.normal(size=(count,))
        theirs = [torch.tensor(a, requires_grad=True) for a in (x, weight)]
        torch.nn.functional.prelu(*theirs).square().sum().backward()
        found = grad(lambda x, w: x.prelu(w).square().sum(), (0, 1))(tensor(x), tensor(weight))
        for ours, leaf in zip(found, theirs, strict=True):
            np.testing.assert_allclose(ours.numpy(), leaf.grad.numpy(), rtol=1e-12)


def test_prelu_wants_one_slope_or_one_per_channel() -> None:
    x = tensor(np.zeros((2, 3, 4)))
    with pytest.raises(
        ShapeError, match=r"^prelu requires weight.shape in \(\(1,\), \(3,\)\), got"
    ):
        x.prelu(tensor(np.zeros(4)))


def test_shrink_and_thresholded_relu() -> None:
    x = tensor([-2.0, -0.5, 0.5, 2.0])
    assert x.shrink(1.0, 0.25).numpy().tolist() == [-1.75, 0, 0, 1.75]
    assert x.thresholded_relu(0.5).numpy().tolist() == [0, 0, 0, 2]


def test_kinks_have_the_gradients_of_torch() -> None:
    assert slope(Tensor.relu, [-1.0, 0.0, 1.0]).tolist() == [0, 0, 1]
    assert slope(Tensor.relu6, [0.0, 3.0, 6.0]).tolist() == [0, 1, 0]
    assert slope(Tensor.hardtanh, [-1.0, 0.0, 1.0]).tolist() == [0, 1, 0]
    assert slope(Tensor.leaky_relu, [0.0]).tolist() == [0.01]
    assert slope(lambda x: x.hard_shrink(0.5), [-0.5, 0.5, 0.6]).tolist() == [0, 0, 1]
