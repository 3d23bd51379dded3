"""Batches that workers make ahead of the consumer, handed over in their order.

Invariant: at most `depth` batches are being made or wait to be taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, Protocol

from pyrite.data.batch import BatchReader, BatchTask, Flag


class Workers(Protocol):
    """Who makes batches: threads of this process, or other processes."""

    def submit(self, task: BatchTask, stopped: Flag, /) -> Future[Any]:
        """Return the future of a batch."""
        ...

    def ended(self, error: BaseException | None, /) -> None:
        """Note that an iteration is at its end, or was ended by an error."""
        ...


class ThreadWorkers:
    """Threads for one iteration; they end with it."""

    def __init__(self, reader: BatchReader, count: int) -> None:
        self._reader = reader
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="pyrite-loader")

    def submit(self, task: BatchTask, stopped: Flag) -> Future[Any]:
        """Return the future of a batch."""
        return self._executor.submit(self._reader, task, stopped)

    def ended(self, error: BaseException | None) -> None:
        """Wait until the threads have ended."""
        self._executor.shutdown(cancel_futures=error is not None)


def read_ahead(tasks: Iterator[BatchTask], workers: Workers, depth: int) -> Iterator[Any]:
    """Yield the batches of tasks in order, at most depth of them ahead."""
    stopped = Event()
    pending: deque[Future[Any]] = deque()
    try:
        for task in tasks:
            pending.append(workers.submit(task, stopped))
            if len(pending) == depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except GeneratorExit:
        # The garbage collector may be what closes us, in any thread and while any lock is held:
        # only raise the flag.  Dropping a thread's executor with this frame ends its threads.
        stopped.set()
        raise
    except BaseException as error:
        stopped.set()
        workers.ended(error)
        raise
    workers.ended(None)
