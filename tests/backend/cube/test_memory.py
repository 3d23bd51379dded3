"""Two hundred training steps leave memory and caches where they were after ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import pytest

import pyrite
from pyrite import nn
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import device_problem
from pyrite.cli.digits import DigitNet
from pyrite.data import digits
from pyrite.optim import AdamW

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

DEVICES = [n for n in ("cpu", "wgpu") if device_problem(n) is None]
WARM, BATCH = 10, 16
#: Bytes that the process may have grown by, over all steps.
SLACK = 8 << 20


@dataclass(frozen=True)
class Held:
    """What a device holds, and the process."""

    live: int
    reserved: int
    kernels: int
    launched: int
    resident: int
    #: How often buffers met in a launch that had not met before: 0 where nothing is bound.
    bound: int


def held(backend: CubeBackend) -> Held:
    backend.synchronize()
    memory = backend.runtime.memory_report()
    return Held(
        memory.live,
        memory.reserved,
        backend.runtime.report()["kernels"],
        backend.launcher.kernels,
        psutil.Process().memory_info().rss,
        backend.runtime.report().get("bind_group_misses", 0),
    )


@pytest.mark.parametrize("name", DEVICES)
def test_training_holds_no_more_after_many_steps_than_after_10(name: str, full: bool) -> None:
    steps = 200 if full else 60
    backend = pyrite.device(name).backend
    assert isinstance(backend, CubeBackend)
    train = digits("train")
    items = [train[i] for i in range(WARM * BATCH)]
    pixels = np.stack([item.pixels for item in items]).reshape(WARM, BATCH, 1, 8, 8)
    labels = np.array([item.label for item in items], np.int32).reshape(WARM, BATCH)
    pyrite.seed(0)
    net, optimizer = DigitNet().to(name), AdamW(3e-3)

    def loss(net: Any, x: Any, y: Any) -> Any:
        return nn.CrossEntropyLoss()(net(x), y)

    after = {}
    for step in range(steps):
        x = pyrite.tensor(pixels[step % WARM], device=name)
        y = pyrite.tensor(labels[step % WARM], device=name)
        value, grads = pyrite.value_and_grad(loss)(net, x, y)
        net = optimizer.step(net, grads)
        value.item()
        after[step + 1] = held(backend) if step + 1 in (WARM, steps // 2, steps) else None
    before, middle, end = after[WARM], after[steps // 2], after[steps]
    assert before is not None
    assert middle is not None
    assert end is not None

    assert (end.live, end.kernels, end.launched) == (before.live, before.kernels, before.launched)
    assert end.reserved <= before.reserved
    assert end.bound == middle.bound
    assert end.resident <= before.resident + SLACK
