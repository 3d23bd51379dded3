"""Gradients by the paths of a model's parameters, and their norms."""

from __future__ import annotations

from typing import Any

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


def test_each_of_several_modules_has_its_own_gradients_and_states() -> None:
    """A generator and a critic in one loss, with a tensor between them."""
    generator = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3))
    critic = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm(3), nn.Linear(3, 1))
    x = tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.1]])

    def loss(generator: Any, x: Any, critic: Any) -> Any:
        return critic(generator(x)).square().mean()

    _, (of_generator, of_x, of_critic) = value_and_grad(loss, (0, 1, 2))(generator, x, critic)
    assert of_x.shape == x.shape
    for model, grads in ((generator, of_generator), (critic, of_critic)):
        _, alone = value_and_grad(
            lambda m, model=model: loss(
                m if model is generator else generator, x, m if model is critic else critic
            )
        )(model)
        assert list(grads.named(model)) == [path for path, _ in model.named_parameters()]
        for path, g in grads.named(model).items():
            np.testing.assert_allclose(g.numpy(), alone.named(model)[path].numpy(), atol=1e-6)
        stepped = optim.SGD(0.1).step(model, grads)
        assert stepped.layers[1].num_batches_tracked.item() == 1


def test_a_module_that_two_arguments_share_has_its_gradients_in_both() -> None:
    layer = nn.Linear(2, 2)
    _, (first, second) = value_and_grad(lambda a, b: (a(b(tensor([[1.0, 2.0]])))).sum(), (0, 1))(
        layer, layer
    )
    assert first[layer.weight].tolist() == second[layer.weight].tolist()
