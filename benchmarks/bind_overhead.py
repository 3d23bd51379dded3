"""What a call of an op costs the host on each device, in µs, plain and noted for a backward pass.

The tensors are so small that computing takes no time to speak of.  "Tracked" ops are noted for a
backward pass.  Times are of the thread alone, the least of several rounds, so a busy machine hardly
shows.

    python benchmarks/bind_overhead.py [device ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import pyrite
from pyrite.errors import DeviceError

ROUNDS, CALLS = 9, 500

Call = Callable[[], Any]


def main(devices: list[str]) -> None:
    """Print a line for each device."""
    for device in devices:
        try:
            found = {name: microseconds(call) for name, call in calls(device).items()}
        except DeviceError as error:
            print(f"{device:<10} {error}")
        else:
            print(f"{device:<10} " + "  ".join(f"{name} {us:5.1f}" for name, us in found.items()))


def calls(device: str) -> dict[str, Call]:
    """The ops that are timed, by name."""
    plain = operands(device)
    tracked = [t.require_grad() for t in operands(pyrite.autodiff(device))]
    return {f"{name}{kind}": call for kind, of in (("", plain), (" tracked", tracked))
            for name, call in named(*of).items()}  # fmt: skip


def operands(device: Any) -> list[Any]:
    """A batch of rows, a square weight and a bias."""
    return [pyrite.ones(shape, device=device) for shape in ((4, 8), (8, 8), (8,))]


def named(x: Any, weight: Any, bias: Any) -> dict[str, Call]:
    """Ops of the usual kinds on three operands."""
    return {
        "x + x": lambda: x + x,
        "x * 2.0": lambda: x * 2.0,
        "reshape": lambda: x.reshape((8, 4)),
        "sum": lambda: x.sum(1),
        "linear": lambda: x.linear(weight, bias),
    }


def microseconds(call: Call) -> float:
    """Return the time of a call."""
    call()
    return min(seconds(call) for _ in range(ROUNDS)) / CALLS * 1e6


def seconds(call: Call) -> float:
    """Return the time of all calls of a round."""
    start = process_time()
    for _ in range(CALLS):
        call()
    return process_time() - start


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy", "cpu", "torch:cpu"])
