"""How long a known op stalls at a size that was never seen before, op by op and by families.

    python benchmarks/new_size_stalls.py [--device cpu] [--sizes 12] [--rounds 2] [--only conv ...]

Each op of `benchmarks/new_size_cases.py` meets one size, which compiles its kernels, and after a
pause in which some are compiled ahead others in an order that is drawn.  The stall of a size is
what its first call takes beyond a later one of the same size: planning, the choice of configs, and
kernels where some are compiled.  What is counted is processor time of the calling thread, so other
programs on the machine do not show; of several rounds, each in a process of its own without kept
kernels, the least.  Garbage is collected between calls: when Python does is no matter of sizes.

A row has the first size's stall, the median and the greatest of the others, in milliseconds, and
how many kernels these compiled in all.  A table at the end has of each family the op with the
greatest stall, beside the limit: 2 ms on processors, 5 ms elsewhere.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

from new_size_cases import FAMILIES, Case

import pyrite
from pyrite import optim  # noqa: F401  the ops of optimisers are known once it is imported
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.op import OPS
from pyrite.testing import Example
from pyrite.types import float32

#: Milliseconds that a second size may stall, by the kind of the machine.
LIMITS = {"cpu": 2.0, "gpu": 5.0}


class Stalls(NamedTuple):
    """The stalls of an op in milliseconds, the first size's first, and kernels after it."""

    op: str
    milliseconds: list[float]
    kernels: int

    @property
    def greatest(self) -> float:
        """The greatest stall of a second size."""
        return max(self.milliseconds[1:])


def main() -> None:
    """Print the tables, of measurements in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names contain one")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        for found in measured(pyrite.device(given.device), given.sizes, given.only):
            print(json.dumps(found), flush=True)
        return
    rounds = [*map(dict, [run_round() for _ in range(given.rounds)])]
    best = {name: least([of[name] for of in rounds]) for name in rounds[0]}
    print_ops(best.values())
    print_families(best, LIMITS[cube_of(pyrite.device(given.device)).launcher.machine.kind])


def run_round() -> Iterator[tuple[str, Stalls]]:
    """Give the stalls of each op, as a process of its own measures them."""
    environment = {**os.environ, "PYRITE_CACHE": "off", "PYRITE_THREADS": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--measure"]
    run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    for line in run.stdout.splitlines():
        found = Stalls(*json.loads(line))
        yield found.op, found


def least(rounds: Sequence[Stalls]) -> Stalls:
    """Return of each size the least stall, and the most kernels."""
    times = [min(of) for of in zip(*(one.milliseconds for one in rounds), strict=True)]
    return Stalls(rounds[0].op, times, max(one.kernels for one in rounds))


def print_ops(found: Iterable[Stalls]) -> None:
    """Print a row for each op."""
    print(f"{'op':34}  first  median greatest  kernels")
    for op, (first, *others), kernels in found:
        print(f"{op:34} {first:6.1f} {median(others):7.2f} {max(others):8.2f} {kernels:8}")


def print_families(found: Mapping[str, Stalls], limit: float) -> None:
    """Print of each family the op with the greatest stall, and how many are beyond the limit."""
    print(
        f"\n{'family':14} {'ops':>4} {'beyond':>6} {'median':>7} {'greatest':>8}  limit {limit} ms"
    )
    for family, cases in FAMILIES.items():
        of = [found[name] for name in cases if name in found]
        if not of:
            continue
        worst = max(of, key=lambda one: one.greatest)
        beyond = sum(one.greatest > limit for one in of)
        middle = median(ms for one in of for ms in one.milliseconds[1:])
        print(f"{family:14} {len(of):4} {beyond:6} {middle:7.2f} {worst.greatest:8.2f}  {worst.op}")


def measured(device: Device, sizes: int, only: Sequence[str]) -> Iterator[Stalls]:
    """Give the stalls of each op."""
    backend = cube_of(device)
    for name, case in ((n, c) for cases in FAMILIES.values() for n, c in cases.items()):
        if not any(part in name for part in only):
            continue
        rng = Random(name)
        stalls, built = [], 0
        for n in range(sizes + 1):
            call = call_of(case, rng, device)
            backend.launcher.ahead.finish()
            before = backend.launcher.kernels
            took = [seconds(call, backend) for _ in range(4)]
            stalls.append((took[0] - min(took[1:])) * 1e3)
            built += backend.launcher.kernels - before if n else 0
        yield Stalls(name, stalls, built)


def cube_of(device: Device) -> CubeBackend:
    """Return the backend with Pyrite's own kernels of a device."""
    backend = device.backend.root
    assert isinstance(backend, CubeBackend), "only a device with Pyrite's kernels compiles any"
    return backend


def call_of(case: Case, rng: Random, device: Device) -> Callable[[], Any]:
    """Return a call of an op at sizes that are drawn."""
    example = Example(OPS[case.op], 0, case.draw(rng))
    inputs = [
        pyrite.tensor(x, device=device) if hasattr(x, "shape") else x
        for x in example.arrays(float32)
    ]
    return lambda: example.call(inputs, device)


def seconds(call: Callable[[], Any], backend: CubeBackend) -> float:
    """Return the processor time of one call, until it is computed."""
    gc.collect(0)
    gc.disable()
    start = thread_time()
    result = call()
    backend.synchronize()
    took = thread_time() - start
    gc.enable()
    del result
    return took


if __name__ == "__main__":
    main()
