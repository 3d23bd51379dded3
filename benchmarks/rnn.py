"""LSTM, GRU, RNN, and a step with dropout: Pyrite beside torch on the CPU, in turns of one run.

Forward alone, and forward with the gradients of input and weights.  The figures are milliseconds,
the least and the median over rounds; the last columns are Pyrite's time by torch's: below 1 Pyrite
is the faster.  On a machine that others use take one thread and the time of the processor, which
counts no waiting: OMP_NUM_THREADS=1 PYRITE_THREADS=1 ... --clock process.

    python benchmarks/rnn.py [--device cpu torch:cpu] [--only LSTM] [--rounds 15] [--clock process]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import pyrite
from pyrite import nn
from pyrite.autodiff import value_and_grad

Run = Callable[[], object]

#: Layers, features, steps, batch.
SIZES = ((2, 200, 35, 20), (1, 64, 32, 8), (1, 512, 50, 32))
#: Rows and features of a network with dropout between two linear layers.
DROPOUTS = ((64, 128), (128, 512), (256, 1024))
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}
#: Seconds between peers, so that nobody's threads still spin when the other starts.
PAUSE = 0.005


class Case(NamedTuple):
    """The same work by both."""

    name: str
    theirs: Run
    ours: Run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", nargs="+", default=["cpu", "torch:cpu"])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(f"{'':44}{'torch':>16}{'pyrite':>18}{'ratio of':>12}")
    print(f"{'':44}{'least':>8}{'median':>8}{'least':>10}{'median':>8}{'least':>7}{'median':>8}")
    for device in options.device:
        for case in cases(device):
            if any(word in case.name for word in options.only):
                report(case, CLOCKS[options.clock], options.rounds)


def report(case: Case, clock: Callable[[], float], rounds: int) -> None:
    """Print the times of a case."""
    theirs, ours = measured((case.theirs, case.ours), clock, rounds)
    least, median = min(ours) / min(theirs), statistics.median(ours) / statistics.median(theirs)
    times = "".join(f"{min(t):10.2f}{statistics.median(t):8.2f}" for t in (theirs, ours))
    print(f"{case.name:42}{times}{least:7.2f}{median:8.2f}", flush=True)


def measured(runs: tuple[Run, ...], clock: Callable[[], float], rounds: int) -> list[list[float]]:
    """Return the milliseconds of each, which take turns; the first three rounds do not count."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + 3):
        for run, found in zip(runs, times, strict=True):
            time.sleep(PAUSE)
            begin = clock()
            run()
            if turn >= 3:
                found.append(1e3 * (clock() - begin))
    return times


def cases(device: str) -> Iterator[Case]:
    """Yield what is measured on a device."""
    for size in SIZES:
        for kind in ("LSTM", "GRU", "RNN"):
            yield from layers(device, kind, *size)
    for rows, features in DROPOUTS:
        yield with_dropout(device, rows, features)


def layers(
    device: str, kind: str, count: int, features: int, steps: int, batch: int
) -> Iterator[Case]:
    """Yield forward, and forward with gradients, of stacked layers of one kind."""
    theirs = getattr(torch.nn, kind)(features, features, count)
    x = torch.randn(steps, batch, features, requires_grad=True)
    ours = getattr(nn, kind)(features, features, count, batch_first=False, device=device)
    our_x = pyrite.tensor(x.detach().numpy(), device=device)
    step = value_and_grad(lambda layer, x: layer(x)[0].sum(), (0, 1))

    def their_forward() -> None:
        with torch.no_grad():
            theirs(x)

    def their_step() -> None:
        theirs.zero_grad()
        x.grad = None
        theirs(x)[0].sum().backward()

    def our_step() -> None:
        _, (grads, of_x) = step(ours, our_x)
        done(of_x, *(grads[p] for p in ours.parameters()))

    name = f"{device} {kind} {count} x {features}, {steps} steps of {batch}"
    yield Case(f"{name}, forward", their_forward, lambda: done(ours(our_x)[0]))
    yield Case(f"{name}, step", their_step, our_step)


class Dropped(nn.Module):
    """Two linear layers with dropout between."""

    def __init__(self, features: int, device: str) -> None:
        self.first = nn.Linear(features, features, device=device)
        self.dropout = nn.Dropout(0.5)
        self.second = nn.Linear(features, features, device=device)

    def forward(self, x: Any) -> Any:
        """Return the outputs."""
        return self.second(self.dropout(self.first(x).relu()))


def with_dropout(device: str, rows: int, features: int) -> Case:
    """Return a step of two linear layers with dropout between."""
    theirs = torch.nn.Sequential(
        torch.nn.Linear(features, features), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Linear(features, features),
    )  # fmt: skip
    ours, x = Dropped(features, device), torch.randn(rows, features)
    our_x = pyrite.tensor(x.numpy(), device=device)
    step = value_and_grad(lambda net, x: (net(x) ** 2).mean())

    def their_step() -> None:
        theirs.zero_grad()
        (theirs(x) ** 2).mean().backward()

    def our_step() -> None:
        _, grads = step(ours, our_x)
        done(*(grads[p] for p in ours.parameters()))

    return Case(f"{device} dropout {rows} x {features}, step", their_step, our_step)


def done(*tensors: Any) -> None:
    """Wait until all values are computed."""
    for x in tensors:
        x.device.backend.wait(x._handle)


if __name__ == "__main__":
    main()
