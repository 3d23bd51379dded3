"""How long a known op stalls at a size that was never seen before, op by op and by families.

    python benchmarks/new_size_stalls.py [--device cpu] [--sizes 8] [--jobs 2] [--only conv ...]
        [--kept none | written | found]

Each op of `benchmarks/new_size_cases.py` meets one size, which compiles its kernels, and after a
pause in which some are compiled ahead others in an order that is drawn.  The stall of a size is
what its first call takes beyond a later one of the same size: planning, the choice of configs, and
kernels where some are compiled.  What is judged is processor time of the calling thread, so other
programs on the machine do not show; the clock's is printed beside it.  On a GPU it is that until
all is submitted: who waits asks again and again, the longer a driver compiles what it runs first,
as one in software does (100 ms by the clock, some 5 of the asking thread).  Garbage is collected
between calls: when Python does is no matter of sizes.

Each op has a process of its own, ``--jobs`` of them at a time.  By default nothing is kept on disk;
with ``--kept written`` a process keeps what it makes, in a folder that was empty, and with ``--kept
found`` another process has filled it.  The row of an op is printed when it is done: the first
size's stall, the median and the greatest of the others in milliseconds, the greatest by the clock,
how many of the others are beyond the limit (2 ms on processors, 5 ms elsewhere), and how many
kernels they compiled in all (on a GPU: and pipelines).
An op that is beyond is measured once more, and of each size the least counts.  One that takes more
than ``--seconds`` of a processor has fewer sizes.  A table at the end has the families.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, thread_time
from typing import Any, NamedTuple

from new_size_cases import FAMILIES, Case

import pyrite
from pyrite import optim  # noqa: F401  the ops of optimisers are known once it is imported
from pyrite.backend.cube import CubeBackend, ahead
from pyrite.backend.device import Device
from pyrite.op import OPS
from pyrite.testing import Example
from pyrite.types import float32

#: Milliseconds that a second size may stall, by the kind of the machine.
LIMITS = {"cpu": 2.0, "gpu": 5.0}
CASES = {name: case for cases in FAMILIES.values() for name, case in cases.items()}


class Stall(NamedTuple):
    """What a size's first call takes beyond a later one, and what it had compiled."""

    #: Of the processor and by the clock, in milliseconds.
    spent: float
    waited: float
    kernels: int
    pipelines: int


class Stalls(NamedTuple):
    """The stalls of an op, the first size's first."""

    op: str
    all: list[Stall]

    @property
    def others(self) -> list[Stall]:
        """Those of all sizes but the first."""
        return self.all[1:]

    @property
    def greatest(self) -> float:
        """The greatest stall of a second size."""
        return max(one.spent for one in self.others)

    def beyond(self, limit: float) -> int:
        """Return how many second sizes stall for longer."""
        return sum(one.spent > limit for one in self.others)


