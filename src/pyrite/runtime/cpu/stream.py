"""The order of launches: commands that are being written, and those handed to the threads."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from threading import Lock
from typing import Final

from pyrite.runtime.cpu.executor import CHUNKS, NO_SEAT, CommandBuffer, Executor
from pyrite.runtime.interruption import Uninterrupted

#: Words of launches that are handed over together: some 40 launches of a few operands.
_TOGETHER: Final = 512


class Stream:
    """Launches of all Python threads, in the order of `extend`.

    One with several chunks for each thread is handed over at once when there is none under way;
    shorter ones together, as handing over takes a few microseconds.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._lock = Lock()
        self._pending = CommandBuffer()
        #: The submission that the pending commands will be: nobody else submits.
        self._next = executor.submitted + 1
        #: Launches of the command buffers that were handed over.
        self._handed = 0
        #: Whether a processor was left to who records: see `Executor.submit_aside`.
        self._is_aside = False

    @property
    def launches(self) -> int:
        """How many launches were added so far."""
        with self._lock:
            return self._handed + len(self._pending)

    def extend(self, words: array[int]) -> None:
        """Add launches as `command` writes them; now and then those added are handed over."""
        executor = self.executor
        if executor.why_closed is not None:
            executor.check()
        with self._lock:
            pending = self._pending.words
            pending.extend(words)
            if len(pending) >= _TOGETHER:
                self._submit(executor.submit)
            elif words[CHUNKS] > executor.width and executor.is_idle:
                self._submit(executor.submit_aside)
                self._is_aside = True

    def flush(self) -> int:
        """Hand over what was added and return the number of the last submission."""
        self.executor.check()
        with self._lock:
            if self._pending.words:
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
                if self._pending.words:
                    number, seat = self.executor.submit_seated(self._pending)
                    self._begin(number)
            if seat != NO_SEAT:
                self.executor.help(number, seat)
        self.executor.wait(number)

    def now(self) -> int:
        """Return the submission of the next launch."""
        return self._next

    def done(self) -> int:
        """Return the last submission that is done; the next one while nothing was added to it."""
        completed = self.executor.completed
        return completed + (completed == self.executor.submitted and not self._pending.words)

    def _submit(self, submit: Callable[[CommandBuffer], int]) -> None:
        # Whole: what ran without being noted would be freed under it, or run again.
        with Uninterrupted():
            self._begin(submit(self._pending))

    def _begin(self, submitted: int) -> None:
        """Write other commands, once those before were submitted under that number.

        Not before: `done` takes nothing pending and nothing submitted for idleness.
        """
        self._handed += len(self._pending)
        self._pending = CommandBuffer()
        self._next = submitted + 1
