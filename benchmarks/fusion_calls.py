"""What small calls cost with Fusion, beside the same device without, in turns of 20 calls.

Calls whose results are never read again, one op and its read, ten ops and a read, a step of a small
network, and 30 ops in orders that never came.  Printed are the medians of the times by the wall
clock, in microseconds, and of the ratios of neighbouring turns; ``--task`` runs all in an asyncio
task, as a notebook does.  ``--clock thread`` is the time of the caller's thread, for a busy
machine: with ``chrt -f 50``, and few rounds.

    python benchmarks/fusion_calls.py [--rounds 100] [--device cpu] [--task] [--clock thread]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion

#: Calls of a turn, and calls until what comes again is a program.
TURN, WARM = 20, 24
#: Orders of ops, and ops of each.
ORDERS, LENGTH = 60, 30

Call = Callable[[], Any]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "thread": time.thread_time}
RANDOM = np.random.default_rng(0)
OPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, x: a + x, lambda a, x: a * 0.5, lambda a, x: a.tanh(), lambda a, x: a - x,
    lambda a, x: a.sin(), lambda a, x: a.abs(), lambda a, x: a @ x * 0.1, lambda a, x: a.mT,
    lambda a, x: a.maximum(x),
]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--task", action="store_true")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    given = parser.parse_args()
    clock = CLOCKS[given.clock]

    async def in_task() -> None:
        table(given.device, given.rounds, clock)

    if given.task:
        asyncio.run(in_task())
    else:
        table(given.device, given.rounds, clock)


def table(name: str, rounds: int, clock: Clock) -> None:
    """Print what is measured on a device."""
    root = pyrite.device(name).backend.root
    pair = Device(root), Device(Fusion(root, after=2))
    made = [cases(device) for device in pair]
    for what in made[0]:
        calls = [found[what] for found in made]
        for call in calls:
            for _ in range(2):
                for _ in range(WARM):
                    call()
                finish(root)
        turns = [[microseconds(call, TURN, root, clock) for call in calls] for _ in range(rounds)]
        report(what, turns)
    new = [[tensor(device, 32, 32)] for device in pair]
    for seed in range(ORDERS):
        order(new[0][0], seed)
    turns = [
        [microseconds(lambda x=x, s=s: order(x, s), 1, root, clock) for (x,) in new]  # type: ignore[misc]
        for s in range(ORDERS, 2 * ORDERS)
    ]
    report(f"{LENGTH} ops, {ORDERS} orders", turns)


def cases(device: Device) -> dict[str, Call]:
    """Return the calls by name."""
    x, y = tensor(device, 32, 32), tensor(device, 32, 32)

    def ten() -> Any:
        a = x
        for _ in range(5):
            a = a * 0.5 + y
        return a.numpy()

    def waited() -> None:
        for _ in range(10):
            x + y
        device.synchronize()

    return {
        "x + y": lambda: x + y,
        "x.exp()": lambda: x.exp(),
        "x.sum()": lambda: x.sum(),
        "x @ y": lambda: x @ y,
        "10 x + y, waited for": waited,
        "(x + y).numpy()": lambda: (x + y).numpy(),
        "(x * y).sum().item()": lambda: (x * y).sum().item(),
        "(x @ y).numpy()": lambda: (x @ y).numpy(),
        "10 ops and a read": ten,
        "a step": training(device),
    }


def training(device: Device) -> Call:
    """Return a step of a small network that reads its loss."""
    with pyrite.random_stream(0):
        model: Any = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer, loss_of = pyrite.optim.Adam(1e-3), nn.CrossEntropyLoss()
    x = tensor(device, 64, 64)
    y = pyrite.tensor(RANDOM.integers(0, 10, 64), device=device)
    step = pyrite.value_and_grad(lambda model, x, y: loss_of(model(x), y))

    def run() -> Any:
        nonlocal model
        loss, gradients = step(model, x, y)
        model = optimizer.step(model, gradients)
        return loss.item()

    return run


def order(x: Tensor, seed: int) -> Any:
    """Run ops in the order of a seed, and read what comes of it."""
    choice, a = random.Random(seed).choice, x
    for _ in range(LENGTH):
        a = choice(OPS)(a, x)
    return a.numpy()


def tensor(device: Device, *shape: int) -> Tensor:
    """Return some numbers."""
    return pyrite.tensor(RANDOM.standard_normal(shape, dtype=np.float32), device=device)


def finish(root: Any) -> None:
    """Wait for what is computed, and for what is compiled in the background."""
    root.synchronize()
    root.launcher.ahead.finish()


def microseconds(call: Call, count: int, root: Any, clock: Clock) -> float:
    """Return the time of a call."""
    gc.disable()
    start = clock()
    for _ in range(count):
        call()
    found = (clock() - start) / count * 1e6
    gc.enable()
    root.synchronize()
    return found


def report(what: str, turns: list[list[float]]) -> None:
    """Print a line."""
    plain, fused = (statistics.median(times) for times in zip(*turns, strict=True))
    ratio = statistics.median(b / a for a, b in turns)
    print(f"{what:24} plain {plain:8.2f}  fused {fused:8.2f}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
