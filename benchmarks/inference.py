"""ResNet-18 for one picture, beside PyTorch in both layouts, torch.compile and onnxruntime.

    python benchmarks/inference.py [--batch 1] [--rounds 15] [--only pyrite torch] [--json FILE]

All have the weights of one network in PyTorch, in float32 and evaluation, and the same threads; a
peer whose scores are not ours is not counted, and named.  ``pyrite`` is the model called as anyone
would, ``compiled`` by `pyrite.compile`; ``last`` is PyTorch with channels last, ``compile``
torch.compile of that, ``ort`` onnxruntime with the file that PyTorch writes, whose batch norms it
folds.  All take turns; printed are medians in milliseconds, and how many times as fast Pyrite's
better one is.  The limit is the operations of the convolutions over the rate of the fastest
product, measured here.

On a machine that others use take one thread and the time of the processor, which counts no waiting:
OMP_NUM_THREADS=1 PYRITE_THREADS=1 ... --clock process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_models
from imported_models import ResNet18
from peers import CLOCKS

import pyrite
from pyrite.types import Array

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
#: Seconds between peers, so that nobody's threads still spin when the other starts.
PAUSE = 0.02
#: How far the scores of peers may lie from each other, by the largest.
TOLERANCE = 1e-3

Run = Callable[[], Array]


def main() -> None:
    """Print a line for each peer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    theirs = with_statistics(torch_models.ResNet18())
    x = np.random.default_rng(0).standard_normal((options.batch, 3, 224, 224), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        runs = right(made(theirs, x, Path(folder), options.only))
    found = measured(runs, CLOCKS[options.clock], options.rounds)
    limit = operations(theirs, x) / rate(CLOCKS[options.clock])
    show(found, limit)
    if options.json:
        options.json.write_text(json.dumps({**found, "limit": limit}))


def with_statistics(model: torch.nn.Module) -> torch.nn.Module:
    """Return a model whose batch norms are not the identity."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
    return model.eval()


def made(model: torch.nn.Module, x: Array, folder: Path, only: list[str]) -> dict[str, Run]:
    """Return what runs each peer on a batch."""
    makers: dict[str, Callable[[], Run]] = {
        "pyrite": lambda: of_pyrite(model, x, folder, lambda m: m),
        "compiled": lambda: of_pyrite(model, x, folder, pyrite.compile),
        "torch": lambda: of_torch(model, x, torch.contiguous_format),
        "last": lambda: of_torch(model, x, torch.channels_last),
        "compile": lambda: of_torch(model, x, torch.channels_last, torch.compile),
        "ort": lambda: of_onnxruntime(model, x, folder),
    }
    return {name: make() for name, make in makers.items() if not only or name in only}


def of_pyrite(
    model: torch.nn.Module, x: Array, folder: Path, compiled: Callable[[Any], Any]
) -> Run:
    """Return ours, with the weights of PyTorch's."""
    path = folder / "weights.pt"
    torch.save(model.state_dict(), path)
    mine = compiled(ResNet18().with_training(False).load(path).to("cpu"))
    given = pyrite.tensor(x, device="cpu")
    return lambda: np.asarray(mine(given).numpy())


def of_torch(
    model: torch.nn.Module, x: Array, form: torch.memory_format, compiled: Any = lambda m: m
) -> Run:
    """Return PyTorch's, in a layout."""
    mine = compiled(model.to(memory_format=form))
    given = torch.from_numpy(x).to(memory_format=form)

    def run() -> Array:
        with torch.inference_mode():
            return mine(given).numpy()

    return run


def of_onnxruntime(model: torch.nn.Module, x: Array, folder: Path) -> Run:
    """Return onnxruntime's."""
    import onnxruntime

    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_models.write(model, {"x": x}, {"x": {}}, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def right(runs: dict[str, Run]) -> dict[str, Run]:
    """Return those whose scores are those of the first; name the others."""
    scores = {name: [run(), run(), run(), run()][-1] for name, run in runs.items()}
    first = next(iter(scores.values()))
    wrong = [
        name for name, found in scores.items()
        if np.abs(found - first).max() > TOLERANCE * np.abs(first).max()
    ]  # fmt: skip
    for name in wrong:
        print(f"{name} computes something else, and is not counted")
    return {name: run for name, run in runs.items() if name not in wrong}


def measured(runs: dict[str, Run], clock: Callable[[], float], rounds: int) -> dict[str, float]:
    """Return the median seconds of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs) if number % 2 else reversed(runs):
            time.sleep(PAUSE)
            runs[name]()
            for _ in range(3):
                start = clock()
                runs[name]()
                times[name].append(clock() - start)
    return {name: statistics.median(of) for name, of in times.items()}


def operations(model: torch.nn.Module, x: Array) -> float:
    """Return the multiplications and additions of the convolutions and of the last layer."""
    found = [0.0]

    def count(module: Any, _: Any, out: Any) -> None:
        found[0] += 2.0 * out.numel() * module.weight[0].numel()

    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, kinds)]
    with torch.inference_mode():
        model(torch.from_numpy(x))
    for hook in hooks:
        hook.remove()
    return found[0]


def rate(clock: Callable[[], float]) -> float:
    """Return the operations a second of the fastest of some products."""
    x = torch.ones(1024, 1024)
    x @ x
    times = []
    for _ in range(5):
        start = clock()
        x @ x
        times.append(clock() - start)
    return 2.0 * 1024**3 / min(times)


def show(found: dict[str, float], limit: float) -> None:
    """Print the table."""
    ours = min((t for name, t in found.items() if name in ("pyrite", "compiled")), default=None)
    for name, seconds in found.items():
        by = "" if ours is None or name in ("pyrite", "compiled") else f"{seconds / ours:8.2f}"
        print(f"{name:10}{seconds * 1e3:9.2f}{by}")
    print(f"{'limit':10}{limit * 1e3:9.2f}")


if __name__ == "__main__":
    main()
