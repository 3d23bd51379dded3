"""Kernels that are compiled ahead: for sizes that have not come yet, while nobody waits for others.

Some kernels have the first sizes built in, since a model mostly has no others and that is faster.
What serves all other sizes is compiled by a thread meanwhile, so that a second size finds it.  What
is compiled is the same as if the second size had asked for it: no result depends on the thread.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from time import clock_gettime, monotonic, process_time, thread_time
from typing import Final

from pyrite.config import config
from pyrite.recent import KERNELS, Recent

#: What is done in a pause; it may return others, which are done next, each in a pause.
Job = Callable[[], "Iterable[Job] | None"]

#: Seconds without a kernel that somebody waited for after which one is compiled ahead.
PAUSE: Final = 0.2
#: How long the thread rests after a job, by the time that this took, while the process computes:
#: what waits for Python's lock is slowed down by no more than 3 %.
REST: Final = 30.0
#: Programs are compiled in slices of so many seconds of work, with rests between them by the time
#: that a slice took; so somebody who wants Python's lock waits no longer than a slice.
SLICE: Final = 0.002
SLICE_REST: Final = 9.0
#: Seconds in which it looks whether the process computes, and the share of them that says so.
LOOK: Final = 0.02
BUSY: Final = 0.2


class Stopped(BaseException):
    """The process ends, and nobody wants any more what a job makes."""


_here = threading.local()


def breathe() -> None:
    """Let others have Python's lock for a while, in a job that is compiled in slices.

    It is called where no lock is held, and does nothing in other threads.
    """
    rest: Callable[[], None] | None = getattr(_here, "rest", None)
    if rest is not None:
        rest()


def python_time() -> float:
    """Return the seconds of a processor that Python's threads took which run now.

    A driver in software has threads of its own, which want no lock of Python's; where a system does
    not tell threads apart, they count too.
    """
    if not sys.platform.startswith("linux"):
        return process_time()
    spent = 0.0
    for number in [thread.native_id for thread in threading.enumerate()]:
        # As `pthread_getcpuclockid` has it, which must not be asked of a thread that just ended.
        with suppress(OSError):
            spent += clock_gettime(~number << 3 | 6) if number else 0.0
    return spent


class CompileAhead:
    """The jobs of a thread that compiles in the pauses of others, each once by its key."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        #: Those that come before them, as somebody may ask soon; and before these, in slices.
        self._likely: deque[Job] = deque()
        self._first: deque[Job] = deque()
        self._known: Recent[Hashable, bool] = Recent(KERNELS)
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._latest = 0.0
        #: How many wait until all is done.
        self._waiting = 0
        #: The job that runs, and when its slice began, by the thread's own time.
        self._current: Job | None = None
        self._began = 0.0

    def note(self) -> None:
        """Note that somebody waits for a kernel, unless it is compiled ahead."""
        if not self.is_here:
            self._latest = monotonic()

    @property
    def is_here(self) -> bool:
        """Whether it is called by the thread that compiles ahead."""
        return threading.current_thread() is self._thread

    def submit(self, key: Hashable, job: Job, *, is_likely: bool = False) -> None:
        """Have a job run in a pause, if there was none of that key, and `config.ahead` says so.

        Jobs for what is likely to be asked for come before all others.
        """
        if not config.ahead:
            return
        with self._changed:
            if not self._is_stopped and not self._known.get(key):
                self._known.put(key, True)
                (self._likely if is_likely else self._jobs).append(job)
                self._start()

    def submit_first(self, job: Job) -> None:
        """Have a job run in the next pause, before those that nobody may ask for, in slices.

        It calls `breathe` between pieces of its work.
        """
        with self._changed:
            if not self._is_stopped:
                self._first.append(job)
                self._start()

    def submit_soon(self, job: Job) -> None:
        """Have a job run before those that nobody may ask for, if `config.ahead` says so."""
        if config.ahead:
            self.submit_first(job)

    def _start(self) -> None:
        """Say that there are jobs; the lock is held."""
        self._changed.notify_all()
        if self._thread is None:
            # A thread that is cut off inside a compiler takes the process with it.
            self._thread = threading.Thread(target=self._run, name="pyrite-ahead", daemon=True)
            self._thread.start()
            atexit.register(self.stop)

    def finish(self) -> None:
        """Wait until all jobs are done, which then come without rests."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_done or self._is_stopped)
            self._waiting -= 1

    def finish_job(self, job: Job) -> None:
        """Run a job of `submit_first` here if it has not begun; else wait until it is done.

        Meanwhile it takes no rests.
        """
        with self._changed:
            if job not in self._first:
                self._waiting += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._current is not job)
                self._waiting -= 1
                return
            self._first.remove(job)
        job()

    def stop(self) -> None:
        """Wait for the job that runs, and let go of all others."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def _is_done(self) -> bool:
        return self._current is None and not any(self._queues)

    def _run(self) -> None:
        while (found := self._next()) is not None:
            job, queue = found
            is_first = queue is self._first
            others: list[Job] = []
            start = self._began = thread_time()
            _here.rest = self._breathe if is_first else None
            # Whoever needs the kernel meets the error.
            with suppress(Exception, Stopped):
                others = [*(job() or ())]
            with self._changed:
                self._current = None
                (self._jobs if is_first else queue).extendleft(reversed(others))
                self._changed.notify_all()
                self._rest(
                    SLICE_REST * (thread_time() - self._began) if is_first
                    else REST * (thread_time() - start)
                )  # fmt: skip

    def _breathe(self) -> None:
        """Rest if the slice is over.  Raises Stopped where the process ends."""
        spent = thread_time() - self._began
        if spent < SLICE:
            return
        with self._changed:
            if self._is_stopped:
                raise Stopped
            self._rest(SLICE_REST * spent, look=SLICE)
        self._began = thread_time()

    def _rest(self, seconds: float, look: float = LOOK) -> None:
        """Wait so long, or until nothing else computes; not while somebody waits for the jobs."""
        look, spent = min(look, seconds), python_time()
        if self._changed.wait_for(self._is_hurried, look):
            return
        if python_time() - spent > BUSY * look:
            self._changed.wait_for(self._is_hurried, seconds - look)

    def _is_hurried(self) -> bool:
        return self._is_stopped or self._waiting > 0

    @property
    def _queues(self) -> tuple[deque[Job], ...]:
        """The jobs that wait, the first ones first."""
        return self._first, self._likely, self._jobs

    def _next(self) -> tuple[Job, deque[Job]] | None:
        """Return the next job in a pause, and among which it was; None when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: any(self._queues) or self._is_stopped)
            while not self._is_stopped and (rest := self._latest + PAUSE - monotonic()) > 0:
                self._changed.wait(rest)
            if self._is_stopped:
                return None
            queue = next(filter(None, self._queues))
            self._current = queue.popleft()
            return self._current, queue
