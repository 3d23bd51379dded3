"""How fast a device goes through its memory: the roof under which kernels of few operations are."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:  # who measures has a runtime, who prints a table may not
    from pyrite.runtime.protocol import Buffer, Runtime

#: What is copied to measure it, in bytes, how often, after one that does not count.
COPIED = 1 << 25
TIMES = 3

_known: WeakKeyDictionary[Runtime, float] = WeakKeyDictionary()


def copy_bandwidth(runtime: Runtime) -> float:
    """Return the bytes that a device reads and writes in a second when it copies, measured once."""
    found = _known.get(runtime)
    if found is None:
        source, target = runtime.allocate(COPIED), runtime.allocate(COPIED)
        found = _known[runtime] = (
            2 * COPIED / min([_seconds(runtime, source, target) for _ in range(TIMES + 1)][1:])
        )
    return found


def _seconds(runtime: Runtime, source: Buffer, target: Buffer) -> float:
    runtime.synchronize()
    start = perf_counter()
    runtime.copy(source, target)
    runtime.synchronize()
    return perf_counter() - start
