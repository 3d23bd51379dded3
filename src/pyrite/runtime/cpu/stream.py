"""The order of launches: a program that is being written, and those handed to the threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from pyrite.runtime.cpu.executor import CHUNKS, NO_SEAT, Executor, Program
from pyrite.runtime.interruption import Uninterrupted

#: Launches that are handed over together.
_TOGETHER: Final = 32


class Stream:
    """Launches of all Python threads, in the order of `extend`.

    One with several chunks for each thread is handed over at once when there is none under way;
    shorter ones together, as handing over takes a few microseconds.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.launches = 0
        self._lock = Lock()
        self._pending = Program()
        #: Whether a processor was left to who records: see `Executor.submit_aside`.
        self._is_aside = False

    def extend(self, words: list[int], count: int) -> None:
        """Add launches as `command` writes them; now and then those added are handed over."""
        executor = self.executor
        executor.check()
        with self._lock:
            self._pending.extend(words, count)
            self.launches += count
            if self._pending.count >= _TOGETHER:
                self._submit(executor.submit)
            elif words[CHUNKS] > executor.width and executor.is_idle:
                self._submit(executor.submit_aside)
                self._is_aside = True

    def flush(self) -> int:
        """Hand over what was added and return the number of the last submission."""
        self.executor.check()
        with self._lock:
            if not self._pending.is_empty:
                self._submit(self.executor.submit)
            if self._is_aside:
                self.executor.rouse()
                self._is_aside = False
            return self.executor.submitted

    def wait(self, submission: int) -> None:
        """Return when everything up to that submission is done; this thread helps."""
        self.executor.wait(submission)

    def synchronize(self) -> None:
        """Hand over what was added and wait for everything."""
        self.executor.check()
        with Uninterrupted():
            with self._lock:
                number, seat = self.executor.submitted, NO_SEAT
                if not self._pending.is_empty:
                    number, seat = self.executor.submit_seated(self._pending)
                    self._pending = Program()
            if seat != NO_SEAT:
                self.executor.help(number, seat)
        self.executor.wait(number)

    def now(self) -> int:
        """Return the submission of the next launch."""
        return self.executor.submitted + 1

    def done(self) -> int:
        """Return the last submission that is done; the next one while nothing was added to it."""
        completed = self.executor.completed
        return completed + (completed == self.executor.submitted and self._pending.is_empty)

    def _submit(self, submit: Callable[[Program], int]) -> None:
        # Whole: what ran without being noted would be freed under it, or run again.
        with Uninterrupted():
            submit(self._pending)
            # Not before: `done` takes nothing pending and nothing submitted for idleness.
            self._pending = Program()
