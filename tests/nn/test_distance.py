"""Cosines and distances against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.tensor.creation import full, tensor

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [-1, 1])
def test_cosines_are_pytorchs(agrees: Any, axis: int) -> None:
    x, y = rng.standard_normal((2, 3, 4, 5))
    agrees(nn.CosineSimilarity(axis), torch.nn.CosineSimilarity(axis), x, y, rtol=1e-7)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize("keepdims", [False, True])
def test_distances_are_pytorchs(agrees: Any, p: float, keepdims: bool) -> None:
    x, y = rng.standard_normal((2, 3, 4))
    theirs = torch.nn.PairwiseDistance(p, keepdim=keepdims)
    agrees(nn.PairwiseDistance(p, keepdims=keepdims), theirs, x, y, rtol=1e-7)


def test_gradients_stay_finite_at_zero_and_at_equality() -> None:
    zero, x = full((3,), 0.0), tensor([1.0, 2.0, 3.0])
    value, found = value_and_grad(nn.CosineSimilarity(), (0, 1))(zero, x)
    assert value.item() == 0
    assert all(np.isfinite(g.numpy()).all() for g in found)
    _, found = value_and_grad(nn.PairwiseDistance(), (0, 1))(x, x)
    assert all(np.isfinite(g.numpy()).all() for g in found)
