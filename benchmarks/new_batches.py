"""What a batch size costs that is new to a step of `pyrite.compile`, call by call.

    python benchmarks/new_batches.py [mlp cnn gpt] [--device cpu] [--batches 4] [--calls 24]
                                     [--eager] [--rested]

A step of training of a network of `fusion.py` is replayed at one batch size; then other sizes come,
drawn, each ``--calls`` times, with a pause of a tenth of a second and a known call between two.
What a call takes beyond a known one of its own size is its stall: of the calling thread's processor
time, and in brackets by the clock, in milliseconds.  Printed are those of the first call, of the
second, and the greatest of all later ones with its number; what a known call takes, how many
kernels the caller compiled, and how many calls ran as their ops.  ``--eager`` is the same step
without `pyrite.compile`.  With ``--rested`` all is compiled ahead before the first other one comes,
as in a training of some minutes.

Kernels are not kept.  On a machine that others use: PYRITE_THREADS=1 chrt -f 30 ...
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import warnings
from time import perf_counter, sleep, thread_time
from typing import Any, NamedTuple

os.environ["PYRITE_CACHE"] = "off"

import numpy as np
from fusion import RATE, Gpt, cnn, mlp
from new_size_stalls import compiles, cube_of, finish_ahead

import pyrite
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion

NETWORKS: dict[str, Any] = {"mlp": mlp, "cnn": cnn, "gpt": Gpt}
#: The batch that is known, and the greatest of the others.
KNOWN = {"mlp": 128, "cnn": 64, "gpt": 8}


class Took(NamedTuple):
    """What a call took: of the processor, and by the clock."""

    spent: float
    waited: float


def main() -> None:
    """Print a line for each batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--calls", type=int, default=24)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--rested", action="store_true")
    given = parser.parse_args()
    device = pyrite.device(given.device)
    warnings.filterwarnings("ignore", message=".*kinds of calls")
    print("network batch            first           second   greatest later        known  "
          "kernels  as ops")  # fmt: skip
    for name in given.networks:
        measure(name, device, given)


def measure(name: str, device: Device, given: Any) -> None:
    """Print the lines of one network."""
    trained = Trained(name, device, is_compiled=not given.eager)
    known = KNOWN[name]
    for _ in range(6):
        trained.call(known)
    if given.rested:
        finish_ahead(cube_of(device))
    made = compiles(cube_of(device))
    assert isinstance(device.backend, Fusion)
    recorded = device.backend.recorded
    sizes = [n for n in range(2, known) if n & (n - 1)]
    for batch in random.Random(name).sample(sizes, min(given.batches, len(sizes))):
        before, ops = made[0], recorded.op_runs
        took = []
        for _ in range(given.calls):
            took.append(trained.call(batch))
            sleep(0.1)
            trained.call(known)
        best = Took(*map(min, zip(*took, strict=True)))
        later = max(range(2, given.calls), key=lambda n: took[n].spent)
        print(
            f"{name:7} {batch:5} {beyond(took[0], best)} {beyond(took[1], best)} "
            f"{beyond(took[later], best)} {later + 1:3} {best.spent * 1e3:7.1f} "
            f"({best.waited * 1e3:5.1f}) {made[0] - before:5} {recorded.op_runs - ops:7}",
            flush=True,
        )
    middle = statistics.median(trained.call(known).spent for _ in range(10))
    print(f"{name:7} {known:5} known: {middle * 1e3:.1f}", flush=True)


def beyond(took: Took, best: Took) -> str:
    """Return a stall as text."""
    spent, waited = took.spent - best.spent, took.waited - best.waited
    return f"{spent * 1e3:8.1f} ({waited * 1e3:6.1f})"


class Trained:
    """A network in training."""

    def __init__(self, name: str, device: Device, *, is_compiled: bool) -> None:
        self.name, self.device = name, device
        self.model = NETWORKS[name]().to(device)
        optimizer = pyrite.optim.Adam(RATE)
        gradients = pyrite.value_and_grad(
            lambda model, x, y: model(x).cross_entropy_with_logits(y, axis=-1)
        )

        def step(model: Any, x: Any, y: Any) -> Any:
            loss, grads = gradients(model, x, y)
            return optimizer.step(model, grads), loss

        self.step: Any = pyrite.compile(step) if is_compiled else step
        self.rng = np.random.default_rng(0)

    def call(self, batch: int) -> Took:
        """Return what a step takes, until it is computed."""
        x, y = (pyrite.tensor(v, device=self.device) for v in self.drawn(batch))
        began, start = perf_counter(), thread_time()
        self.model, loss = self.step(self.model, x, y)
        loss.item()
        return Took(thread_time() - start, perf_counter() - began)

    def drawn(self, batch: int) -> tuple[Any, Any]:
        """Return inputs and labels."""
        x: Any
        if self.name == "gpt":
            x = self.rng.integers(0, 256, (batch, 128)).astype(np.int32)
            return x, self.rng.integers(0, 256, batch * 128).astype(np.int32)
        shape = (784,) if self.name == "mlp" else (1, 28, 28)
        x = self.rng.standard_normal((batch, *shape), np.float32)
        return x, self.rng.integers(0, 10, batch).astype(np.int32)


if __name__ == "__main__":
    main()
