"""What is worth a program on a processor: what saves memory, and calls that come together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.compiling import Worth
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config

RNG = np.random.default_rng(11)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device of its own, on which programs are compiled after two runs that were noted."""
    monkeypatch.setattr(config, "ahead", False)
    return Device(Fusion(pyrite.device("cpu").backend.root, after=2))


def programs(device: Device, call: Callable[[], Any], times: int = 12) -> int:
    """Return how many programs there are when something was called so often."""
    for _ in range(times):
        call()
    backend: Any = device.backend
    return int(backend.recorded.compiled)


def some(device: Device, *shape: int) -> Tensor:
    return pyrite.tensor(RNG.standard_normal(shape, dtype=np.float32), device=device)


def chain(x: Tensor, count: int) -> np.ndarray:
    a = x
    for _ in range(count):
        a = a * 0.5 + x
    return a.numpy()


def test_many_ops_of_little_are_none(device: Device) -> None:
    x = some(device, 16, 16)

    assert programs(device, lambda: chain(x, 24)) == 0


def test_a_few_of_much_are_one(device: Device) -> None:
    x = some(device, 512, 512)
    want = chain(x, 3)

    assert programs(device, lambda: chain(x, 3)) == 1
    np.testing.assert_array_equal(chain(x, 3), want)


def test_a_step_of_a_small_network_is_one(device: Device) -> None:
    model: Any = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    optimizer, x = pyrite.optim.Adam(1e-3), some(device, 8, 8)
    step = pyrite.value_and_grad(lambda model: (model(x) ** 2).mean())
    losses: list[float] = []

    def run() -> None:
        nonlocal model
        loss, gradients = step(model)
        model = optimizer.step(model, gradients)
        losses.append(loss.item())

    assert programs(device, run) >= 1
    assert losses == sorted(losses, reverse=True)


def test_calls_that_come_together_save_what_they_cost() -> None:
    worth = Worth(cost=15, of_call=0, of_several=5)

    assert worth.saved(1, is_together=False) == 0
    assert worth.saved(1, is_together=True) == 1
    assert worth.saved(3, is_together=True) == 5
    assert worth.saved(3, is_together=False) == 2.5
    assert Worth(3).saved(2, is_together=False) == Worth(3).saved(1, is_together=True) == 1
