"""Reads: the one kind of operation that waits.

Ops return at once; only looking at values waits.  ``no_sync()`` forbids that within a block and
``sync_count()`` counts it, so that a test can prove a training step free of hidden read-backs.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from inspect import iscoroutinefunction
from typing import Any, Final, Generic, TypeVar

from pyrite.errors import PyriteError, SyncError

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


def note_sync(what: str, fix: str = "read it after the block, or use the form with size=") -> None:
    """Count one read by ``what``.  Raises SyncError inside ``no_sync()``, which tells the fix."""
    global _count
    if _forbidden.get():
        raise SyncError(
            f"{_asked.get() or what} requires waiting for the device, got a call inside "
            f"pyrite.no_sync(); {fix}"
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

    Such a read is not hidden, and hence allowed inside ``no_sync()``.  Whoever gives up leaves the
    thread to end by itself.

    >>> import asyncio
    >>> asyncio.run(awaited(lambda: 7))
    7
    """

    def allowed() -> T:
        # The thread runs in a copy of this context, so nothing is to be set back.
        _forbidden.set(False)
        return read()

    loop = event_loop()
    if loop is not None and loop.__name__ == "asyncio":
        found: T = await loop.to_thread(allowed)
        return found
    started = _Started(allowed)
    for pause in pauses():
        if not started.is_alive():
            break
        await sleep(pause)
    return started.result()


class _Started(threading.Thread, Generic[T]):
    """Work on a thread of its own, in a copy of the context."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="pyrite-wait", daemon=True)
        context = copy_context()
        self._work: Callable[[], T] = lambda: context.run(work)
        self._found: list[T] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Do the work; whatever ends it is raised by `result`."""
        try:
            self._found.append(self._work())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Return what the work returned, or raise what it raised, when the thread has ended."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._found.pop()


def when_done(wait: Callable[[], object], then: Callable[[], object]) -> None:
    """Call ``then`` on a thread of its own when ``wait`` has returned, or raised."""

    def run() -> None:
        with suppress(PyriteError):
            wait()
        then()

    threading.Thread(
        target=copy_context().run, args=(run,), name="pyrite-wait", daemon=True
    ).start()


# ---- waiting in a coroutine, whatever drives it ----


#: What the shortest sleep of a thread takes: Linux adds 50 µs to each.
SHORTEST_SLEEP: Final = 60e-6


def pauses(shortest: float = 0.0, longest: float = 5e-4) -> Iterator[float]:
    """Give seconds to sleep between questions: none at first, then a share of the time so far.

    Who waits is a fortieth late in the mean, or half of the ``longest``: to ask takes some
    microseconds.  With a ``shortest`` sleep there is none before that is a twentieth of the time so
    far, for devices that need no processor while they work.
    """
    start = time.perf_counter()
    while True:
        waited = time.perf_counter() - start
        yield 0.0 if waited < 200e-6 else max(min(waited / 20, longest) - shortest, 0.0)


async def sleep(seconds: float) -> None:
    """Let the event loop go on for so long, by its own sleep.

    A loop that is not known, or a program that drives the coroutine by hand, is given None; so that
    one that drives without a pause does not take the whole processor, this thread sleeps before.
    """
    loop = event_loop()
    if loop is not None:
        await loop.sleep(seconds)
    else:
        time.sleep(seconds)
        await _Turn()


class _Turn:
    """Gives the driver of a coroutine one turn."""

    def __await__(self) -> Generator[None]:
        yield None


def event_loop() -> Any:
    """Return the module of the event loop that drives this coroutine; it has ``sleep``.

    Loops name themselves by the hooks for asynchronous generators, which they set while they run.
    None for one that does not, or whose module has no sleep.
    """
    hook = sys.get_asyncgen_hooks().firstiter
    name = (getattr(hook, "__module__", None) or "").partition(".")[0]
    loop = sys.modules.get(_SLEEPS.get(name, name))
    if loop is not None and iscoroutinefunction(getattr(loop, "sleep", None)):
        return loop
    # Loops in the place of asyncio's own, as uvloop's, have its sleep.
    asyncio = sys.modules.get("asyncio")
    is_running = asyncio is not None and asyncio._get_running_loop() is not None
    return asyncio if is_running else None


#: Where the sleep of a loop is, if not in the package of that name.
_SLEEPS = {"rendercanvas": "rendercanvas.utils.asyncadapter"}
