"""GELU of float32 on the CPU runtime: against a copy and PyTorch's, in one run, two threads.

The kernel is what the op table's scalar rule becomes.  All three write into memory that they were
given.  They take turns; printed are medians in microseconds, and their ratio to the median of a
copy of the same size by the runtime.  The bound is 1.15 at 16 Mi elements.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter, sleep

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.target.llvm import to_llvm
from pyrite.kernel.trace import trace
from pyrite.op import OPS
from pyrite.runtime.cpu.runtime import CpuRuntime, lowered
from pyrite.types import float32, int64

try:
    import torch
except ImportError:
    torch = None

#: Elements of a workgroup, and vectors of a round of its loop.
BLOCK, TOGETHER = 4096, 2


def gelu(width: int) -> Kernel:
    """The kernel of the op `gelu`, on workgroups of BLOCK elements."""
    rule = OPS["gelu"].scalar
    assert rule is not None
    b = KernelBuilder("gelu", index=int64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    start = b.workgroup_id() * BLOCK
    with b.for_(start, start + BLOCK, step=width * TOGETHER) as loop:
        at = [loop.index + width * i for i in range(TOGETHER)]
        values = [x.load(i, width=width, is_aligned=True) for i in at]
        for i, value in zip(at, values, strict=True):
            y.store(i, trace(b, rule, [value], float32, approximate="none"), is_aligned=True)
    return b.build()


def main() -> None:
    """Print compile time and the table."""
    runtime = CpuRuntime(threads=2)
    kernel = gelu(runtime.target.lanes(float32))
    print_compile_time(runtime, kernel)
    executable = runtime.compile(kernel)
    print(f"{'elements':>10} {'copy':>9} {'pyrite':>9} {'torch':>9}   to a copy: pyrite  torch")
    for count in (1 << 16, 1 << 20, 1 << 24):
        array = np.random.default_rng(0).standard_normal(count).astype(np.float32)
        x, y = runtime.upload(array), runtime.allocate(array.nbytes)

        contestants: dict[str, Callable[[int], None]] = {
            "copy": partial(repeat, runtime, partial(runtime.copy, x, y)),
            "pyrite": partial(
                repeat, runtime, partial(runtime.launch, executable, [x, y], [count // BLOCK])
            ),
        }
        if torch is not None:
            source = torch.from_numpy(array)
            contestants["torch"] = partial(run_torch, source, torch.empty_like(source))
        report(count, alternate(contestants, steps=max(1, (1 << 20) // count)))


def print_compile_time(runtime: CpuRuntime, kernel: Kernel) -> None:
    """The parts of a first compile: passes and printing, and LLVM."""
    times = []
    for _ in range(5):
        start = perf_counter()
        text = to_llvm(lowered(kernel, runtime.target), runtime.target)
        middle = perf_counter()
        runtime.compiler.compile(text)
        times.append((middle - start, perf_counter() - middle))
    ours, llvms = (statistics.median(t) * 1e3 for t in zip(*times, strict=True))
    print(f"compile: passes and text {ours:.1f} ms, LLVM {llvms:.1f} ms")


def repeat(runtime: CpuRuntime, append: Callable[[], None], steps: int) -> None:
    """Append so many times, and wait once."""
    for _ in range(steps):
        append()
    runtime.synchronize()


def run_torch(x: torch.Tensor, out: torch.Tensor, steps: int) -> None:
    """PyTorch's GELU, into an output that it is given."""
    torch.set_num_threads(2)
    for _ in range(steps):
        torch.ops.aten.gelu.out(x, out=out)


def alternate(contestants: dict[str, Callable[[int], None]], steps: int) -> dict[str, float]:
    """The median seconds of a step of each; they take turns, so that all see the same noise."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(31):
        for name, function in contestants.items():
            # PyTorch's threads go on looking for work for a while.
            sleep(0.005)
            function(1)
            start = perf_counter()
            function(steps)
            times[name].append((perf_counter() - start) / steps)
    return {name: statistics.median(t) for name, t in times.items()}


def report(count: int, medians: dict[str, float]) -> None:
    """One line of the table."""
    names = ("copy", "pyrite", "torch")
    cells = [f"{medians[n] * 1e6:9.1f}" if n in medians else f"{'-':>9}" for n in names]
    ratios = [f"{medians[n] / medians['copy']:6.2f}" for n in ("pyrite", "torch") if n in medians]
    print(f"{count:10} {' '.join(cells)}              {' '.join(ratios)}")


if __name__ == "__main__":
    main()
