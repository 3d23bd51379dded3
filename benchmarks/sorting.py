"""Sorting, scans and writes by index on the CPU: against PyTorch, in one run, on two threads.

Both take turns; printed are the median and the least of a call in milliseconds, and torch's time
by Pyrite's, of the medians and of the least: above 1 Pyrite is the faster.  A result is new memory
for both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

import pyrite
from pyrite.tensor.creation import tensor

Contest = tuple[str, Callable[[], Any], Callable[[], Any]]

CPU = pyrite.device("cpu")


def pair(array: Any) -> tuple[Any, Any]:
    """An array as a tensor of each."""
    return tensor(array, device=CPU), torch.from_numpy(array)


def sorts(rng: np.random.Generator) -> Iterator[Contest]:
    """Whole rows, and the first of them."""
    for shape, axis in (((1 << 20,), 0), ((4096, 1024), 1), ((4096, 1024), 0), ((65536, 16), 1)):
        x, y = pair(rng.standard_normal(shape).astype(np.float32))
        name = f"argsort {shape} axis {axis}"
        yield name, partial(x.argsort, axis), partial(torch.argsort, y, axis)
    x, y = pair(rng.standard_normal((4096, 1024)).astype(np.float32))
    yield "sort (4096, 1024)", lambda: x.sort(1), lambda: torch.sort(y, 1)
    yield "topk (4096, 1024) k=8", lambda: x.topk(8), lambda: torch.topk(y, 8)
    u, v = pair(rng.integers(0, 1000, 1 << 20).astype(np.int32))
    yield "unique 1M of 1000", lambda: u.unique_values(), lambda: torch.unique(v)


def scans(rng: np.random.Generator) -> Iterator[Contest]:
    """Running sums along one line, and along many both ways."""
    for shape, axis in (((1, 1 << 24), 1), ((4096, 4096), 1), ((4096, 4096), 0)):
        x, y = pair(rng.standard_normal(shape).astype(np.float32))
        name = f"cumsum {shape} axis {axis}"
        yield name, partial(x.cumsum, axis), partial(torch.cumsum, y, axis)
    x, y = pair(rng.standard_normal((1024, 1024)).astype(np.float32))
    yield "cummax (1024, 1024)", lambda: x.cummax_with_indices(1), lambda: torch.cummax(y, 1)
    yield "logcumsumexp (1024, 1024)", lambda: x.logcumsumexp(1), lambda: torch.logcumsumexp(y, 1)
    mask, other = pair(rng.random(1 << 22) < 0.1)
    yield "nonzero 4M", lambda: mask.argwhere(), lambda: torch.nonzero(other)


def writes(rng: np.random.Generator) -> Iterator[Contest]:
    """The gradient of an embedding 50k x 512 of 8k ids, and counts."""
    ids, numbers = pair(rng.integers(0, 50_000, 8192).astype(np.int32))
    g, h = pair(rng.standard_normal((8192, 512)).astype(np.float32))
    zeros, others = pair(np.zeros((50_000, 512), np.float32))
    backward = torch.ops.aten.embedding_dense_backward
    yield (
        "embedding gradient",
        lambda: ids._embedding_backward(g, rows=50_000),
        lambda: backward(h, numbers, 50_000, -1, False),
    )
    column = ids.reshape(8192, 1)
    yield (
        "index_add",
        lambda: zeros.scatter(0, column, g, reduction="add"),
        lambda: torch.index_add(others, 0, numbers, h),
    )
    few, same = pair(rng.integers(0, 1000, 1 << 20).astype(np.int32))
    yield "bincount 1M of 1000", lambda: few.bincount(size=1000), lambda: torch.bincount(same)


def measure(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """The seconds of each, by round; they take turns, so that both see the same noise."""
    times: tuple[list[float], list[float]] = ([], [])

    def run() -> Any:
        result = ours()
        CPU.synchronize()
        return result

    for _ in range(9):
        for function, found in zip((run, theirs), times, strict=True):
            # The other's threads go on looking for work for a while.
            sleep(0.005)
            function()
            start = perf_counter()
            function()
            found.append(perf_counter() - start)
    return times


def main() -> None:
    """Print the table."""
    torch.set_num_threads(2)
    rng = np.random.default_rng(0)
    print(f"{'':32} {'pyrite ms':>9} {'least':>9} {'torch ms':>9} {'least':>9}  ratio  of least")
    for family in (sorts, scans, writes):
        for name, ours, theirs in family(rng):
            found = measure(ours, theirs)
            cells = [f"{f(t) * 1e3:9.2f}" for t in found for f in (statistics.median, min)]
            ratios = [f(found[1]) / f(found[0]) for f in (statistics.median, min)]
            print(f"{name:32} {' '.join(cells)} {ratios[0]:6.2f} {ratios[1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
