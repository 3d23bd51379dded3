"""One network of each family gives the same everywhere: outputs, gradients, twenty steps.

NumPy in float32 is the judge, for the devices are compared with what a user of the reference sees.
Fallbacks do not matter here, and are what test_conformance.py is strict about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.backend.device import device_names, device_problem
from pyrite.cli.digits import DigitNet
from pyrite.data import digits
from pyrite.optim import AdamW
from pyrite.types import Array

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

DEVICES = [n for n in device_names() if n != "numpy" and device_problem(n) is None]

#: What outputs and gradients may differ by, relative to the greatest element of each.
TOLERANCE = 2e-5

#: What the losses of the first twenty steps may differ by.
LOSS_TOLERANCE = 1e-3


class Recurrent(nn.Module):
    def __init__(self) -> None:
        self.embedding = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 16, direction="both")
        self.gru = nn.GRU(32, 8)
        self.out = nn.Linear(8, 5)

    def forward(self, tokens: Any) -> Any:
        x, _ = self.lstm(self.embedding(tokens))
        x, _ = self.gru(x)
        return self.out(x[:, -1])


class Transformer(nn.Module):
    def __init__(self) -> None:
        self.embedding = nn.Embedding(20, 24)
        self.position = nn.PositionalEncoding(24)
        self.encoder = nn.TransformerEncoder(24, 4, 48, 2, dropout=0.0)
        self.out = nn.Linear(24, 5)

    def forward(self, tokens: Any) -> Any:
        x = self.encoder(self.position(self.embedding(tokens)), is_causal=True)
        return self.out(x.mean(1))


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5)
    )


def convolutional() -> nn.Module:
    return DigitNet(dropout=0.25)


@dataclass(frozen=True)
class Family:
    make: Callable[[], nn.Module]
    inputs: Array
    classes: int = 5


_rng = np.random.default_rng(3)
_tokens = _rng.integers(0, 20, (6, 9)).astype(np.int32)
FAMILIES = {
    "perceptron": Family(perceptron, _rng.standard_normal((8, 16)).astype(np.float32)),
    "convolutional": Family(convolutional, _rng.random((6, 1, 8, 8)).astype(np.float32), 10),
    "recurrent": Family(Recurrent, _tokens),
    "transformer": Family(Transformer, _tokens),
}


def outcome(family: Family, name: str) -> dict[str, Array]:
    """The outputs at evaluation, the loss in training and its gradients, by name."""
    pyrite.seed(0)
    net = family.make().to(name)
    x = pyrite.tensor(family.inputs, device=name)
    labels = np.arange(len(family.inputs), dtype=np.int32) % family.classes
    target = pyrite.tensor(labels, device=name)

    def loss(net: Any, x: Any) -> Any:
        return nn.CrossEntropyLoss()(net(x), target)

    value, grads = pyrite.value_and_grad(loss)(net, x)
    found = {path: grads[weight].numpy() for path, weight in net.named_parameters()}
    return {"outputs": net(x).numpy(), "loss": value.numpy(), **found}


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Array]]:
    return {name: outcome(family, "numpy") for name, family in FAMILIES.items()}


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_computes_the_same_everywhere(
    family: str, name: str, judged: dict[str, dict[str, Array]]
) -> None:
    want, got = judged[family], outcome(FAMILIES[family], name)

    assert got.keys() == want.keys()
    # Some gradients are 0 but for rounding: of a bias before a norm, or of an attention's keys.
    least = 0.01 * max(float(np.abs(array).max()) for array in want.values())
    for what, array in want.items():
        scale = max(float(np.abs(array).max()), least)
        difference = float(np.abs(got[what] - array).max()) / scale
        assert difference <= TOLERANCE, f"{what} differs by {difference:.2g}"


def losses_of_twenty_steps(name: str) -> list[float]:
    pyrite.seed(0)
    net, optimizer = DigitNet().to(name), AdamW(3e-3)
    items = digits("train")
    losses = []
    for step in range(20):
        batch = [items[i] for i in range(32 * step, 32 * step + 32)]
        x = pyrite.tensor(np.stack([item.pixels for item in batch]), device=name)
        y = pyrite.tensor(np.array([item.label for item in batch], np.int32), device=name)

        def loss(net: Any, x: Any = x, y: Any = y) -> Any:
            return nn.CrossEntropyLoss()(net(x), y)

        value, grads = pyrite.value_and_grad(loss)(net)
        net = optimizer.step(net, grads)
        losses.append(value.item())
    return losses


@pytest.fixture(scope="module")
def judged_losses() -> list[float]:
    return losses_of_twenty_steps("numpy")


@pytest.mark.parametrize("name", DEVICES)
def test_the_digits_train_the_same_everywhere(name: str, judged_losses: list[float]) -> None:
    got = losses_of_twenty_steps(name)

    np.testing.assert_allclose(got, judged_losses, rtol=0, atol=LOSS_TOLERANCE)
    assert got[-1] < got[0] / 2
