"""Square float32 products on a GPU through wgpu, in TFLOP/s, checked on samples by NumPy.

    python benchmarks/gpu_matmul.py [--sizes 1024 2048 4096] [--all] [--seconds 0.5]

``--all`` times every candidate config, else the selected one.  torch's, where it has the same GPU,
stands below, and what part of it the selected one reaches.  A row's first time is that of
compiling, and of the first run.

A GPU that has been idle runs at a fraction of its clock for some 0.2 s of work (an H200 at 345 of
1,980 MHz, and at less than half where waits stand between short kernels), unless CUDA has it open:
so torch, where it is here, is asked first.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np

from pyrite.kernel.template import split_k
from pyrite.kernel.template.operand import row_major_map
from pyrite.kernel.template.product import Product
from pyrite.kernel.template.tiled_config import TiledConfig, candidates, select, workgroups
from pyrite.kernel.template.tiled_gemm import tiled_gemm
from pyrite.runtime.wgpu.runtime import WgpuRuntime
from pyrite.types import Array, float32

#: What the selected config has to reach, in TFLOP/s.
LIMITS = {1024: 34.0, 2048: 46.0, 4096: 48.0}

#: Elements that are compared with sums in float64.
SAMPLES = 4096


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    has_torch = open_cuda()
    runtime = WgpuRuntime()
    machine = runtime.machine
    print(runtime.device.name, machine)
    for size in arguments.sizes:
        random = np.random.default_rng(size)
        x, y = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        dense = row_major_map(float32, (), size, size)
        product = Product(dense, dense, dense)
        chosen = select(product, machine)
        rates = {}
        for config in candidates(product, machine) if arguments.all else [chosen]:
            mark = f"selected, limit {LIMITS.get(size, '-')}" if config == chosen else ""
            rates[config] = measure(runtime, product, config, x, y, arguments.seconds, mark)
        if has_torch:
            measure_torch(x, y, arguments.seconds, rates[chosen])
    runtime.close()


def measure(
    runtime: WgpuRuntime, product: Product, config: TiledConfig, x: Array, y: Array,
    seconds: float, mark: str,
) -> float:  # fmt: skip
    """Print and return the rate of one config; AssertionError if its numbers are wrong."""
    size = len(x)
    left, right = runtime.upload(x), runtime.upload(y)
    out = runtime.allocate(4 * size * size)
    partial = runtime.allocate(4 * size * size * config.split_k) if config.split_k > 1 else out
    begin = time.perf_counter()
    kernel = runtime.compile(tiled_gemm(product, config))
    added = runtime.compile(split_k.split_k(product, config.split_k, grid=2))
    groups = split_k.workgroups(product)
    grid = (min(groups, 32768), -(-groups // 32768))

    def run() -> None:
        runtime.launch(kernel, [left, right, partial], (workgroups(product, config),))
        if config.split_k > 1:
            runtime.launch(added, [partial, out], grid)

    run()
    runtime.synchronize()
    first = time.perf_counter() - begin
    check(x, y, runtime.read(out, float32, (size, size)))
    rate = 2e-12 * size**3 / timed(run, runtime.synchronize, seconds)
    print(f"{size:5}  {rate:7.3f} TFLOP/s  first {first:6.3f} s  {name_of(config)}  {mark}")
    return rate


def name_of(c: TiledConfig) -> str:
    """A config in short."""
    return (
        f"{c.block_m}x{c.block_n}x{c.block_k} of {c.thread_m}x{c.thread_n}, {c.stages} stages, "
        f"pad {c.pad}, split {c.split_k}"
    )


def open_cuda() -> bool:
    """Whether torch has a GPU, which then keeps its clock."""
    if not importlib.util.find_spec("torch"):
        return False
    import torch

    if torch.cuda.is_available():
        torch.zeros(1).cuda()
    return torch.cuda.is_available()


def measure_torch(x: Array, y: Array, seconds: float, ours: float) -> None:
    """Print torch's rate; without TF32, which rounds the factors."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    left, right = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
    out = torch.empty_like(left)
    one = timed(lambda: torch.matmul(left, right, out=out), torch.cuda.synchronize, seconds)
    theirs = 2e-12 * len(x) ** 3 / one
    print(
        f"{len(x):5}  {theirs:7.3f} TFLOP/s  torch {torch.__version__}: {ours / theirs:.2f} of it"
    )


def timed(run: Callable[[], object], wait: Callable[[], object], seconds: float) -> float:
    """Return the time of one call, by as many as fill the seconds, sent off together."""
    begin = time.perf_counter()
    run()
    wait()
    count = max(int(seconds / (time.perf_counter() - begin)), 3)
    begin = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - begin) / count


def check(x: Array, y: Array, got: Array) -> None:
    """Compare elements at random places with their sums in float64."""
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, len(x), (2, min(SAMPLES, x.size)))
    want = np.einsum("ik,ik->i", x[rows].astype(np.float64), y.T[columns].astype(np.float64))
    error = np.abs(got[rows, columns] - want).max()
    assert error < 1e-6 * len(x), f"an element is wrong by {error}"


if __name__ == "__main__":
    main()
