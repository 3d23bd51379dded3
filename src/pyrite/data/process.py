"""Worker processes: each makes batches for one thread of this process, which waits for them.

They are spawned, never forked: a fork of a process with threads (a GPU's driver, BLAS) may hang.
They live as long as the loader, since starting one takes about a second.

A process ends when its connection does, and when this process is gone, also in the middle of an
item; Ctrl-C is for this process alone.

Invariant: a worker makes one batch at a time, and sends nothing that was not asked for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any, NamedTuple

from pyrite.data.batch import BatchReader, BatchTask, Flag
from pyrite.data.shared import Parcel, Receiver, Sender
from pyrite.errors import ArgumentError, DataError

_SECONDS_TO_START = 120.0
"""As long may a process take until it has imported its modules and has the dataset."""


class Failure(NamedTuple):
    """An error in a worker: itself and its cause where they pickle, and what was printed of it."""

    error: Exception
    cause: Exception | None
    traceback: str


class _Job(NamedTuple):
    task: BatchTask
    stopped: Flag
    future: Future[Any]


class ProcessPool:
    """`count` processes that make batches with a reader.

    A batch that takes longer than timeout seconds is an error; None waits for ever.

    Raises ArgumentError if the reader does not pickle, DataError if there is no memory for it.
    """

    def __init__(self, reader: BatchReader, count: int, timeout: float | None) -> None:
        parcel = _parcel(reader)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers = [_Worker(number, parcel, timeout) for number in range(count)]
        for worker in self._workers:
            # Daemons, because a worker that hangs must not keep this process from its end.
            threading.Thread(
                target=_attend, args=(worker, self._jobs), name="pyrite-loader-process", daemon=True
            ).start()

    def submit(self, task: BatchTask, stopped: Flag) -> Future[Any]:
        """Return the future of a batch; it is cancelled if stopped is set before it begins."""
        future: Future[Any] = Future()
        self._jobs.put(_Job(task, stopped, future))
        return future

    def ended(self, error: BaseException | None) -> None:
        """Note the end of an iteration; Ctrl-C ends the processes at once."""
        if error is not None and not isinstance(error, Exception):
            self.kill()

    def close(self) -> None:
        """Let the processes end once they have made what they are making."""
        for _ in self._workers:
            self._jobs.put(None)

    def kill(self) -> None:
        """End the processes; they are started again for the next batch."""
        for worker in self._workers:
            worker.kill()


class _Worker:
    """One process, started when first needed and again after it died."""

    def __init__(self, number: int, parcel: Parcel, timeout: float | None) -> None:
        self._number = number
        self._parcel = parcel
        self._timeout = timeout
        self._process: Any = None
        self._connection: Connection | None = None
        self._receiver: Receiver | None = None

    def batch(self, task: BatchTask) -> Any:
        """Return the batch of a task.

        Raises what the reader raises, with the worker's traceback as a note; DataError if the
        process dies, or takes longer than timeout.
        """
        try:
            if self._connection is None or self._receiver is None:
                self._connection, self._receiver = self._start()
            self._connection.send(task)
            self._wait(self._connection, self._timeout, task)
            answer = self._receiver.receive()
        except (EOFError, OSError) as error:
            raise self._died(f"while it read {_described(task)}") from error
        if isinstance(answer, Failure):
            raise _revived(answer, self._number)
        return answer

    def kill(self) -> None:
        """End the process now; who waits for it gets the error of one that died."""
        process = self._process
        if process is not None and process.pid is not None:
            process.kill()

    def close(self) -> None:
        """End the process by ending its connection, and give its memory back."""
        if self._receiver is not None:
            self._receiver.close()
        if self._connection is not None:
            self._connection.close()
        self._receiver = self._connection = None

    def _start(self) -> tuple[Connection, Receiver]:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=serve, args=(theirs,), name=f"pyrite-loader-{self._number}", daemon=True
        )
        with _without_interrupts():
            self._process.start()
        theirs.close()
        try:
            self._parcel.send(ours, self._process.pid)
            self._wait(ours, _SECONDS_TO_START, None)
            answer = ours.recv()
        except (EOFError, OSError) as error:
            ours.close()
            raise self._died(
                "before it had the dataset; its own error is printed above.  A script's work must "
                'be under `if __name__ == "__main__":`, because each process imports the script'
            ) from error
        if isinstance(answer, Failure):
            ours.close()
            raise _revived(answer, self._number)
        return ours, Receiver(ours)

    def _wait(self, connection: Connection, seconds: float | None, task: BatchTask | None) -> None:
        if not wait([connection], seconds):
            self.kill()
            what = "the dataset" if task is None else _described(task)
            self.close()
            raise DataError(
                f"loader requires a worker process to answer within {seconds:g} s, got none from "
                f"worker {self._number} for {what}; pass a larger timeout= if it is only slow"
            )

    def _died(self, when: str) -> DataError:
        self._process.join(5)
        code, pid = self._process.exitcode, self._process.pid
        self.close()
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        hint = (
            "; is memory short? take fewer workers"
            if code == -getattr(signal, "SIGKILL", 9)
            else ""
        )
        return DataError(
            f"loader requires its worker processes to live, got worker {self._number} (process "
            f"{pid}), which {how} {when}{hint}"
        )


def _attend(worker: _Worker, jobs: SimpleQueue[_Job | None]) -> None:
    """Have a worker make what is asked for, until None is."""
    while (job := jobs.get()) is not None:
        if job.stopped.is_set() or not job.future.set_running_or_notify_cancel():
            job.future.cancel()
            continue
        try:
            job.future.set_result(worker.batch(job.task))
        except BaseException as error:
            job.future.set_exception(error)
        # A batch lives no longer than its consumer wants it.
        del job
    worker.close()


# ---- in the worker ----


class _Never:
    """The flag of one who is not told: a worker finishes the batch that it makes."""

    def is_set(self) -> bool:
        """Return False."""
        return False


def serve(connection: Connection) -> None:
    """Make batches for the process at the other end, until it closes the connection or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parent = os.getppid()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        received = Parcel.receive(connection)
        try:
            reader: BatchReader = received()
        except Exception as error:
            connection.send(
                _failure(
                    DataError(
                        "loader requires a dataset, augment, collate and mix that a process can "
                        f"import, got {type(error).__name__}: {error}; define them in a module, "
                        "or use threads: processes=False"
                    )
                )
            )
            return
        connection.send(None)
        sender = Sender(connection, parent)
        while True:
            _answer(sender, reader, connection.recv())


