"""What a call of an application's op takes of the thread that makes it, in µs.

With the same numbers among its attributes as the call before, and with others at each call; of one
input and of two; into memory of the application (``out=``).  On ``wgpu`` it is told without and
with what a submission takes, of which one is made for 64 launches.  Times are as in `call_account`.

    python benchmarks/own_call.py [--device wgpu]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np
import wgpu
from call_account import QUIET, yardstick

import pyrite
from pyrite import Tensor, custom_op
from pyrite.extension import kernel

ROUNDS, CALLS = 60, 60

Call = Callable[[], Any]


@kernel
def more_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
    out[k.at] = x[k.at] + by


@kernel
def mixed_kernel(k: Any, x: Any, y: Any, out: Any, *, by: float, count: int) -> None:
    out[k.at] = x[k.at] + by * y[k.at] + count


@custom_op(infer=lambda x, *, by: x, kernels=[more_kernel])
def more(x: Tensor, /, *, by: float) -> Tensor:
    """x + by."""
    ...


@custom_op(infer=lambda x, y, *, by, count: x, kernels=[mixed_kernel])
def mixed(x: Tensor, y: Tensor, /, *, by: float, count: int) -> Tensor:
    """x + by y + count."""
    ...


def calls(device: pyrite.Device) -> dict[str, Call]:
    """The calls, by what they are."""
    x, y = (pyrite.ones((4, 8), device=device) for _ in range(2))
    number, frame = itertools.count(0.25), memory(device)
    return {
        "x + y": lambda: x + y,
        "one input, same number": lambda: more(x, by=1.5),
        "one input, another": lambda: more(x, by=next(number)),
        "two inputs, same numbers": lambda: mixed(x, y, by=1.5, count=3),
        "two inputs, another": lambda: mixed(x, y, by=next(number), count=3),
        "one input, out=": lambda: more(x, by=1.5, out=frame),  # type: ignore[call-arg]
    }


def memory(device: pyrite.Device) -> Tensor:
    """A tensor of (4, 8) in memory of the application."""
    if device.name == "cpu":
        return pyrite.from_dlpack(np.zeros((4, 8), np.float32), device=device, copy=False)
    root: Any = device.backend.root
    kinds = wgpu.BufferUsage
    usage = kinds.STORAGE | kinds.COPY_SRC | kinds.COPY_DST
    buffer = root.runtime.device.gpu.create_buffer(size=128, usage=usage)
    return pyrite.wgpu.from_buffer(buffer, (4, 8), "float32", device=device)


def main() -> None:
    """Print a line for each call."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    device = pyrite.device(parser.parse_args().device)
    all_calls = calls(device)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in all_calls}
    for _ in range(ROUNDS):
        for name, call in all_calls.items():
            found[name].append(microseconds(call, device))
    for name, times in found.items():
        call_alone, with_submission = map(statistics.median, zip(*times, strict=True))
        print(f"{name:26} {call_alone:6.2f} {with_submission:6.2f}")


def microseconds(call: Call, device: pyrite.Device) -> tuple[float, float]:
    """Return the time of a call, and that with its share of what hands the work over."""
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    while True:
        call()
        device.synchronize()
        gc.disable()
        before = yardstick()
        start = thread_time()
        for _ in range(CALLS):
            call()
        called = thread_time()
        runtime.flush()
        ended = thread_time()
        after = yardstick()
        gc.enable()
        if max(before, after) < 1.25 * min(before, after):
            scale = 1e6 / CALLS / (before + after) * 2 * QUIET
            return (called - start) * scale, (ended - start) * scale


if __name__ == "__main__":
    main()
