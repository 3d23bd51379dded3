"""Pools of float32 and their gradients on the CPU: Pyrite's beside torch's, two threads, one run.

torch writes into results that it is given; Pyrite's come from its pool of memory.  They take turns,
with a pause between, so that nobody's threads still spin when the other starts.  The figures are
milliseconds, medians over rounds and the least; the last columns are torch's time by Pyrite's, of
the medians and of the least: above 1 Pyrite is the faster.

    python benchmarks/pooling.py [--only max "stride 1"] [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import OPS, Plan
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import Array

#: Seconds between peers.
PAUSE = 0.02

Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """Square windows over (N, C, H, W)."""

    shape: tuple[int, int, int, int]
    kernel: int
    stride: int
    padding: int

    @property
    def windows(self) -> dict[str, Any]:
        """The attributes of Pyrite's pools."""
        pair = (self.padding, self.padding)
        return {
            "kernel_size": (self.kernel, self.kernel),
            "stride": (self.stride, self.stride),
            "padding": (pair, pair),
        }


CASES = {
    "stride 1": Case((2, 32, 512, 512), 3, 1, 1),
    "stride 2": Case((2, 32, 512, 512), 3, 2, 1),
    "stride 3": Case((2, 32, 512, 512), 3, 3, 0),
    "resnet": Case((8, 64, 112, 112), 3, 2, 1),
    "mnist": Case((64, 8, 26, 26), 2, 2, 0),
    "digits": Case((32, 16, 8, 8), 2, 2, 0),
    "whole": Case((8, 512, 7, 7), 7, 7, 0),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    backend = CubeBackend(CpuRuntime(threads=2))
    print(f"{'':26} {'pyrite ms':>9} {'least':>9} {'torch ms':>9} {'least':>9}  ratio  of least")
    for name, case in CASES.items():
        for op, pyrite, theirs in peers(backend, case):
            title = f"{op}, {name}"
            if any(part in title for part in arguments.only):
                report(title, *measure(backend, pyrite, theirs, arguments.rounds))
    backend.runtime.close()


def peers(backend: CubeBackend, case: Case) -> Iterator[tuple[str, Run, Run]]:
    """Give the name of each op, and both that run it."""
    array = np.random.default_rng(0).standard_normal(case.shape).astype(np.float32)
    x, t = backend.upload(array), torch.from_numpy(array)
    attrs, sizes = case.windows, case.shape[2:]
    window = ([case.kernel] * 2, [case.stride] * 2, [case.padding] * 2)
    aten = torch.ops.aten
    values, places = aten.max_pool2d_with_indices(t, *window)
    g_array: Array = np.random.default_rng(1).standard_normal(values.shape).astype(np.float32)
    g, tg, tdx = backend.upload(g_array), torch.from_numpy(g_array), torch.empty_like(t)
    maximum = call(backend, "max_pool_with_indices", x, **attrs, dilation=(1, 1), ceil_mode=False)
    found = maximum()[1]
    hint = (*attrs.values(), (1, 1))
    means = {**attrs, "ceil_mode": False, "count_include_pad": True}
    yield (
        "max",
        maximum,
        lambda: aten.max_pool2d_with_indices.out(t, *window, out=values, indices=places),
    )
    yield (
        "max backward",
        call(backend, "max_pool_backward", g, found, sizes=sizes, windows=hint),
        lambda: aten.max_pool2d_with_indices_backward.grad_input(
            tg, t, *window, [1, 1], False, places, grad_input=tdx
        ),
    )
    yield (
        "avg",
        call(backend, "avg_pool", x, **means),
        lambda: aten.avg_pool2d.out(t, *window, out=values),
    )
    yield (
        "avg backward",
        call(backend, "avg_pool_backward", g, sizes=sizes, **means),
        lambda: aten.avg_pool2d_backward.grad_input(
            tg, t, *window, False, True, None, grad_input=tdx
        ),
    )


def call(backend: CubeBackend, name: str, *inputs: CubeTensor, **attrs: Any) -> Callable[[], Any]:
    """Return what runs an op of the table."""
    op = OPS[name]
    assert op.infer is not None
    types = op.infer(*(x.type for x in inputs), **attrs)
    out = types if isinstance(types, tuple) else (types,)
    plan = Plan(attrs, out, is_kept=True)
    return lambda: backend.execute(op, inputs, plan)


def measure(
    backend: CubeBackend, pyrite: Run, theirs: Run, rounds: int
) -> tuple[list[float], list[float]]:
    """Return the seconds of a call of each, by round."""
    ours: list[float] = []
    torchs: list[float] = []
    steps = 1
    while timed(pyrite, steps, backend.synchronize) < 0.005:
        steps *= 2
    for _ in range(rounds):
        for run, wait, times in (
            (pyrite, backend.synchronize, ours),
            (theirs, lambda: None, torchs),
        ):
            sleep(PAUSE)
            timed(run, 1, wait)
            times.append(timed(run, steps, wait) / steps)
    return ours, torchs


def timed(run: Run, steps: int, wait: Run) -> float:
    """Return the seconds of so many calls."""
    start = perf_counter()
    for _ in range(steps):
        run()
    wait()
    return perf_counter() - start


def report(title: str, ours: list[float], torchs: list[float]) -> None:
    """Print one line of the table."""
    cells = [f"{f(t) * 1e3:9.3f}" for t in (ours, torchs) for f in (statistics.median, min)]
    ratio = statistics.median(torchs) / statistics.median(ours)
    print(f"{title:26} {' '.join(cells)} {ratio:6.2f} {min(torchs) / min(ours):9.2f}", flush=True)


if __name__ == "__main__":
    main()
