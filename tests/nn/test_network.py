"""Whole networks of layers: second order, gradient penalties, freezing, learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import grad, value_and_grad
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tree import tree_map
from pyrite.testing.differences import directional_difference

rng = np.random.default_rng(0)
IMAGES = rng.standard_normal((3, 2, 5, 5))
CLASSES = np.array([0, 2, 1])


def classifier() -> nn.Module:
    with random_stream(3):
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, dtype="float64"),
            nn.BatchNorm(4, dtype="float64"),
            nn.GELU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.LayerNorm(16, dtype="float64"),
            nn.Linear(16, 3, dtype="float64"),
        )


def critic() -> nn.Module:
    with random_stream(4):
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, dtype="float64"),
            nn.InstanceNorm(4, affine=True, dtype="float64"),
            nn.Softplus(),
            nn.Flatten(),
            nn.Linear(36, 1, dtype="float64"),
        )


def flat(net: nn.Module) -> Any:
    return np.concatenate([p.numpy().ravel() for p in net.parameters()])


def with_flat(net: nn.Module, values: Any) -> nn.Module:
    """Return the network with its parameters taken from one vector."""
    ends = np.cumsum([p.size for p in net.parameters()])
    parts = {p.id: v for p, v in zip(net.parameters(), np.split(values, ends[:-1]), strict=True)}
    return net.map(lambda p: tensor(parts[p.id].reshape(p.shape)))


def loss_of(net: nn.Module) -> Any:
    return nn.CrossEntropyLoss()(net(tensor(IMAGES)), tensor(CLASSES))


def gradient(net: nn.Module, loss: Any) -> Any:
    grads = grad(loss)(net)
    found = [grads[p].numpy() if p in grads else np.zeros(p.shape) for p in net.parameters()]
    return np.concatenate([g.ravel() for g in found])


def test_a_hessian_vector_product_is_the_difference_of_gradients() -> None:
    net = classifier()
    at = flat(net)
    direction = rng.standard_normal(at.shape)
    want = directional_difference(
        lambda values: gradient(with_flat(net, values), loss_of), at, direction
    )
    parts = with_flat(net, direction).parameters()

    def along(net: nn.Module) -> Any:
        grads = grad(loss_of)(net)
        total = 0.0
        for p, part in zip(net.parameters(), parts, strict=True):
            total = total + (grads[p] * part).sum()
        return total

    np.testing.assert_allclose(gradient(net, along), want, rtol=1e-5, atol=1e-7)


def penalty(net: nn.Module, x: Any) -> Any:
    """The gradient penalty of WGAN-GP (Gulrajani et al. 2017, arXiv:1704.00028)."""
    slope = grad(lambda x: net(x).sum())(x)
    norm = (slope * slope).sum((1, 2, 3)).sqrt()
    return ((norm - 1) ** 2).mean()


def test_the_gradient_of_a_gradient_penalty() -> None:
    net, x = critic(), tensor(IMAGES)
    got = gradient(net, lambda net: penalty(net, x))
    at = flat(net)
    direction = rng.standard_normal(at.shape)
    want = directional_difference(
        lambda values: penalty(with_flat(net, values).with_training(True), x).numpy(),
        at, direction,
    )  # fmt: skip
    np.testing.assert_allclose(got @ direction, want, rtol=1e-6)


def test_the_gradient_penalty_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    net = critic()
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, stride=2, padding=1),
        torch.nn.InstanceNorm2d(4, affine=True),
        torch.nn.Softplus(),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 1),
    ).double()
    theirs.load_state_dict({name: torch.tensor(p.numpy()) for name, p in net.named_parameters()})
    x = torch.tensor(IMAGES, requires_grad=True)
    (slope,) = torch.autograd.grad(theirs(x).sum(), x, create_graph=True)
    want = ((slope.square().sum((1, 2, 3)).sqrt() - 1) ** 2).mean()
    want.backward()
    value, grads = value_and_grad(lambda net: penalty(net, tensor(IMAGES)))(net)
    assert value.item() == pytest.approx(want.item(), rel=1e-9)
    for name, p in theirs.named_parameters():
        if p.grad is None:
            continue
        ours = dict(net.named_parameters())[name]
        np.testing.assert_allclose(grads[ours].numpy(), p.grad.numpy(), rtol=1e-7, atol=1e-10)


def test_frozen_layers_have_no_gradients_and_the_others_the_same() -> None:
    net = classifier()
    _, whole = value_and_grad(loss_of)(net)
    frozen = net.freeze("0.*", "1.weight")
    _, rest = value_and_grad(loss_of)(frozen)
    for (path, p), (_, other) in zip(
        net.named_parameters(), frozen.named_parameters(), strict=True
    ):
        if path in ("0.weight", "0.bias", "1.weight"):
            assert other not in rest
        else:
            # A body of which less is wanted is another kernel, which may add in another order.
            np.testing.assert_allclose(whole[p].numpy(), rest[other].numpy(), rtol=1e-14)


def test_it_learns() -> None:
    net = classifier()
    first, _ = value_and_grad(loss_of)(net)
    for _ in range(20):
        loss, grads = value_and_grad(loss_of)(net)
        net = stepped(net, grads)
    assert loss.item() < 0.2 * first.item()
    assert net[1].num_batches_tracked.item() == 20
    assert np.abs(net[1].running_mean.numpy()).max() > 0


def stepped(net: nn.Module, grads: Any) -> nn.Module:
    """Return the network after a step down the gradient, its states committed."""

    def changed(t: Any) -> Any:
        if isinstance(t, Parameter):
            return t.with_value(t - grads[t] * 0.2)
        return t.with_value(grads.updates[t.id])

    return tree_map(changed, net)


def test_a_network_is_the_same_after_a_round_trip_through_a_file(tmp_path: Any) -> None:
    net = classifier()
    net = stepped(net, value_and_grad(loss_of)(net)[1])
    net.save(tmp_path / "net.safetensors")
    again = classifier().load(tmp_path / "net.safetensors")
    x = tensor(IMAGES)
    np.testing.assert_array_equal(again(x).numpy(), net(x).numpy())
