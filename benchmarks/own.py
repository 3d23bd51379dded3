"""What is written for one op beside the op's rule or body: how much faster it is, if it is.

    python benchmarks/own.py [--device cpu] [--only op ...] [--write]

Each op with a lowering or an implementation under its name runs by that, and by its rule or body
alone (``PYRITE_RULES_ONLY``), in turns of one process.  Printed are the medians in microseconds and
the median of the ratios of the rounds: above 1 what is its own is the faster.  Tensors come dense,
with their channels last, and with their axes in reverse order in memory.  ``--write`` keeps the
ratios in docs/design/own-ratios.json, which `scripts/rule_table.py` shows with the rule classes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from own_cases import CASES

from pyrite import optim  # noqa: F401  the ops of optimisers are known once it is imported
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.lowering import LOWERINGS
from pyrite.backend.device import BACKENDS, Device
from pyrite.config import config
from pyrite.errors import PyriteError
from pyrite.op import OPS
from pyrite.tensor.creation import tensor
from pyrite.testing import Example
from pyrite.types import float32

PATH = Path(__file__).resolve().parent.parent / "docs" / "design" / "own-ratios.json"
ROUNDS = 21
#: Rounds of calls that take longer than so many seconds.
FEW, DEAR = 5, 0.02
#: Seconds that one sample takes at least.
SAMPLE = 0.004

Call = Callable[[], Any]
#: From a number of axes to these in the order in which they lie in memory.
Order = Callable[[int], Sequence[int]]
LAYOUTS: dict[str, Order] = {
    "dense": range,
    "channels last": lambda rank: (0, *range(2, rank), 1) if rank > 2 else range(rank),
    "reversed": lambda rank: range(rank)[::-1],
}


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    config.cache, config.ahead = "off", False
    config.threads = config.threads or 1
    own, by_rule = (device_of(given.device) for _ in range(2))
    for name in given.only or names_of(own):
        ratios = []
        for label, ratio in measured(name, own, by_rule):
            print(label, flush=True)
            ratios.append(round(ratio, 2))
        if given.write and ratios:
            keep(given.device, name, ratios)


def device_of(name: str) -> Device:
    """Return a device with plans and recordings of its own."""
    kind, _, rest = name.partition(":")
    backend: Any = BACKENDS[kind].load()
    if kind == "torch":
        import torch

        torch.set_num_threads(config.threads or 1)
    return Device(backend(rest) if rest else backend())


def names_of(device: Device) -> list[str]:
    """Return the ops with a rule or a body for which a device has something of its own."""
    is_cube = isinstance(device.backend, CubeBackend)
    names = LOWERINGS if is_cube else device.backend._implementations
    return sorted(n for n in names if OPS[n].is_classed)


def measured(name: str, own: Device, by_rule: Device) -> Iterator[tuple[str, float]]:
    """Give for each case of an op what to print, and the ratio."""
    for number, found in enumerate(CASES.get(name, ())):
        for layout, order in LAYOUTS.items():
            example = Example(OPS[name], number, found)
            calls = [call_of(example, d, order) for d in (own, by_rule)]
            try:
                times = list(in_turns(calls, own.backend.synchronize, by_rule.backend.synchronize))
            except PyriteError as error:
                print(f"{name} {number}: {error}")
                break
            first, second = (median(t) * 1e6 for t in zip(*times, strict=True))
            ratio = median(b / a for a, b in times)
            shape = " ".join(str(shape_of(i)) for i in found.inputs[:3])
            yield f"{name:40} {layout:14}{first:10.1f}{second:10.1f}{ratio:7.2f}  {shape}", ratio


def shape_of(value: Any) -> Any:
    return getattr(value, "shape", value)


def call_of(example: Example, device: Device, order: Order) -> Call:
    """Return a call of an op on tensors of a device, whose axes lie in an order in memory."""

    def placed(array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        if array.ndim < 2:
            return tensor(array, device=device)
        axes = order(array.ndim)
        dense = tensor(np.ascontiguousarray(np.transpose(array, axes)), device=device)
        return dense.permute_dims(tuple(map(int, np.argsort(axes))))

    inputs = [placed(a) for a in example.arrays(float32)]
    return lambda: example.call(inputs, device)


def in_turns(calls: list[Call], *waits: Call) -> Iterator[tuple[float, float]]:
    """Give the seconds of both calls in each round; the second runs by rules alone."""
    counts = []
    for by_rule, (call, wait) in enumerate(zip(calls, waits, strict=True)):
        config.rules_only = bool(by_rule)
        for _ in range(3):
            taken = seconds(call, wait, 1)
        counts.append(max(1, min(500, int(SAMPLE / taken))))
    for turn in range(ROUNDS if taken < DEAR else FEW):
        found = [0.0, 0.0]
        for which in (0, 1) if turn % 2 else (1, 0):
            config.rules_only = bool(which)
            found[which] = seconds(calls[which], waits[which], counts[which])
        yield found[0], found[1]


def seconds(call: Call, wait: Call, count: int) -> float:
    """Return the seconds of each of so many calls, one after another."""
    start = perf_counter()
    for _ in range(count):
        call()
    wait()
    return (perf_counter() - start) / count


def keep(device: str, name: str, ratios: list[float]) -> None:
    """Write the least and the greatest ratio of an op on a device."""
    known = json.loads(PATH.read_text()) if PATH.exists() else {}
    known.setdefault(device, {})[name] = [min(ratios), max(ratios)]
    PATH.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
