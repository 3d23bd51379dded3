"""Parameters that are lifted together are those that are lifted one by one."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.autodiff import lifting


@pytest.fixture(params=["together", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "one by one":
        monkeypatch.setattr(lifting, "_MANY", sys.maxsize)
    return str(request.param)


def model_on(device: str) -> Any:
    pyrite.seed(5)
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.GELU(), layer, nn.Linear(3, 4), nn.Linear(4, 2)).to(device)


def loss_of(model: Any, x: pyrite.Tensor) -> pyrite.Tensor:
    w = model[3].weight
    wide = w.broadcast_to((2, *w.shape))[:, ::2].sum() + w.mT[::-1].sum()
    return (model(x) ** 2).sum() + wide


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_gradients_are_those_of_each_parameter(way: str, device: str) -> None:
    model, x = model_on(device), pyrite.ones((2, 3), device=device)
    for _ in range(4):
        value, gradients = pyrite.value_and_grad(loss_of)(model, x)

        assert len(gradients) == 6
        assert [g.shape for g in gradients.named(model).values()] == [
            p.shape for p in model.parameters()
        ]
        assert value.device == x.device
        model = model.map(lambda t: t.with_value(t + 1, version=t.version + 1))
        assert all(gradients.by_id()[p.id].shape == p.shape for p in model.parameters())


def test_what_a_function_sees_are_leaves_of_the_level_above(way: str) -> None:
    model = model_on("cpu")
    seen: list[Any] = []

    def of(model: Any) -> pyrite.Tensor:
        seen.append(model)
        return (model[0].weight * model[3].weight[:3]).sum()

    pyrite.value_and_grad(of)(model)
    (lifted,) = seen

    assert lifted[0] is lifted[2]
    for own, above in zip(model.parameters(), lifted.parameters(), strict=True):
        assert type(above) is pyrite.Parameter
        assert (above.id, above.version, above.trainable) == (own.id, own.version, True)
        assert above._backend.level == own._backend.level + 1
        np.testing.assert_array_equal(above.numpy(), own.numpy())
        assert above.is_initialized


def test_values_are_drawn_where_they_were_not(way: str) -> None:
    pyrite.seed(7)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1))
    _, gradients = pyrite.value_and_grad(lambda m: m(pyrite.ones((1, 2))).sum())(model)

    assert len(gradients) == 6
    assert all(p.is_initialized for p in model.parameters())


@pytest.mark.parametrize("frozen", ["0.*", "3.bias"])
def test_frozen_parameters_have_no_gradient(way: str, frozen: str) -> None:
    model = model_on("cpu").freeze(frozen)
    _, gradients = pyrite.value_and_grad(loss_of)(model, pyrite.ones((2, 3), device="cpu"))

    assert len(gradients) == sum(p.trainable for p in model.parameters())


def test_orders_rise_and_higher_gradients_are_right(way: str) -> None:
    parameters = [pyrite.Parameter(pyrite.tensor([float(n), 2.0])) for n in range(5)]

    def of(parameters: Any) -> pyrite.Tensor:
        return sum((p**3).sum() for p in parameters)  # type: ignore[return-value]

    def inner(parameters: Any) -> pyrite.Tensor:
        _, gradients = pyrite.value_and_grad(of)(parameters)
        return sum((gradients[p] * p).sum() for p in parameters)  # type: ignore[return-value]

    _, gradients = pyrite.value_and_grad(inner)(parameters)
    for n, p in enumerate(parameters):
        np.testing.assert_allclose(gradients[p].numpy(), [9.0 * n * n, 36.0], rtol=1e-5)


def test_two_leaves_of_one_parameter_are_summed(way: str) -> None:
    first = model_on("cpu")
    x = pyrite.ones((2, 3), device="cpu")

    def of(one: Any, other: Any) -> pyrite.Tensor:
        return loss_of(one, x) + loss_of(other, x) * 2

    _, (both, same) = pyrite.value_and_grad(of, (0, 1))(first, first)
    _, alone = pyrite.value_and_grad(loss_of)(first, x)
    for id, g in alone.by_id().items():
        np.testing.assert_allclose(both.by_id()[id].numpy(), 3 * g.numpy(), rtol=1e-5)
        np.testing.assert_array_equal(both.by_id()[id].numpy(), same.by_id()[id].numpy())
