"""The order of launches: commands that are being written, and those handed to the threads."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from threading import Lock
from typing import Final

from pyrite.runtime.cpu.executor import NO_SEAT, CommandBuffer, Executor
from pyrite.runtime.interruption import Uninterrupted

#: Words of launches, some 20 of a few operands, that are handed over while others are under way.
_BEHIND: Final = 512
#: Words that are handed over however little work they are.
_MOST: Final = 8192


class Stream:
    """Launches of all Python threads, in the order of `extend`.

    They are handed over when they are ``together`` nanoseconds of work: to wake a thread takes the
    one that records 1 to 25 microseconds, the latter on a virtual machine.  What is less waits for
    more, or for a reader, who runs it himself.
    """

    def __init__(self, executor: Executor, *, together: float) -> None:
        self.executor = executor
        self._together = together
        self._lock = Lock()
        self._pending = CommandBuffer()
        #: Nanoseconds of work that is pending, roughly.
        self._work = 0.0
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

    def extend(self, words: array[int], nanoseconds: float) -> None:
        """Add launches as `command` writes them, of so much work; maybe hand over what there is."""
        executor = self.executor
        if executor.why_closed is not None:
            executor.check()
        with self._lock:
            pending = self._pending.words
            pending.extend(words)
            work = self._work = self._work + nanoseconds
            if (work >= self._together and (len(pending) >= _BEHIND or executor.is_idle)) or len(
                pending
            ) >= _MOST:
                self._submit_recording()

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
        if not self._pending.words and self.executor.is_idle:
            return
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

    def _submit_recording(self) -> None:
        """Hand over for a thread that goes on recording, and keeps its processor for that."""
        # Where there is one thread, nobody but its worker would begin.
        self._is_aside = self.executor.width > 1
        self._submit(self.executor.submit_aside if self._is_aside else self.executor.submit)

    def _submit(self, submit: Callable[[CommandBuffer], int]) -> None:
        # Whole: what ran without being noted would be freed under it, or run again.
        with Uninterrupted():
            self._begin(submit(self._pending))

    def _begin(self, submitted: int) -> None:
        """Write other commands, once those before were submitted under that number.

        Not before: `done` takes nothing pending and nothing submitted for idleness.
        """
        self._handed += len(self._pending)
        self._pending, self._work = CommandBuffer(), 0.0
        self._next = submitted + 1
