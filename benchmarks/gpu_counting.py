"""Counts and writes of integers by index through wgpu, beside the WGSL that a person would write.

    python benchmarks/gpu_counting.py [--elements 1048576] [--bins 1000] [--device wgpu]

All take turns; printed are medians in milliseconds, and how often the hand-written kernel, which
counts by atomics and nothing else, fits into each.  Floats are added in one order, so they are
sorted first.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import pyrite
from pyrite.backend.device import device
from pyrite.runtime.wgpu.executable import Signature

#: How many rounds are timed, and how often each runs in one before it is waited for.
ROUNDS, RUNS = 9, 5

COUNT = """\
@group(0) @binding(0) var<storage, read> x: array<i32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<i32>>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) all: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (workgroup.y * all.x + workgroup.x) * 256u + local;
  let bin = x[i];
  if (bin >= 0 && u32(bin) < arrayLength(&counts)) {
    atomicAdd(&counts[bin], 1);
  }
}
"""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 20)
    parser.add_argument("--bins", type=int, default=1000)
    parser.add_argument("--device", default="wgpu")
    given = parser.parse_args()
    backend: Any = device(given.device).backend.root
    rng = np.random.default_rng(0)
    x, v = (
        pyrite.tensor(rng.integers(0, given.bins, given.elements, np.int32), device=given.device)
        for _ in "xv"
    )
    weights = v.astype("float32")
    base = pyrite.zeros((given.bins,), dtype="int32", device=given.device)
    runs: dict[str, Callable[[], object]] = {
        "written by hand": written(backend, x, given.bins),
        "bincount": lambda: x.bincount(size=given.bins),
        "at[].add of integers": lambda: base.at[x].add(v),
        "at[].max of integers": lambda: base.at[x].max(v),
        "at[].set": lambda: base.at[x].set(v),
        "bincount of float weights": lambda: x.bincount(weights, size=given.bins),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(seconds(run, backend.synchronize))
    best = statistics.median(times["written by hand"])
    print(f"{given.elements:,} elements, {given.bins} bins, {given.device}")
    for name, found in times.items():
        middle = statistics.median(found)
        print(f"{name:26} {middle * 1e3:9.3f} ms  {middle / best:6.2f}")


def seconds(run: Callable[[], object], wait: Callable[[], None]) -> float:
    """Return the time of one run, of a few that are sent off together."""
    run()
    wait()
    begin = perf_counter()
    for _ in range(RUNS):
        run()
    wait()
    return (perf_counter() - begin) / RUNS


def written(backend: Any, x: Any, bins: int) -> Callable[[], object]:
    """Return a run of the kernel that a person would write, which counts on in one buffer."""
    runtime, source = backend.runtime, x._handle
    signature = Signature("count", (None, None), (False, True), 2)
    executable = runtime.compile_wgsl(COUNT, signature)
    target = runtime.upload(np.zeros(bins, np.int32))
    workgroups = -(-source.type.size // 256)
    grid = (min(workgroups, 32768), -(-workgroups // 32768))
    return lambda: runtime.launch(executable, [source.buffer, target], grid)


if __name__ == "__main__":
    main()
