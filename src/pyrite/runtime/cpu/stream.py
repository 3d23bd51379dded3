"""The order of launches: commands that are being written, and those handed to the threads."""

from __future__ import annotations

import ctypes
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

from pyrite.kernel.target.llvm import SYMBOL
from pyrite.runtime.cpu.compilation import Compilation
from pyrite.runtime.cpu.executor import NO_SEAT, CommandBuffer, Executor
from pyrite.runtime.cpu.linker import Code
from pyrite.runtime.interruption import Uninterrupted

#: Bytes of launches, some 40 of a few operands, that are handed over while others are under way.
BEHIND: Final = 512 * 8
#: Bytes that are handed over however little work they are.
MOST: Final = 8192 * 8


class Late(NamedTuple):
    """Launches of which some code is compiled elsewhere: at which of their words it belongs."""

    words: array[int]
    codes: tuple[tuple[int, Compilation], ...]

    def commands(self) -> bytes:
        """Return the commands, when all code is there."""
        for at, code in self.codes:
            self.words[at] = address_of(code.result())
        return self.words.tobytes()

    @property
    def is_made(self) -> bool:
        """Whether `commands` waits for nobody."""
        return all(code.is_made for _, code in self.codes)


def address_of(code: Code) -> int:
    """Return where the function of a kernel is."""
    return code.addresses[SYMBOL]


class _Totals(ctypes.Structure):
    """Bytes of launches that are pending, and nanoseconds: roughly, as threads may add at once."""

    size: int
    work: float
    _fields_ = (("size", ctypes.c_int64), ("work", ctypes.c_double))


