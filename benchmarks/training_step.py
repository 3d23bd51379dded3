"""A training step of the digits network on the CPU: Pyrite's kernels beside plain torch.

The network and the settings are those of ``pyrite train digits``. Both train on one batch that is
on the device already; rounds alternate, with pauses between. With ``--profile`` Pyrite's step is
taken apart by op: how often, the microseconds until the call returns, and those until its kernels
are done when nothing else runs.

    python benchmarks/training_step.py [--rounds 7] [--batch 32] [--profile]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn as tnn
from torch.nn import functional

import pyrite
from pyrite.backend import Device
from pyrite.cli.digits import DigitNet
from pyrite.op import Op, Plan
from pyrite.optim import AdamW
from pyrite.types import Array

#: Seconds between the peers: longer than their threads spin.
PAUSE = 0.2
STEPS = 40


class TorchDigitNet(tnn.Module):
    """`DigitNet` in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = tnn.Conv2d(1, 16, 3, padding=1), tnn.BatchNorm2d(16)
        self.conv2, self.norm2 = tnn.Conv2d(16, 32, 3, padding=1), tnn.BatchNorm2d(32)
        self.linear = tnn.Linear(32 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a score per class."""
        x = functional.max_pool2d(functional.gelu(self.norm1(self.conv1(x))), 2)
        x = functional.max_pool2d(functional.gelu(self.norm2(self.conv2(x))), 2)
        return self.linear(functional.dropout(x.flatten(1), 0.25))


Step = Callable[[], Any]


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    x = random.standard_normal((arguments.batch, 1, 8, 8), dtype=np.float32)
    y = random.integers(0, 10, arguments.batch)
    device = pyrite.device("cpu")
    ours, theirs = pyrite_step(device, x, y), torch_step(x, y)
    peers = {"pyrite": (ours, device.synchronize), "torch": (theirs, lambda: None)}
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(arguments.rounds):
        for name, (step, wait) in peers.items():
            time.sleep(PAUSE)
            times[name].append(_microseconds(step, wait))
    for name, found in times.items():
        print(f"{name:8} median {statistics.median(found):8.0f} µs   best {min(found):8.0f} µs")
    if arguments.profile:
        profile(device, ours)


def pyrite_step(device: Device, x: Array, y: Array) -> Step:
    """Return a function that makes one step, of which nothing is read."""
    model, optimizer = DigitNet().to(device), AdamW(3e-3)
    images, labels = pyrite.tensor(x, device=device), pyrite.tensor(y, device=device)
    differentiate = pyrite.value_and_grad(
        lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1)
    )

    def step() -> Any:
        nonlocal model
        loss, gradients = differentiate(model, images, labels)
        model = optimizer.step(model, gradients)
        return loss

    return step


def torch_step(x: Array, y: Array) -> Step:
    """Return the same for torch."""
    model = TorchDigitNet().train()
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _microseconds(step: Step, wait: Step) -> float:
    for _ in range(3):
        step()
    wait()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    wait()
    return (time.perf_counter() - start) / STEPS * 1e6


def profile(device: Device, step: Step) -> None:
    """Print what each op of a step costs, the dearest first."""
    backend = device.backend.root
    execute, found = backend.execute, defaultdict[str, list[tuple[float, float]]](list)

    def timed(op: Op, inputs: Sequence[Any], plan: Plan) -> Any:
        device.synchronize()
        start = time.perf_counter()
        results = execute(op, inputs, plan)
        returned = time.perf_counter()
        device.synchronize()
        end = time.perf_counter()
        found[op.name].append(((returned - start) * 1e6, (end - start) * 1e6))
        return results

    backend.execute = timed  # type: ignore[method-assign]
    for _ in range(STEPS):
        step()
    backend.execute = execute  # type: ignore[method-assign]
    print(f"{'op':34} a step   call µs   done µs   together")
    total = 0.0
    rows = []
    for name, costs in found.items():
        count = len(costs) / STEPS
        call, done = (statistics.median(c[i] for c in costs) for i in (0, 1))
        total += count * done
        rows.append((count * done, f"{name:34} {count:6.1f} {call:9.1f} {done:9.1f}"))
    for sum, text in sorted(rows, reverse=True):
        print(f"{text} {sum:10.0f}")
    print(f"{len(rows)} kinds of ops, {total:.0f} µs")


if __name__ == "__main__":
    main()
