"""Who records calls: a thread, or an asyncio task that runs in it.

Tasks that take turns would find another order of calls each time, and so other programs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

from pyrite.backend.fusion.deferred import DeferredRun
from pyrite.backend.fusion.eager import EagerCalls
from pyrite.backend.fusion.pending import PendingCalls

_modules = sys.modules
#: What tells the loop that runs in this thread, once somebody has imported asyncio.
_running: Callable[[], Any] | None = None


def _running_loop() -> Callable[[], Any] | None:
    """Return what tells the loop that runs in this thread; None while there can be none.

    A program that never imported asyncio has no tasks, and need not import it for this.
    """
    global _running
    if _running is None:
        # Another thread may be importing it, and then it has nothing yet, nor is there a loop.
        _running = getattr(_modules.get("asyncio"), "_get_running_loop", None)
    return _running


class TaskCalls:
    """The calls that a thread recorded last: of the task that ran last, or outside of tasks."""

    __slots__ = ("_others", "_outside", "_task", "deferred", "pending")

    def __init__(self) -> None:
        self.pending: PendingCalls | EagerCalls | None = None
        #: The end of the last run of a compiled function, of whichever task.
        self.deferred: DeferredRun | None = None
        #: The task that they are of, None outside of one; what was recorded there, and by others.
        self._task: ref[Any] | None = None
        self._outside: PendingCalls | EagerCalls | None = None
        self._others: WeakKeyDictionary[Any, PendingCalls | EagerCalls] = WeakKeyDictionary()

    def finish(self) -> None:
        """Do what was put off."""
        if self.deferred is not None:
            self.deferred.run()
            self.deferred = None

    def turn(self) -> None:
        """Have ``pending`` be of the task that runs now."""
        running = _running_loop()
        if running is None or (loop := running()) is None:
            if self._task is not None:
                self._turn_to(None)
            return
        task = _modules["asyncio"].current_task(loop)
        if task is not (None if self._task is None else self._task()):
            self._turn_to(task)

    def recording(self) -> PendingCalls | EagerCalls | None:
        """Return the calls that the next one follows; None where there is more to do first."""
        # As `turn` does, written for speed: this is run for every op.
        running = _running or _running_loop()
        if running is None or running() is None:
            if self._task is not None:
                self._turn_to(None)
        else:
            self.turn()
        return None if self.deferred is not None else self.pending

    def _turn_to(self, task: Any) -> None:
        """Put away what another task recorded, and take up what this one did."""
        if self._task is None:
            self._outside = self.pending
        elif (before := self._task()) is not None and self.pending is not None:
            self._others[before] = self.pending
        self._task = None if task is None else ref(task)
        self.pending = self._outside if task is None else self._others.pop(task, None)


class CallsHere(threading.local):
    """The calls of each thread."""

    def __init__(self) -> None:
        self.of_thread = TaskCalls()

    @property
    def now(self) -> TaskCalls:
        """Those of this thread, turned to the task that runs in it."""
        found = self.of_thread
        found.turn()
        return found
