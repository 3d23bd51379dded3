"""What an op costs the host: the time until the call returns, on tensors too small to matter.

Beside torch eager, which computes within the call while Pyrite's kernels run behind it.  ``run`` is
the backend alone, without the checks of `pyrite.op.bind`.  Rounds alternate; printed are the bests,
in microseconds.

    python benchmarks/op_overhead.py [device]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.op import Op, Plan

ROUNDS, CALLS = 15, 400


def main() -> None:
    """Print the table."""
    device = pyrite.device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    backend = device.backend.root
    assert isinstance(backend, CubeBackend)
    arrays = [np.random.default_rng(i).standard_normal((32, 32), np.float32) for i in range(2)]
    ours = [pyrite.tensor(a, device=device) for a in arrays]
    theirs = [torch.from_numpy(a) for a in arrays]
    cases: dict[str, Callable[[Any, Any], Any]] = {
        "x + y": lambda x, y: x + y,
        "x * 0.5": lambda x, _: x * 0.5,
        "x.exp()": lambda x, _: x.exp(),
        "x @ y": lambda x, y: x @ y,
        "x.sum(0)": lambda x, _: x.sum(0),
        "x.softmax(-1)": lambda x, _: x.softmax(-1),
        "x.reshape(1024)": lambda x, _: x.reshape((1024,)),
    }
    print(f"{'op':18} {'pyrite':>8} {'run':>8} {'torch':>8}")
    for name, call in cases.items():
        whole = partial(call, *ours)
        calls: list[Callable[[], Any]] = [whole, _alone(backend, whole), partial(call, *theirs)]
        times = _bests(calls, device.synchronize)
        print(f"{name:18}" + "".join(f" {t:8.2f}" for t in times))


def _alone(backend: CubeBackend, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return what the backend is asked for by a call, of one op."""
    execute, asked = backend.execute, list[Any]()

    def noting(op: Op, inputs: Sequence[Any], plan: Plan) -> Any:
        asked.append((op, inputs, plan))
        return execute(op, inputs, plan)

    backend.execute = noting  # type: ignore[method-assign]
    call()
    backend.execute = execute  # type: ignore[method-assign]
    # Where a composite was expanded, what it became.
    return partial(execute, *asked[-1])


def _bests(calls: list[Callable[[], Any]], wait: Callable[[], None]) -> list[float]:
    found = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[i] = min(found[i], (time.perf_counter() - start) / CALLS * 1e6)
    return found


if __name__ == "__main__":
    main()
