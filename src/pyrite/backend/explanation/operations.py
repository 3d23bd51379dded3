"""How much a kernel computes, and how fast a device can: the roof of kernels of many operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.operations import operations
from pyrite.runtime.protocol import Executable, Runtime
from pyrite.types import float32

#: Workgroups of a launch whose operations are counted.
_SAMPLES: Final = 5
#: In the kernel that measures: sums that do not wait for each other, rounds, and times that it runs
#: after one that does not count.
_SUMS, _ROUNDS, TIMES = 8, 512, 3
#: Workgroups of it for each thread of a processor: some milliseconds.
_SHARES: Final = 2048

_known: WeakKeyDictionary[Runtime, float] = WeakKeyDictionary()


def operations_of(kernel: Kernel, bindings: Sequence[Any], grid: Sequence[int]) -> float:
    """Return about how many operations on floats a launch makes, as `kernel.operations` counts.

    Those of some workgroups, spread over the grid, stand for all.
    """
    count = prod(grid)
    if not count:
        return 0.0
    places = {count * (2 * n + 1) // (2 * _SAMPLES) for n in range(_SAMPLES)}
    sampled = [operations(kernel, bindings, grid, _coordinates(n, grid)) for n in places]
    return sum(sampled) / len(sampled) * kernel.invocations * count


def _coordinates(n: int, grid: Sequence[int]) -> list[int]:
    found = []
    for size in grid:
        n, at = divmod(n, size)
        found.append(at)
    return found


def peak_operations(runtime: Runtime) -> float:
    """Return the operations on float32 that a device makes in a second, measured once.

    By a kernel that does nothing but multiply and add what stands in its registers.
    """
    found = _known.get(runtime)
    if found is None:
        kernel = _busy(runtime.machine)
        executable = runtime.compile(kernel)
        machine = runtime.machine
        workgroups = machine.workgroups
        if machine.kind == "cpu":
            workgroups = _SHARES * machine.threads
        target = runtime.allocate(kernel.invocations * workgroups * 4)
        work = operations_of(kernel, [target], (workgroups,))
        times = [_seconds(runtime, executable, target, workgroups) for _ in range(TIMES + 1)]
        found = _known[runtime] = work / min(times[1:])
    return found


def _busy(machine: Machine) -> Kernel:
    size = machine.workgroup_sizes[0]
    b = KernelBuilder("peak_operations", workgroup_size=size)
    out = b.buffer("out", float32, "write")
    at = b.workgroup_id() * size + b.local_id()
    first = b.cast(at, float32)
    of = vector(float32, machine.vector)
    sums = [b.splat(first + float(n), machine.vector) for n in range(_SUMS)]
    factor, term = b.const(0.5, of), b.const(1.0, of)
    with b.for_(0, _ROUNDS, carried=sums) as loop:
        loop.yield_(*[b.fma(x, factor, term) for x in loop.carried])
    total = loop.results[0]
    for x in loop.results[1:]:
        total = total + x
    out[at] = b.extract(total, 0)
    return b.build()


def _seconds(runtime: Runtime, executable: Executable, target: Any, workgroups: int) -> float:
    runtime.synchronize()
    start = perf_counter()
    own = runtime.timed_launch(executable, [target], (workgroups,))
    return perf_counter() - start if own is None else own
