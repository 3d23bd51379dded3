"""Convolutions and their gradients on the CPU: Pyrite's beside torch's, float32, in one run.

Each round times both in turn with a pause between, so that nobody's threads still spin when the
other starts. The figures are microseconds for one call, results allocated, medians over rounds and
the least; then torch's time by Pyrite's, of both: above 1 Pyrite is the faster. On a computer that
others use too, the least processor time of one thread (--busy) tells the kernels apart: threads
that wait for each other measure the others' load. Results are compared first.

    python benchmarks/convolution.py [--only digits resnet …] [--rounds 5] [--threads 1] [--busy]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyrite.backend.cube import CubeBackend
from pyrite.op import OPS, Plan
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.types import Array, TensorType, float32

#: Seconds between peers: longer than their threads spin.
PAUSE = 0.05
#: Seconds that a peer is timed in a round.
SPAN = 0.04

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """A layer: (N, C, *S) by ``outputs`` filters of ``kernel`` squared."""

    shape: tuple[int, int, int, int]
    outputs: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        """Places before and after an axis."""
        return self.kernel // 2


CASES = {
    "digits 1": Case((32, 1, 8, 8), 16),
    "digits 2": Case((32, 16, 4, 4), 32),
    "mnist 1": Case((64, 1, 28, 28), 8),
    "mnist 2": Case((64, 8, 26, 26), 16),
    "mnist 3": Case((64, 16, 24, 24), 24),
    "resnet": Case((8, 64, 56, 56), 64),
    "resnet strided": Case((8, 64, 56, 56), 128, stride=2),
    "resnet first": Case((8, 3, 224, 224), 64, kernel=7, stride=2),
    "pointwise": Case((8, 64, 56, 56), 128, kernel=1),
    "depthwise": Case((8, 64, 56, 56), 64, groups=64),
    "depthwise strided": Case((8, 64, 56, 56), 64, stride=2, groups=64),
    "depthwise 5": Case((8, 96, 14, 14), 96, kernel=5, groups=96),
    "grouped": Case((8, 64, 28, 28), 64, groups=8),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--busy", action="store_true", help="processor time of one thread")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.busy else time.perf_counter
    threads = 1 if arguments.busy else arguments.threads
    backend = CubeBackend(CpuRuntime(threads=threads))
    torch.set_num_threads(threads or torch.get_num_threads())
    print(f"{'':38} pyrite µs      least   torch µs      least  ratio  of least")
    for name, case in CASES.items():
        if any(part in name for part in arguments.only):
            measure(backend, name, case, arguments.rounds, clock)
    backend.runtime.close()


def measure(backend: CubeBackend, name: str, case: Case, rounds: int, clock: Clock) -> None:
    """Print the times of one layer's three products."""
    random = np.random.default_rng(0)
    batch, channels, *sizes = case.shape
    shape = (case.outputs, channels // case.groups, case.kernel, case.kernel)
    counts = [(n + 2 * case.padding - case.kernel) // case.stride + 1 for n in sizes]
    x, weight, g = (
        random.standard_normal(s, dtype=np.float32)
        for s in (case.shape, shape, (batch, case.outputs, *counts))
    )
    attrs: dict[str, Any] = {
        "stride": (case.stride,) * 2, "padding": ((case.padding,) * 2,) * 2, "dilation": (1, 1),
        "groups": case.groups,
    }  # fmt: skip
    runs = [
        ("forward", "convolution", (x, weight), g.shape, attrs),
        ("input gradient", "convolution_input_gradient", (g, weight), x.shape,
         {**attrs, "sizes": tuple(sizes)}),
        ("weight gradient", "convolution_weight_gradient", (x, g), shape,
         {**attrs, "kernel_size": (case.kernel,) * 2}),
    ]  # fmt: skip
    theirs = torch_runs(case, x, weight, g)
    for (what, op, inputs, out, given), their in zip(runs, theirs, strict=True):
        ours = pyrite_run(backend, op, inputs, out, given)
        got, want = backend.download(ours()[0]), np.asarray(their())
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
        peers = [(ours, backend.synchronize), (their, _nothing)]
        times: list[list[float]] = [[], []]
        for _ in range(rounds):
            for found, (run, wait) in zip(times, peers, strict=True):
                time.sleep(PAUSE)
                found.append(_seconds(run, wait, clock))
        cells = [f"{f(t) * 1e6:10.1f}" for t in times for f in (statistics.median, min)]
        ratios = [f(times[1]) / f(times[0]) for f in (statistics.median, min)]
        row = f"{name:18} {what:18} {' '.join(cells)}"
        print(f"{row}  {ratios[0]:5.2f}  {ratios[1]:8.2f}", flush=True)


def pyrite_run(
    backend: CubeBackend, op: str, arrays: tuple[Array, ...], shape: tuple[int, ...], attrs: Any
) -> Callable[[], Any]:
    """Return what runs an op of Pyrite."""
    handles = [backend.upload(a) for a in arrays]
    out = (TensorType(shape, float32),)
    plan = Plan(attrs, out, is_kept=True)
    return lambda: backend.execute(OPS[op], handles, plan)


def torch_runs(case: Case, x: Array, weight: Array, g: Array) -> list[Callable[[], Any]]:
    """Return what runs torch's convolution, and each of its gradients."""
    tx, tw, tg = (torch.from_numpy(a) for a in (x, weight, g))
    geometry = ([case.stride] * 2, [case.padding] * 2, [1, 1], False, [0, 0], case.groups)
    backward = torch.ops.aten.convolution_backward
    return [
        lambda: torch.ops.aten.convolution(tx, tw, None, *geometry),
        lambda: backward(tg, tx, tw, None, *geometry, [True, False, False])[0],
        lambda: backward(tg, tx, tw, None, *geometry, [False, True, False])[1],
    ]


def _nothing() -> None:
    """What torch needs to be done: it is, when its call returns."""


def _seconds(run: Run, wait: Run, clock: Clock) -> float:
    """Return the time of one call, of as many as fit in `SPAN`."""
    run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    count = max(int(SPAN / (time.perf_counter() - start)), 1)
    start = clock()
    for _ in range(count):
        run()
    wait()
    return (clock() - start) / count


if __name__ == "__main__":
    main()
