"""Attention's kernels on a GPU through wgpu, by timestamp queries: every tile.

    python benchmarks/gpu_attention.py [--shape 8 12 1024 64] [--causal] [--layers 12]

Each config of tiles runs the forward kernel and both kernels of gradients, where it is one for
them, on a device of its own, for a plan keeps its config; what is selected otherwise stands below.
The last head is compared with NumPy's in float64.  Printed are
milliseconds and TFLOP/s: a product is 2 N H T² D operations, half of it causal; forward has two,
gradients of keys and values four, of queries one, or three where nothing is kept of the scores;
where probabilities are kept the kernel of scores has two, and three are products of matrices.
The last line adds up the best of each, and torch's step stands below, where it has the same GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import numpy as np

import pyrite
from pyrite.autodiff import value_and_grad
from pyrite.backend.cube.skeleton.attention import tile_config
from pyrite.backend.cube.skeleton.attention.workgroup import TileConfig
from pyrite.backend.cube.wgpu import Wgpu
from pyrite.backend.device import Device
from pyrite.kernel.machine import Machine
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.timestamps import Timestamps
from pyrite.types import Array

#: Products of each kernel.
PRODUCTS = {
    "tiled attention": 2, "tiled attention gradient of queries": 3,
    "tiled attention gradient of keys": 4, "tiled attention gradient of scores": 2, "tiled_gemm": 3,
}  # fmt: skip
#: Runs that are timed, after one that is not.
RUNS = 4


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=4, default=[8, 12, 1024, 64])
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--layers", type=int, default=12)
    given = parser.parse_args()
    arrays = [np.random.default_rng(0).standard_normal(given.shape, np.float32) for _ in "qkv"]
    work = 2.0 * arrays[0].size * given.shape[2] * (0.5 if given.causal else 1.0)
    want = by_numpy(arrays, is_causal=given.causal)
    best: defaultdict[str, float] = defaultdict(lambda: np.inf)
    select = tile_config.select
    for config in tile_config.CONFIGS:
        chosen: list[TileConfig] = []

        def take(
            found: Any, rows: int, heads: int, machine: Machine, config: TileConfig = config,
            chosen: Any = chosen,
        ) -> TileConfig:  # fmt: skip
            selected = select(found, rows, heads, machine)
            chosen.append(selected)
            return config if config in found else selected

        tile_config.select = take
        times, error = measured(arrays, want, is_causal=given.causal)
        tile_config.select = select
        print(f"{config}, largest error {error:.0e}")
        for name, seconds in times.items():
            best[name] = min(best[name], seconds)
            count = 1 if given.causal and name == "tiled_gemm" else PRODUCTS.get(name, 0)
            rate = 1e-12 * count * work / seconds
            print(f"    {name:40} {1e3 * seconds:8.3f} ms {rate:6.1f} TFLOP/s", flush=True)
        print(f"    selected: {', '.join(map(str, dict.fromkeys(chosen)))}")
    total = 1e3 * given.layers * sum(best.values())
    print(f"the best of each, {given.layers} layers: {total:.1f} ms")
    by_torch(arrays, given.layers, is_causal=given.causal)


def measured(
    arrays: list[Array], want: list[Array], *, is_causal: bool
) -> tuple[dict[str, float], float]:
    """Return the seconds of each kernel of a step, and the largest error of its results."""
    backend = Wgpu()
    device, runtime = Device(backend), cast(WgpuRuntime, backend.runtime)
    inputs = [pyrite.tensor(a, device=device) for a in arrays]

    def attention(q: Any, k: Any, v: Any) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=is_causal)

    step = value_and_grad(lambda *x: attention(*x).sum(), (0, 1, 2))
    results = [attention(*inputs), *step(*inputs)[1]]
    errors = [np.abs(r[-1, -1].numpy() - w).max() for r, w in zip(results, want, strict=True)]
    found: defaultdict[str, list[float]] = defaultdict(list)
    for run in range(RUNS + 1):
        timestamps = Timestamps(runtime.device)
        with runtime.timed(timestamps):
            step(*inputs)
        runtime.synchronize()
        taken: defaultdict[str, float] = defaultdict(float)
        for one, begin, end in timestamps.read():
            taken[one.name] += end - begin
        for name, seconds in taken.items() if run else ():
            found[name].append(seconds)
    runtime.close()
    return {name: statistics.median(times) for name, times in found.items()}, max(errors)


def by_numpy(arrays: list[Array], *, is_causal: bool) -> list[Array]:
    """Return the output and the gradients of its sum, of the last head, in float64."""
    q, k, v = (a[-1, -1].astype(np.float64) for a in arrays)
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ k.T * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape) > 0, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    g = np.ones_like(q @ v.T @ v)
    of_p = g @ v.T
    of_scores = p * (of_p - (of_p * p).sum(-1, keepdims=True))
    return [p @ v, of_scores @ k * scale, of_scores.T @ q * scale, p.T @ g]


def by_torch(arrays: list[Array], layers: int, *, is_causal: bool) -> None:
    """Print torch's step, if it has a GPU."""
    if not importlib.util.find_spec("torch"):
        return
    import torch

    if not torch.cuda.is_available():
        return
    inputs = [torch.from_numpy(a).cuda().requires_grad_() for a in arrays]
    attention = torch.nn.functional.scaled_dot_product_attention

    def step() -> Any:
        return torch.autograd.grad(attention(*inputs, is_causal=is_causal).sum(), inputs)

    seconds = timed_by_events(torch, step)
    print(f"torch {torch.__version__}: {1e3 * seconds:.3f} ms, {1e3 * layers * seconds:.1f} ms")


def timed_by_events(torch: Any, run: Callable[[], object], count: int = 10) -> float:
    """Return the seconds of a run."""
    for _ in range(3):
        run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3 / count


if __name__ == "__main__":
    main()