def _answer(sender: Sender, reader: BatchReader, task: BatchTask) -> None:
    try:
        batch = reader(task, _Never())
    except Exception as error:
        sender.send(_failure(error))
        return
    try:
        sender.send(batch)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        fix = "use threads: processes=False"
        if isinstance(error, OSError | MemoryError):
            fix = "take smaller batches or fewer workers"
        sender.send(
            _failure(
                DataError(
                    f"loader requires a batch that reaches another process, got "
                    f"{type(error).__name__}: {error}; {fix}"
                )
            )
        )


def _end_with_parent() -> None:
    """End this process, whatever it is doing, when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _failure(error: Exception) -> Failure:
    text = "".join(traceback.format_exception(error))
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
    kept = error if _travels(error) else DataError(str(error))
    return Failure(kept, cause if _travels(cause) else None, text)


def _travels(error: Exception | None) -> bool:
    try:
        return type(ForkingPickler.loads(ForkingPickler.dumps(error))) is type(error)
    except Exception:
        return False


# ---- messages ----


def _revived(failure: Failure, number: int) -> Exception:
    error = failure.error
    error.__cause__ = failure.cause
    error.add_note(f"In worker process {number}:\n{failure.traceback}")
    return error


def _parcel(reader: BatchReader) -> Parcel:
    try:
        return Parcel(reader)
    except OSError as error:
        raise DataError(
            f"loader requires memory that processes share for its dataset, got {error}"
        ) from error
    except Exception as error:
        raise ArgumentError(
            "processes require a dataset, augment, collate and mix that pickle, got "
            f"{type(error).__name__}: {error}; define their functions and classes at the top of a "
            "module (no lambda), or use threads: processes=False"
        ) from error


def _described(task: BatchTask) -> str:
    first, last = task.indices[0], task.indices[-1]
    return f"batch {task.number} of epoch {task.epoch} (items {first} … {last})"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start a process in which Ctrl-C is blocked from its first moment on."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
