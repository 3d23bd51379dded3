"""The invocations of a workgroup that Python runs: one at a time, each up to its next barrier.

Each has a thread, since a barrier may stand anywhere in it; but only one of them is ever at work,
so that what they print comes in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pyrite.errors import KernelError

Invocation = Callable[[Callable[[], None]], None]


class _Abandoned(BaseException):
    """Raised in an invocation whose workgroup has failed."""


class _Turn:
    """One invocation: it works while it has the turn."""

    def __init__(self, run: Invocation) -> None:
        self._run = run
        self._mine, self._others = threading.Semaphore(0), threading.Semaphore(0)
        self._is_abandoned = False
        self.is_done = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def advance(self) -> None:
        """Let it work up to its next barrier, or its end."""
        if not self._thread.is_alive() and not self.is_done:
            self._thread.start()
        self._mine.release()
        self._others.acquire()

    def abandon(self) -> None:
        """End it where it waits."""
        self._is_abandoned = True
        if self._thread.is_alive():
            self.advance()

    def wait(self) -> None:
        """Give the turn away: called by the invocation at a barrier."""
        self._others.release()
        self._mine.acquire()
        if self._is_abandoned:
            raise _Abandoned

    def _work(self) -> None:
        self._mine.acquire()
        try:
            self._run(self.wait)
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._others.release()


def run_together(name: str, invocations: Sequence[Invocation]) -> None:
    """Run the invocations of one workgroup.

    Raises what one of them raises, and KernelError for a barrier that not all come by.
    """
    turns = [_Turn(run) for run in invocations]
    try:
        while not all(t.is_done for t in turns):
            for turn in turns:
                turn.advance()
                if turn.error is not None:
                    raise turn.error
            if len({t.is_done for t in turns}) == 2:
                raise KernelError(
                    f"kernel '{name}' requires all invocations of a workgroup to come by its "
                    "barriers, got some that end before; move the barrier out of the if"
                )
    finally:
        for turn in turns:
            if not turn.is_done:
                turn.abandon()
