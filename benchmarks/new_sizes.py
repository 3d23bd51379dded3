"""What a size costs that was never seen before: Pyrite's kernels beside plain torch on the CPU.

    python benchmarks/new_sizes.py [--sizes 50] [--threads 2] [--stored] [--device cpu]

Four programs go through many sizes, in an order that is drawn: an encoder of two layers through
lengths of text, the same generating a text position by position without a cache, and a training
step of a small convolutional network through batch sizes, as it is written and by
``pyrite.compile``, beside which stands PyTorch's eager step.  Each size is met three times.  The
first time may compile; the other two tell what the size costs once it is known.  Printed are
medians in milliseconds, what the first time adds in all, medians and the greatest first time of
the calling thread's processor time (of a GPU in software the clock's is mostly that of running the
kernels), the number of kernels that were compiled, and the greatest resident memory.  Kernels are
kept in a folder of this run's own; with ``--stored`` a process before has filled it.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter, thread_time
from typing import Any

import numpy as np

#: From a size to a call of a program on it, which waits for its result.
Program = Callable[[int], Any]


def main() -> None:
    """Print the table, made in a process of its own for each peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peer", choices=["pyrite", "torch"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        measure(given.peer, given.sizes, given.device)
        return
    with tempfile.TemporaryDirectory() as folder:
        threads = str(given.threads)
        environment = {
            **os.environ, "PYRITE_CACHE": folder, "PYRITE_THREADS": threads,
            "OMP_NUM_THREADS": threads,
        }  # fmt: skip
        options = ["--sizes", str(given.sizes), "--device", given.device]
        command = [sys.executable, __file__, *options, "--peer"]
        if given.stored:
            subprocess.run([*command, "pyrite"], env=environment, check=True, capture_output=True)
        print("program     peer      first   known  added in all   of the thread: first (greatest)"
              "  known  kernels  memory")  # fmt: skip
        for peer in ("pyrite", "torch"):
            subprocess.run([*command, peer], env=environment, check=True)


def measure(peer: str, count: int, device: str) -> None:
    """Print the lines of one peer."""
    programs = dict(pyrite_programs(device) if peer == "pyrite" else torch_programs())
    for name, (program, sizes) in programs.items():
        chosen = random.Random(0).sample(sizes, min(count, len(sizes)))
        program(max(sizes) + 1)
        before = kernels(peer, device)
        first, known = [], []
        for size in chosen:
            took = [milliseconds(program, size) for _ in range(3)]
            first.append(took[0])
            known.append(tuple(map(min, zip(*took[1:], strict=True))))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        (waited, spent), (known_waited, known_spent) = (
            zip(*of, strict=True) for of in (first, known)
        )
        print(
            f"{name:11} {peer:7} {statistics.median(waited):7.2f} "
            f"{statistics.median(known_waited):7.2f} {sum(waited) - sum(known_waited):10.0f} ms "
            f"{statistics.median(spent):20.2f} ({max(spent):7.2f}) "
            f"{statistics.median(known_spent):9.2f} {kernels(peer, device) - before:8} "
            f"{memory:5.0f} MB",
            flush=True,
        )


def milliseconds(program: Program, size: int) -> tuple[float, float]:
    """Return what one call takes by the clock, and of the thread's processor time."""
    start, began = perf_counter(), thread_time()
    program(size)
    return (perf_counter() - start) * 1e3, (thread_time() - began) * 1e3


def kernels(peer: str, of: str) -> int:
    """Return how many kernels Pyrite has compiled or loaded."""
    if peer != "pyrite":
        return 0
    from pyrite.backend import device
    from pyrite.backend.cube import CubeBackend

    backend = device(of).backend.root
    assert isinstance(backend, CubeBackend)
    return backend.launcher.kernels


# ---- the programs ----

FEATURES, HEADS, HIDDEN, LAYERS, WORDS = 128, 4, 512, 2, 256
BATCHES = range(2, 130)
Programs = Iterator[tuple[str, tuple[Program, range]]]


def pyrite_programs(device: str) -> Programs:
    """Give the programs in Pyrite, by name, with their sizes."""
    import pyrite
    from pyrite import nn

    pyrite.set_default_device(device)
    encoder = nn.TransformerEncoder(FEATURES, HEADS, HIDDEN, LAYERS)
    head = nn.Linear(FEATURES, WORDS)
    table = nn.Embedding(WORDS, FEATURES)
    rng = np.random.default_rng(0)

    def encode(length: int) -> Any:
        return encoder(pyrite.tensor(drawn(rng, 8, length, FEATURES))).numpy()

    def generate(length: int) -> Any:
        words = rng.integers(0, WORDS, (1, length)).astype(np.int32)
        x = encoder(table(pyrite.tensor(words)), is_causal=True)
        return head(x[:, -1]).argmax(-1).item()

    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.GELU(), nn.Flatten(),
        nn.Linear(32 * 14 * 14, 10),
    )  # fmt: skip
    optimizer = pyrite.optim.Adam(1e-3)
    gradients = pyrite.value_and_grad(
        lambda model, x, y: model(x).cross_entropy_with_logits(y).mean()
    )

    def step(model: Any, x: Any, y: Any) -> Any:
        loss, grads = gradients(model, x, y)
        return optimizer.step(model, grads), loss

    state = [network]

    def trained(step: Callable[[Any, Any, Any], Any]) -> Program:
        def train(batch: int) -> Any:
            x = pyrite.tensor(drawn(rng, batch, 1, 28, 28))
            y = pyrite.tensor(rng.integers(0, 10, batch).astype(np.int32))
            state[0], loss = step(state[0], x, y)
            return loss.item()

        return train

    yield "encoder", (encode, range(10, 200))
    yield "generation", (generate, range(10, 200))
    yield "training", (trained(step), BATCHES)
    warnings.filterwarnings("ignore", message=".*kinds of calls")
    compiled = trained(pyrite.compile(step))
    for _ in range(4):
        compiled(BATCHES.stop)
    yield "compiled", (compiled, BATCHES)


def torch_programs() -> Programs:
    """Give the same in PyTorch."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        FEATURES, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(FEATURES), False).eval()
    head, table = nn.Linear(FEATURES, WORDS), nn.Embedding(WORDS, FEATURES)
    rng = np.random.default_rng(0)

    def encode(length: int) -> Any:
        with torch.no_grad():
            return encoder(torch.from_numpy(drawn(rng, 8, length, FEATURES))).numpy()

    def generate(length: int) -> Any:
        words = torch.from_numpy(rng.integers(0, WORDS, (1, length)))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        with torch.no_grad():
            x = encoder(table(words), mask=mask, is_causal=True)
            return head(x[:, -1]).argmax(-1).item()

    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.GELU(), nn.Flatten(),
        nn.Linear(32 * 14 * 14, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)

    def train(batch: int) -> Any:
        x = torch.from_numpy(drawn(rng, batch, 1, 28, 28))
        y = torch.from_numpy(rng.integers(0, 10, batch))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    yield "encoder", (encode, range(10, 200))
    yield "generation", (generate, range(10, 200))
    yield "training", (train, BATCHES)
    yield "compiled", (train, BATCHES)


def drawn(rng: np.random.Generator, *shape: int) -> Any:
    """Return normal numbers."""
    return rng.standard_normal(shape, np.float32)


if __name__ == "__main__":
    main()
