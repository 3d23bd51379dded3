"""A small real problem: one network on fixed data, ours and PyTorch's from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream


class Net(nn.Module):
    def __init__(self) -> None:
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.hidden(x).tanh())


class Problem:
    """Data, a network and a loss."""

    def __init__(self, dtype: str) -> None:
        rng = np.random.default_rng(0)
        self.dtype = dtype
        self.x = rng.normal(size=(16, 4)).astype(dtype)
        self.y = rng.normal(size=(16, 3)).astype(dtype)
        with random_stream(1):
            self.net = Net().astype(dtype)

    def loss(self, net: Net) -> Any:
        dtype = net.hidden.weight.dtype
        return (net(tensor(self.x).astype(dtype)) - tensor(self.y)).square().mean()

    def gradients(self, net: Net) -> Any:
        return value_and_grad(self.loss)(net)[1]

    def train(self, optimizer: Any, steps: int, net: Net | None = None) -> Net:
        net = net or self.net
        for _ in range(steps):
            net = optimizer.step(net, self.gradients(net))
        return net

    def train_torch(self, make: Callable[[Any], Any], steps: int) -> list[Any]:
        """Train the same network in PyTorch; return its parameters as arrays, in our order."""
        torch = pytest.importorskip("torch")
        weights = [torch.tensor(p.numpy(), requires_grad=True) for p in self.net.parameters()]
        x, y = torch.tensor(self.x), torch.tensor(self.y)
        optimizer = make(weights)

        def closure():
            optimizer.zero_grad()
            w1, b1, w2, b2 = weights
            loss = ((torch.tanh(x @ w1.T + b1) @ w2.T + b2 - y) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return [w.detach().numpy() for w in weights]


@pytest.fixture(params=["float64", "float32"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return Problem(request.param)


@pytest.fixture
def problem64() -> Problem:
    return Problem("float64")


def values(net: nn.Module) -> list[np.ndarray]:
    return [p.numpy() for p in net.parameters()]


@pytest.fixture
def agree() -> Callable[..., None]:
    """Compare a network with arrays, as closely as its dtype allows after many steps."""

    def compare(net: nn.Module, arrays: list[np.ndarray], *, rtol32: float = 2e-4) -> None:
        for ours, theirs in zip(values(net), arrays, strict=True):
            assert ours.dtype == theirs.dtype
            is_double = ours.dtype == np.float64
            np.testing.assert_allclose(
                ours,
                theirs,
                rtol=1e-9 if is_double else rtol32,
                atol=1e-11 if is_double else 2e-5,
            )

    return compare
