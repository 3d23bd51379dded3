"""Reads: the one kind of operation that waits.

Ops return at once; only looking at values waits.  ``no_sync()`` forbids that within a block and
``sync_count()`` counts it, so that a test can prove a training step free of hidden read-backs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from pyrite.errors import SyncError

T = TypeVar("T")

_forbidden: ContextVar[bool] = ContextVar("pyrite_no_sync", default=False)
_asked: ContextVar[str | None] = ContextVar("pyrite_asked", default=None)
_lock = threading.Lock()
_count = 0


@contextmanager
def no_sync() -> Iterator[None]:
    """Forbid reads in the block: any op or method that would wait raises SyncError instead.

    >>> import pyrite
    >>> with pyrite.no_sync():
    ...     y = pyrite.ones((2,)) + 1
    """
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def note_sync(what: str) -> None:
    """Count one read by ``what``.  Raises SyncError inside ``no_sync()``."""
    global _count
    if _forbidden.get():
        raise SyncError(
            f"{_asked.get() or what} requires waiting for the device, got a call inside "
            "pyrite.no_sync(); read it after the block, or use the form with size="
        )
    with _lock:
        _count += 1


@contextmanager
def asked_by(what: str) -> Iterator[None]:
    """Have reads in the block be called by the name of what the user asked for.

    >>> import pyrite
    >>> with pyrite.no_sync(), asked_by("nonzero"):
    ...     pyrite.ones((2,)).argwhere()
    Traceback (most recent call last):
    pyrite.errors.SyncError: nonzero requires waiting for the device, ...
    """
    token = _asked.set(_asked.get() or what)
    try:
        yield
    finally:
        _asked.reset(token)


def sync_count() -> int:
    """Return how many reads this process has waited for."""
    return _count


async def awaited(read: Callable[[], T]) -> T:
    """Return what ``read`` returns, waiting on a thread, so that the event loop goes on meanwhile.

    Such a read is not hidden, and hence allowed inside ``no_sync()``.

    >>> import asyncio
    >>> asyncio.run(awaited(lambda: 7))
    7
    """
    # Half of the time to import pyrite; who awaits has it loaded already.
    import asyncio

    def allowed() -> T:
        # The thread runs in a copy of this context, so nothing is to be set back.
        _forbidden.set(False)
        return read()

    return await asyncio.to_thread(allowed)
