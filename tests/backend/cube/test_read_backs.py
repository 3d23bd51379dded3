"""A whole step of training asks the device for nothing and leaves nothing to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_problem
from pyrite.backend.fallback import fallbacks
from pyrite.cli.digits import DigitNet
from pyrite.config import config
from pyrite.optim import AdamW


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_a_step_of_the_digits_network_reads_nothing_back(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = device_problem(name)
    if problem is not None:
        pytest.skip(f"device does not work here: {problem}")
    device = pyrite.device(name)
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    images = pyrite.tensor(rng.normal(size=(32, 1, 8, 8)).astype(np.float32), device=device)
    labels = pyrite.tensor(rng.integers(0, 10, 32).astype(np.int32), device=device)
    pyrite.seed(0)
    model = DigitNet().to(device)
    optimizer = AdamW(learning_rate=1e-2)
    loss_and_grads = pyrite.value_and_grad(lambda m: m(images).cross_entropy(labels).mean())
    model(images)  # weights are drawn on the host, when they are first looked at
    monkeypatch.setattr(config, "strict", True)
    fallen_back, read_backs = fallbacks(), runtime.report()["read_backs"]

    losses = []
    with pyrite.no_sync():
        for _ in range(3):
            loss, grads = loss_and_grads(model)
            model = optimizer.step(model, grads)
            losses.append(loss)

    assert runtime.report()["read_backs"] == read_backs
    assert fallbacks() == fallen_back
    first, _, last = pyrite.read(*losses)
    assert last.item() < first.item()
    assert runtime.report()["read_backs"] == read_backs + 1