def main() -> None:
    """Print the tables, of measurements in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a processor for one op")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kept", choices=("none", "written", "found"), default="none")
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names contain one")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        device = pyrite.device(given.device)
        print(json.dumps([*measured(given.measure, device, given.sizes, given.seconds)]))
        return
    limit = LIMITS[cube_of(pyrite.device(given.device)).launcher.machine.kind]
    names = [name for name in CASES if any(part in name for part in given.only)]
    print(f"{'op':34}   first  median greatest (clock)  beyond   kernels pipelines", flush=True)
    found = []
    with ThreadPoolExecutor(given.jobs) as pool:
        jobs = [pool.submit(stalls_of, name, limit, given.kept) for name in names]
        for done in as_completed(jobs):
            found.append(done.result())
            print_op(found[-1], limit)
    print_families({of.op: of for of in found}, limit)


def stalls_of(name: str, limit: float, kept: str) -> Stalls:
    """Return the stalls of an op, of two rounds where one has some beyond the limit."""
    once = run_round(name, kept)
    return once if once.greatest <= limit else least(once, run_round(name, kept))


def run_round(name: str, kept: str) -> Stalls:
    """Return the stalls of an op, where on disk is nothing, what it writes, or another did."""
    if kept == "none":
        return stalls_with(name, "off")
    with TemporaryDirectory() as folder:
        if kept == "found":
            stalls_with(name, folder)
        return stalls_with(name, folder)


def stalls_with(name: str, cache: str) -> Stalls:
    """Return the stalls of an op, as a process of its own measures them."""
    environment = {**os.environ, "PYRITE_CACHE": cache, "PYRITE_THREADS": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--measure", name]
    run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return Stalls(name, [Stall(*one) for one in json.loads(run.stdout)])


def least(one: Stalls, other: Stalls) -> Stalls:
    """Return of each size the least stall, and the most kernels."""
    both = zip(one.all, other.all, strict=False)
    return Stalls(one.op, [
        Stall(min(a.spent, b.spent), min(a.waited, b.waited), max(a.kernels, b.kernels),
              max(a.pipelines, b.pipelines))
        for a, b in both
    ])  # fmt: skip


def print_op(found: Stalls, limit: float) -> None:
    """Print the row of an op."""
    first, others = found.all[0], found.others
    print(
        f"{found.op:34} {first.spent:7.1f} {median(one.spent for one in others):7.2f} "
        f"{found.greatest:8.2f} ({max(one.waited for one in others):5.1f}) "
        f"{found.beyond(limit):3} of {len(others):2} {sum(one.kernels for one in others):6} "
        f"{sum(one.pipelines for one in others):9}",
        flush=True,
    )


def print_families(found: dict[str, Stalls], limit: float) -> None:
    """Print of each family the op with the greatest stall, and how many are beyond the limit."""
    print(f"\n{'family':14} {'ops':>4} {'beyond':>6} {'compiling':>9} {'median':>7} greatest")
    for family, cases in {**FAMILIES, "all": CASES}.items():
        of = [found[name] for name in cases if name in found]
        if not of:
            continue
        worst = max(of, key=lambda one: one.greatest)
        beyond = sum(one.greatest > limit for one in of)
        compiling = sum(any(size.kernels for size in one.others) for one in of)
        middle = median(size.spent for one in of for size in one.others)
        print(
            f"{family:14} {len(of):4} {beyond:6} {compiling:9} {middle:7.2f} "
            f"{worst.greatest:8.2f}  {worst.op}"
        )
    print(f"The limit is {limit} ms.")


def measured(name: str, device: Device, sizes: int, most: float) -> Iterator[Stall]:
    """Give the stalls of an op; none begins beyond so many seconds of a processor."""
    backend = cube_of(device)
    made = compiles(backend)
    warm_up(device, backend)
    start = process_time()
    case, rng = CASES[name], Random(name)
    for n in range(sizes + 1):
        if n > 1 and process_time() - start > most:
            return
        call = call_of(case, rng, device)
        finish_ahead(backend)
        before = [*made]
        (spent, waited), *later = [seconds(call, backend) for _ in range(4)]
        known_spent, known_waited = map(min, zip(*later, strict=True))
        yield Stall(
            (spent - known_spent) * 1e3, (waited - known_waited) * 1e3,
            made[0] - before[0], made[1] - before[1],
        )  # fmt: skip


def compiles(backend: CubeBackend) -> list[int]:
    """Return what counts the kernels and the pipelines that this thread has compiled from now."""
    made, here = [0, 0], threading.current_thread()
    runtime: Any = backend.runtime
    compile_kernel = runtime.compile

    def compile(kernel: Any) -> Any:
        made[0] += threading.current_thread() is here
        return compile_kernel(kernel)

    runtime.compile = compile
    if backend.launcher.machine.kind == "gpu":
        from pyrite.runtime.wgpu import executable as module

        executable: Any = module
        create_pipeline = executable.create_pipeline

        def create(*given: Any) -> Any:
            made[1] += threading.current_thread() is here
            return create_pipeline(*given)

        executable.create_pipeline = create
    return made


def warm_up(device: Device, backend: CubeBackend) -> None:
    """Have an op come at a few sizes: what is made once in a process is no matter of a size."""
    for rows in (300, 20, 33):
        x = pyrite.ones((rows, 7), device=device)
        seconds(partial(pyrite.add, x, x), backend)
        finish_ahead(backend)


def finish_ahead(backend: CubeBackend) -> None:
    """Wait until all is compiled ahead, which needs no pause to begin here."""
    pause, ahead.PAUSE = ahead.PAUSE, 0.0  # type: ignore[misc]
    backend.launcher.ahead.finish()
    ahead.PAUSE = pause  # type: ignore[misc]


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


def seconds(call: Callable[[], Any], backend: CubeBackend) -> Sequence[float]:
    """Return the processor time of one call, and that of the clock until it is computed."""
    gc.collect(0)
    gc.disable()
    began, start = perf_counter(), thread_time()
    result = call()
    if not backend.runtime.is_host:
        backend.runtime.flush()
        spent = thread_time() - start
        backend.synchronize()
    else:
        backend.synchronize()
        spent = thread_time() - start
    waited = perf_counter() - began
    gc.enable()
    del result
    return spent, waited


if __name__ == "__main__":
    main()
