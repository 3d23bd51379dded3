"""Two hundred training steps leave memory and caches where they were after twenty.

In a process of its own: in that of the tests others' tensors, threads and kernels come and go.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
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

WARM, BATCH = 20, 16
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
    gc.collect()
    memory = backend.runtime.memory_report()
    return Held(
        memory.live,
        memory.reserved,
        backend.runtime.report()["kernels"],
        backend.launcher.kernels,
        psutil.Process().memory_info().rss,
        backend.runtime.report().get("bind_group_misses", 0),
    )


def train(name: str, steps: int) -> list[Held]:
    """Return what is held after twenty steps, after half of them, and after all."""
    backend = pyrite.device(name).backend.root
    assert isinstance(backend, CubeBackend)
    items_of = digits("train")
    items = [items_of[i] for i in range(WARM * BATCH)]
    pixels = np.stack([item.pixels for item in items]).reshape(WARM, BATCH, 1, 8, 8)
    labels = np.array([item.label for item in items], np.int32).reshape(WARM, BATCH)
    pyrite.seed(0)
    net, optimizer = DigitNet().to(name), AdamW(3e-3)

    def loss(net: Any, x: Any, y: Any) -> Any:
        return nn.CrossEntropyLoss()(net(x), y)

    found = []
    for step in range(steps):
        x = pyrite.tensor(pixels[step % WARM], device=name)
        y = pyrite.tensor(labels[step % WARM], device=name)
        value, grads = pyrite.value_and_grad(loss)(net, x, y)
        net = optimizer.step(net, grads)
        value.item()
        if step + 1 in (WARM, steps // 2, steps):
            found.append(held(backend))
    return found


@pytest.mark.parametrize("name", [n for n in ("cpu", "wgpu") if device_problem(n) is None])
@pytest.mark.sample(1)
def test_training_holds_no_more_after_many_steps_than_after_20(name: str, full: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-P", __file__, name, "200" if full else "60"],
        capture_output=True, text=True, check=False,
        # What a thread compiles in pauses would count, or not, as fast as the machine is.
        env={**os.environ, "PYRITE_AHEAD": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    before, middle, end = (Held(**found) for found in json.loads(done.stdout))

    assert (end.live, end.kernels, end.launched) == (before.live, before.kernels, before.launched)
    assert end.reserved <= before.reserved
    assert end.bound == middle.bound
    assert end.resident <= before.resident + SLACK


if __name__ == "__main__":
    print(json.dumps([asdict(found) for found in train(sys.argv[1], int(sys.argv[2]))]))
