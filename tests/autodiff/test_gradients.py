"""Gradients by the paths of a model's parameters, and their norms."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import value_and_grad
from pyrite.errors import GradientError
from pyrite.synchronization import sync_count
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream

X = np.random.default_rng(0).normal(size=(5, 3))


class Tied(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3)
        self.unused = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3, bias=False).replace(weight=self.first.weight)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.fixture
def model() -> Tied:
    with random_stream(0):
        return Tied().astype("float64")


def gradients(model, loss=lambda m: m(tensor(X)).square().sum()):
    return value_and_grad(loss)(model)[1]


def test_gradients_have_the_paths_of_their_parameters(model):
    grads = gradients(model)
    named = grads.named(model)
    # Tied once, and none of what the loss does not depend on.
    assert list(named) == ["first.weight", "first.bias"]
    np.testing.assert_array_equal(named["first.weight"].numpy(), grads[model.first.weight].numpy())
    assert list(gradients(model.freeze("*.bias")).named(model)) == ["first.weight"]


def test_norms_are_read_by_one_wait(model):
    grads = gradients(model)
    want = {path: np.linalg.norm(g.numpy()) for path, g in grads.named(model).items()}
    before = sync_count()
    norms = grads.norms(model)
    assert sync_count() - before == 1
    assert norms == pytest.approx(want, rel=1e-12)


def test_a_norm_beyond_float16_is_finite():
    model = nn.Linear(4, 8, bias=False).astype("float16")
    grads = gradients(model, lambda m: (m.weight * 3e4).sum())
    assert grads.norms(model)["weight"] == pytest.approx(3e4 * np.sqrt(32), rel=1e-3)


def test_gradients_of_before_a_step_are_refused(model):
    grads = gradients(model)
    stepped = optim.SGD(0.1).step(model, grads)
    with pytest.raises(GradientError, match="take them again after the step"):
        grads.named(stepped)
