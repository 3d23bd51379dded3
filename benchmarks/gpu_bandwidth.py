"""Ops bound by memory on a GPU through wgpu, in TB/s and as parts of a copy, beside torch's.

    python benchmarks/gpu_bandwidth.py [--elements 67108864] [--row 4096] [--device wgpu]

The copy is the best of torch's, a copy kernel of this backend, and a hand-written one in WGSL; the
limits are 0.85 of it for elementwise ops and 0.7 for sums, softmax and layer norm.  Counted are the
bytes that an op has to read and write.  An op runs many times in a row, each into a new tensor
whose memory comes from the pool, and the time is the median of three such rows.  ``one`` is the
time of a single op waited for, which adds the way to the device and back.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import pyrite
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.device import device
from pyrite.runtime.wgpu.executable import Signature

#: How often an op runs between two waits, so often that the host is ahead of the device but for the
#: first submission; and how many such rows are timed.
RUNS, ROWS = 400, 3

Run = Callable[[], object]

COPY = """\
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) all: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (workgroup.y * all.x + workgroup.x) * 256u + local;
  y[i] = x[i];
}
"""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=64 << 20)
    parser.add_argument("--row", type=int, default=4096)
    parser.add_argument("--device", default="wgpu")
    arguments = parser.parse_args()
    backend: Any = device(arguments.device).backend.root
    shape = (arguments.elements // arguments.row, arguments.row)
    count, wait = shape[0] * shape[1], backend.synchronize
    print(f"{arguments.device}, {count:,} float32 in rows of {arguments.row}, TB/s")
    array = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x = pyrite.tensor(array, device=arguments.device)
    other = pyrite.tensor(array[:, ::-1].copy(), device=arguments.device)
    of_torch = peer(array)
    copies = {"copy in WGSL": written_copy(backend, x), "copy": copied(backend, x)}
    times = {name: measured(run, wait) for name, run in copies.items()}
    theirs = {name: measured(*run) for name, run in of_torch.items()}
    best = min([*times.values(), *(t for name, t in theirs.items() if name in copies)])
    runs: dict[str, tuple[int, float, Run]] = {
        "add": (3, 0.85, lambda: x + other),
        "gelu": (2, 0.85, lambda: x.gelu()),
        "sum over columns": (1, 0.7, lambda: x.sum(0)),
        "sum over rows": (1, 0.7, lambda: x.sum(1)),
        "sum": (1, 0.7, lambda: x.sum()),
        "max over rows": (1, 0.7, lambda: x.max(1)),
        "softmax": (2, 0.7, lambda: x.softmax(1)),
        "layer_norm": (2, 0.7, lambda: x.layer_norm()),
    }
    for name, seconds in times.items():
        show(name, 2, count, seconds, best, None, theirs.get(name), None)
    for name, (passes, limit, run) in runs.items():
        seconds = measured(run, wait)
        show(name, passes, count, seconds, best, limit, theirs.get(name), single(run, wait))


def show(
    name: str, passes: int, count: int, seconds: float, copy: float, limit: float | None,
    theirs: float | None, one: float | None,
) -> None:  # fmt: skip
    """Print a row."""
    rate = 4e-12 * passes * count / seconds
    part = rate / (8e-12 * count / copy)
    line = f"{name:18} {rate:6.3f}  {part:5.2f} of a copy"
    line += "              " if limit is None else f" (limit {limit:4.2f})"
    if theirs is not None:
        line += f"  torch {4e-12 * passes * count / theirs:6.3f}, {theirs / seconds:5.2f} of it"
    print(line + (f"  one: {one * 1e6:7.1f} µs" if one is not None else ""), flush=True)


def measured(run: Run, wait: Run) -> float:
    """Return the median time of one run, of many sent off together."""
    run()
    wait()
    times = []
    for _ in range(ROWS):
        begin = perf_counter()
        for _ in range(RUNS):
            run()
        wait()
        times.append((perf_counter() - begin) / RUNS)
    return statistics.median(times)


def single(run: Run, wait: Run) -> float:
    """Return the median time of one run that is waited for."""
    times = []
    for _ in range(ROWS):
        begin = perf_counter()
        run()
        wait()
        times.append(perf_counter() - begin)
    return statistics.median(times)


def written_copy(backend: Any, x: Any) -> Run:
    """Return a run of the copy that a person would write."""
    runtime, source = backend.runtime, x._handle
    signature = Signature("copy", (None, None), (False, True), 2)
    executable = runtime.compile_wgsl(COPY, signature)
    target = runtime.allocate(source.type.nbytes)
    workgroups = source.type.size // 1024
    grid = (min(workgroups, 32768), -(-workgroups // 32768))
    return lambda: runtime.launch(executable, [source.buffer, target], grid)


def copied(backend: Any, x: Any) -> Run:
    """Return a run of the backend's own copy."""
    launcher, source = backend.launcher, x._handle
    target = launcher.empty(source.type)
    return lambda: map_elements(launcher, "copy", "", lambda _, x: x, [source], target)


def peer(array: Any) -> dict[str, tuple[Run, Run]]:
    """Return torch's runs, if it has a GPU."""
    if not importlib.util.find_spec("torch"):
        return {}
    import torch

    if not torch.cuda.is_available():
        return {}
    x = torch.from_numpy(array).cuda()
    other, out = x.flip(1).contiguous(), torch.empty_like(x)
    runs: dict[str, Run] = {
        "copy": lambda: out.copy_(x),
        "add": lambda: x + other,
        "gelu": lambda: torch.nn.functional.gelu(x),
        "sum over columns": lambda: x.sum(0),
        "sum over rows": lambda: x.sum(1),
        "sum": lambda: x.sum(),
        "max over rows": lambda: x.amax(1),
        "softmax": lambda: x.softmax(1),
        "layer_norm": lambda: torch.nn.functional.layer_norm(x, (x.shape[1],)),
    }
    return {name: (run, torch.cuda.synchronize) for name, run in runs.items()}


if __name__ == "__main__":
    main()