class Stream:
    """Launches of all Python threads, in the order of `extend`.

    They are handed over when they are ``together`` nanoseconds of work: to wake a thread takes the
    one that records 1 to 25 microseconds, the latter on a virtual machine.  What is less waits for
    more, or for a reader, who runs it himself.
    """

    __slots__ = (
        "__weakref__", "_added", "_handed", "_is_aside", "_late", "_lock", "_next", "_pending",
        "_totals", "executor", "together",
    )  # fmt: skip

    def __init__(self, executor: Executor, *, together: float) -> None:
        self.executor = executor
        self.together = together
        self._lock = Lock()
        #: What was added last, in order: appending to a list is atomic, so `extend` waits for
        #: nobody.  Who holds the lock writes it behind the pending commands.
        self._added: list[bytes | Late] = []
        #: Those of them that wait for their code.
        self._late: deque[Late] = deque()
        self._pending = CommandBuffer(executor.count)
        self._totals = _Totals()
        #: The submission that what is added now will be, or a later one: nobody else submits.
        self._next = executor.submitted + 1
        #: Launches of the command buffers that were handed over.
        self._handed = 0
        #: Whether a processor was left to who records: see `Executor.submit_aside`.
        self._is_aside = False

    @property
    def launches(self) -> int:
        """How many launches were added so far."""
        self._require_code()
        with Uninterrupted(), self._lock:
            self._write_added()
            return self._handed + len(self._pending)

    def extend(self, commands: bytes, nanoseconds: float) -> None:
        """Add launches, as bytes of `command`, of so much work; maybe hand over what there is."""
        executor = self.executor
        if executor.why_closed is not None:
            executor.check()
        self._added.append(commands)
        totals = self._totals
        size = totals.size = totals.size + len(commands)
        work = totals.work = totals.work + nanoseconds
        if (work >= self.together and (size >= BEHIND or executor.is_idle)) or size >= MOST:
            self.hand_over()

    def extend_many(self, commands: bytes, nanoseconds: float, count: int) -> None:
        """Add so many launches, as `extend` does; they are handed over as they are, if they may be.

        So are those of a program, behind nothing that waits: to copy and to count tens of kilobytes
        takes as long as to wake a thread.
        """
        executor, is_aside = self.executor, self.executor.width > 1
        is_much = nanoseconds >= self.together and (len(commands) >= BEHIND or executor.is_idle)
        if is_much and executor.why_closed is None and self._lock.acquire(blocking=False):
            try:
                if not (self._added or self._late or self._pending.words):
                    # As in `_prepare`: what is added from here on may miss this submission.
                    self._next = executor.submitted + 2
                    if executor.submit_bytes(commands, count, aside=is_aside):
                        self._handed += count
                        self._is_aside = is_aside
                        return
                    self._next = executor.submitted + 1
            finally:
                self._lock.release()
        self.extend(commands, nanoseconds)

    def extend_late(self, commands: Late, nanoseconds: float) -> None:
        """Add launches whose code is compiled meanwhile."""
        if self.executor.why_closed is not None:
            self.executor.check()
        # First, so that nothing that was added is missed by `_require_code`.
        self._late.append(commands)
        self._added.append(commands)
        self._totals.work += nanoseconds

    @property
    def added(self) -> list[bytes | Late]:
        """Where machine code adds launches; it notes them in `totals_at`."""
        return self._added

    @property
    def totals_at(self) -> int:
        """The address of the bytes that are pending and, in the next word, their nanoseconds."""
        return ctypes.addressof(self._totals)

    def hand_over(self) -> None:
        """Hand over what was added, for who goes on recording, if its code is there."""
        while self._late:
            with suppress(IndexError):  # another thread may do so too
                if not self._late[0].is_made:
                    return
                self._late[0].commands()
                self._late.popleft()
        with self._lock:
            self._submit_recording()

    def _write_added(self) -> None:
        """Write what was added behind the pending commands, for who holds the lock."""
        added, pending = self._added, self._pending.words
        while count := len(added):
            # It stays until it is written: `done` takes nothing added and nothing pending for
            # idleness.  Others may add meanwhile, behind it.
            parts = [x.commands() if isinstance(x, Late) else x for x in added[:count]]
            # The launches of a program come alone, in tens of kilobytes.
            pending.frombytes(parts[0] if count == 1 else b"".join(parts))
            del added[:count]

    def flush(self) -> int:
        """Hand over what was added and return the number of the last submission."""
        self.executor.check()
        self._require_code()
        with self._lock:
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
        if not self._added and not self._pending.words and self.executor.is_idle:
            return
        self._require_code()
        with Uninterrupted():
            with self._lock:
                number, seat = self.executor.submitted, NO_SEAT
                if self._prepare():
                    number, seat = self.executor.submit_seated(self._pending)
                    self._begin()
            if seat != NO_SEAT:
                self.executor.help(number, seat)
        self.executor.wait(number)

    def now(self) -> int:
        """Return the submission of the last launch that was added, or a later one."""
        return self._next

    def done(self) -> int:
        """Return the last submission that is done; the next one while nothing was added to it.

        The order matters: another thread may add, and hand over, between any two of the questions.
        """
        if self._added or self._pending.words:
            return self.executor.completed
        submitted = self.executor.submitted
        completed = self.executor.completed
        return completed + (completed == submitted)

    def _require_code(self) -> None:
        """Return when all code is there of what was added.  Raises what compiling it does."""
        while self._late:
            with suppress(IndexError):  # another thread may do so too
                self._late[0].commands()
                self._late.popleft()

    def _submit_recording(self) -> None:
        """Hand over for a thread that goes on recording, and keeps its processor for that."""
        # Where there is one thread, nobody but its worker would begin.
        self._is_aside = self.executor.width > 1
        self._submit(self.executor.submit_aside if self._is_aside else self.executor.submit)

    def _submit(self, submit: Callable[[CommandBuffer], int]) -> None:
        # Whole: what ran without being noted would be freed under it, or run again.
        with Uninterrupted():
            if self._prepare():
                submit(self._pending)
                self._begin()

    def _prepare(self) -> bool:
        """Gather what is to be submitted; whether there is any."""
        # Before: what is added from here on may miss this submission.
        self._next = self.executor.submitted + 2
        self._write_added()
        if self._pending.words:
            return True
        self._next = self.executor.submitted + 1
        return False

    def _begin(self) -> None:
        """Write other commands, once those before were submitted.

        Not before: `done` takes nothing pending and nothing submitted for idleness.
        """
        self._handed += len(self._pending)
        self._pending = CommandBuffer(self.executor.count)
        self._totals.size, self._totals.work = 0, 0.0
