"""`memory_budget`: the most memory that programs of a block may take.

Here is what a budget is, and which one holds; what keeps to it are the plans of programs
(`backend/cube/thrift.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from numbers import Integral
from threading import Lock
from typing import TYPE_CHECKING, Final, cast

from pyrite.errors import ArgumentError, DeviceError
from pyrite.op import Executor, Op, public, restrictions

if TYPE_CHECKING:
    from pyrite.backend.protocol import Backend

_UNITS: Final = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_TEXT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")

_limit: ContextVar[int | None] = ContextVar("pyrite_memory_budget", default=None)
_lock = Lock()
_blocks = 0


@public
def memory_budget(budget: int | str) -> AbstractContextManager[None]:
    """Keep what is in memory on a device within so many bytes, while programs of the block run.

    ``budget`` is a number of bytes, or a text: ``"2 GiB"``, ``"500 MB"``.  It is of all that is
    live on the device that a program runs on, its inputs and what else is held there included: see
    `memory_report`.  A program that would take more makes values again that only wait, the
    cheapest first, by the same kernels: so no bit of a result changes.  One that cannot keep the
    budget raises before it runs.

    A program is a whole step in a function under `compile`, else what is recorded between two
    reads.  Ops that no program can hold, as ``nonzero``, run at once and are not counted ahead;
    nor is what other threads make meanwhile.  Of nested blocks the smallest budget holds.  A block
    is of its thread or asyncio task.

    Raises MemoryBudgetError at the read, or the call of the compiled function, and says how much
    is missing; DeviceError for an op on a device whose memory is not planned, one without `Fusion`.

    >>> import pyrite
    >>> x = pyrite.ones((1024, 256), device=pyrite.fusion("cpu"))
    >>> with pyrite.memory_budget("64 MiB"):
    ...     (x.exp() * 2).sum().item() > 0
    True
    """
    return _within(bytes_of(budget))


@contextmanager
def _within(budget: int) -> Iterator[None]:
    global _blocks
    outer = _limit.get()
    token = _limit.set(budget if outer is None else min(budget, outer))
    with _lock:
        _blocks += 1
        if _blocks == 1:
            restrictions.append(_require_plans)
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                restrictions.remove(_require_plans)
        _limit.reset(token)


def memory_limit() -> int | None:
    """Return the budget of this context in bytes, None where there is none."""
    return _limit.get()


def bytes_of(budget: int | str) -> int:
    """Return a budget in bytes.  Raises ArgumentError for what is none.

    >>> [bytes_of(x) for x in (4096, "2 GiB", "500 MB", "1.5kib")]
    [4096, 2147483648, 500000000, 1536]
    """
    if isinstance(budget, str):
        found = _TEXT.fullmatch(budget)
        unit = None if found is None else _UNITS.get(found[2].lower())
        if found is not None and unit is not None and (nbytes := int(float(found[1]) * unit)) > 0:
            return nbytes
    elif isinstance(budget, Integral) and not isinstance(budget, bool) and budget > 0:
        return int(budget)
    raise ArgumentError(
        f'memory_budget requires a number of bytes above 0, or a text as "2 GiB", got {budget!r}'
    )


def _require_plans(op: Op, backend: Executor) -> None:
    """Raise DeviceError for an op of a block on a device that runs each op alone."""
    if _limit.get() is None:
        return
    asked = cast("Backend", backend)
    found: Backend | None = asked
    while found is not None:
        if found.keeps_budget:
            return
        found = found.inner
    raise DeviceError(
        f"memory_budget requires a device that plans the memory of programs, got {op.name} on "
        f"{asked.root.name}, which runs each op alone; move its tensors: "
        'x.to(pyrite.fusion("cpu"))'
    )
