"""Imported models beside onnxruntime, and beside the same networks written by hand.

ResNet-18 and a text encoder of MiniLM's size (6 layers of 384, 12 heads), with random weights, are
written in pyrite.nn, exported, and loaded again. Loading, the first run and a steady run are in
milliseconds; runs take turns, medians over rounds. ``hand`` is the imported model's steady time by
that of the one written by hand, ``ort`` by onnxruntime's: below 1 the imported one is the faster.
With ``--torch`` the files are PyTorch's instead, of the same networks in PyTorch: attention in
single ops, shapes computed in the graph. ``--inference`` loads with ``optimize="inference"``.

    python benchmarks/imported_models.py [--torch] [--inference] [--only bert] [--rounds 15]

onnxruntime and Pyrite have the same number of threads; on a machine that others use, take one and
the processor's time: OMP_NUM_THREADS=1 PYRITE_THREADS=1 ... --clock process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

import pyrite
from pyrite import Tensor, nn
from pyrite.onnx import export, load
from pyrite.types import Array

CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
#: Seconds between peers, so that nobody's threads still spin when the other starts.
PAUSE = 0.02
SPIN = 0.1
FEATURES, HEADS, LAYERS, TOKENS, LENGTH = 384, 12, 6, 30522, 128


class Block(nn.Module):
    """Two convolutions and what goes around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm(outputs)
        self.short = (
            nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm(outputs))
            if stride > 1 or inputs != outputs
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, D, H / stride, W / stride)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.short is None else self.short(x))).relu()


class ResNet18(nn.Module):
    """He et al. 2015."""

    def __init__(self) -> None:
        self.conv = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm(64)
        sizes = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.blocks = [b for i, o, stride in sizes for b in (Block(i, o, stride), Block(o, o, 1))]
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, 224, 224) -> (N, 1000)."""
        x = self.bn(self.conv(x)).relu().max_pool2d(3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


class Bert(nn.Module):
    """Devlin et al. 2018, of MiniLM's size."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(TOKENS, FEATURES)
        self.positions = nn.Embedding(512, FEATURES)
        self.norm = nn.LayerNorm(FEATURES)
        self.encoder = nn.TransformerEncoder(
            FEATURES, HEADS, 4 * FEATURES, LAYERS, norm_first=False
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Tokens and which of them count, (N, T) each -> (N, T, features)."""
        n, length = ids.shape
        x = self.tokens(ids) + self.positions(pyrite.arange(length, device=ids.device))
        return self.encoder(self.norm(x), mask=(mask != 0).reshape(n, 1, 1, length))


def image(batch: int) -> dict[str, Array]:
    """Return pictures of noise."""
    rng = np.random.default_rng(batch)
    return {"x": rng.standard_normal((batch, 3, 224, 224), np.float32)}


def text(batch: int) -> dict[str, Array]:
    """Return tokens, of which the last few do not count."""
    ids = np.random.default_rng(batch).integers(0, TOKENS, (batch, LENGTH))
    mask = np.ones((batch, LENGTH), np.int64)
    mask[:, -9:] = 0
    return {"ids": ids, "mask": mask}


class Network(NamedTuple):
    """A network written by hand, what it is given, and its axes that may have any size."""

    make: Callable[[], nn.Module]
    example: Callable[[int], dict[str, Array]]
    dynamic: dict[str, dict[int, str]]


NETWORKS = {
    "resnet18": Network(ResNet18, image, {"x": {0: "n"}}),
    "bert": Network(Bert, text, {"ids": {0: "n", 1: "t"}, "mask": {0: "n", 1: "t"}}),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    print(
        f"{'':14}{'load':>8}{'ort':>8}{'first':>9}{'ort':>8}{'steady':>9}{'by hand':>9}{'ort':>9}"
        f"{'hand':>8}{'ort':>8}"
    )
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            report(name, Path(folder) / "model.onnx", options)


def report(name: str, path: Path, options: argparse.Namespace) -> None:
    """Print the times of a network."""
    clock = CLOCKS[options.clock]
    network = NETWORKS[name]
    by_hand = made_by_hand(network, options.device)
    if options.torch:
        write_by_torch(name, network, path)
    else:
        export(by_hand, tensors(network.example(2), options.device), path, dynamic=network.dynamic)
    opening, imported = timed(
        lambda: load(
            path, device=options.device, optimize="inference" if options.inference else None
        ),
        clock,
    )
    their_opening, theirs = timed(lambda: session(path), clock)
    for batch in options.batch:
        arrays = network.example(batch)
        given = tensors(arrays, options.device)
        runs = (
            lambda m=imported, g=given: m(**g).numpy(),
            lambda g=given: by_hand(**g).numpy(),
            lambda a=arrays: theirs.run(None, a),
        )
        first, their_first = timed(runs[0], clock)[0], timed(runs[2], clock)[0]
        steady = measured(runs, clock, options.rounds)
        ours, hand, ort = (statistics.median(times) for times in steady)
        print(
            f"{name:10}{batch:4}{opening:8.0f}{their_opening:8.0f}{first:9.1f}{their_first:8.1f}"
            f"{ours:9.2f}{hand:9.2f}{ort:9.2f}{ratio(steady, 1):8.3f}{ratio(steady, 2):8.3f}",
            flush=True,
        )


def write_by_torch(name: str, network: Network, path: Path) -> None:
    """Write the network as PyTorch does, which folds batch norms into convolutions."""
    import torch_models

    made = {
        "resnet18": torch_models.ResNet18,
        "bert": lambda: torch_models.Bert(TOKENS, FEATURES, HEADS, LAYERS),
    }[name]()
    torch_models.write(made, network.example(2), network.dynamic, path)


def made_by_hand(network: Network, device: str) -> nn.Module:
    """Return a network of which no batch norm is the identity, on a device."""
    pyrite.seed(0)
    return network.make().to(device)


def tensors(arrays: dict[str, Array], device: str) -> dict[str, Tensor]:
    """Return arrays as tensors of a device."""
    return {name: pyrite.tensor(array, device=device) for name, array in arrays.items()}


def session(path: Path) -> Any:
    """Return onnxruntime's model of a file, with as many threads as Pyrite has."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("PYRITE_THREADS", "2"))
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed(run: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    """Return the milliseconds of one call, and what it returned."""
    begin = clock()
    found = run()
    return 1e3 * (clock() - begin), found


def measured(
    runs: Sequence[Callable[[], Any]], clock: Callable[[], float], rounds: int
) -> list[list[float]]:
    """Return the milliseconds of each, which take turns, each time in another order.

    onnxruntime, the last, comes after the others: its threads spin beyond its run, which would be
    counted as work of the next one.  The first three rounds do not count.
    """
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + 3):
        order = list(zip(runs, times, strict=True))
        pair = order[:2] if turn % 2 else order[1::-1]
        for run, found in (*pair, order[2]):
            time.sleep(PAUSE)
            took = timed(run, clock)[0]
            if turn >= 3:
                found.append(took)
        time.sleep(SPIN)
        timed(runs[turn % 2], clock)
    return times


def ratio(steady: Sequence[Sequence[float]], peer: int) -> float:
    """Return the median over rounds of the first one's time by a peer's."""
    return statistics.median(a / b for a, b in zip(steady[0], steady[peer], strict=True))


if __name__ == "__main__":
    main()
