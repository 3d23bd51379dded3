"""Who records calls: a thread, or an asyncio task that runs in it.

Tasks that take turns would find another order of calls each time, and so other programs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary, ref

from pyrite.backend.fusion.deferred import DeferredRun
from pyrite.backend.fusion.eager import LOOKING, OTHER, PLAIN, RECORDING, RESTING, EagerCalls
from pyrite.backend.fusion.pending import PendingCalls

_modules = sys.modules

#: What the task that runs records, in its context.  A task that it started in the middle of that
#: has it too: of its calls only one that came behind these before is taken for one of them.
RECORDED: ContextVar[PendingCalls | EagerCalls | None] = ContextVar(
    "pyrite.fusion.recorded", default=None
)


class TaskCalls:
    """The calls that a thread recorded last: of the task that ran last, or outside of tasks."""

    __slots__ = (
        "_others",
        "_outside",
        "_task",
        "deferred",
        "is_alone",
        "is_in_task",
        "pending",
        "resting",
        "running",
        "state",
    )

    def __init__(self) -> None:
        self.pending: PendingCalls | EagerCalls | None = None
        #: What there is to do for an op, asked before all else; calls that wait for a first one.
        self.state = OTHER
        self.resting: EagerCalls | None = None
        #: Whether calls that run at once may be of any task: nobody else records, or looks at his.
        self.is_alone = True
        #: What tells the loop that runs in this thread, once somebody has imported asyncio.
        self.running: Callable[[], Any] | None = None
        #: The end of the last run of a compiled function, of whichever task.
        self.deferred: DeferredRun | None = None
        #: Whether they are of a task.
        self.is_in_task = False
        #: The task that they are of, None outside of one; what was recorded there, and by others.
        self._task: ref[Any] | None = None
        self._outside: PendingCalls | EagerCalls | None = None
        self._others: WeakKeyDictionary[Any, PendingCalls | EagerCalls] = WeakKeyDictionary()

    def finish(self) -> None:
        """Do what was put off."""
        if self.deferred is not None:
            self.deferred.run()
            self.deferred = None

    def note_state(self) -> None:
        """Note what there is to do for the next op.

        In tasks too, where calls run at once: if another task takes its turn meanwhile, its calls
        do so as well up to the next read, and lazy inputs are still computed by who recorded them.
        """
        pending, state = self.pending, OTHER
        if self.deferred is None and pending is not None:
            if isinstance(pending, EagerCalls):
                state = pending.state
                if state == LOOKING and self.is_in_task and RECORDED.get() is not pending:
                    RECORDED.set(pending)
                if state == RESTING:
                    self.resting = pending
            elif not pending.is_done:
                state = RECORDING
                if self.is_in_task and RECORDED.get() is not pending:
                    RECORDED.set(pending)
            elif self.resting is not None:
                self.pending, state = self.resting, RESTING
        self.state = state

    def settle(self) -> None:
        """Have calls that run at once know whether there were any since the last read."""
        state = self.state
        if state == PLAIN or state == RESTING:
            calls: Any = self.pending
            calls.is_begun = state == PLAIN

    def turned_state(self) -> int:
        """Return the state of the task that runs now, or outside of tasks, where one may end."""
        running = self.running
        loop = _modules.get("asyncio") if running is None else running()
        if loop is not None or self._task is not None:
            self.turn()
            if self.state == OTHER:
                self.note_state()
        if not self.is_alone:
            # A task that has ended has no calls.
            self._note_alone()
        return self.state

    def loop(self) -> Any:
        """Return the loop that runs in this thread, None where none does.

        A program that never imported asyncio has no tasks, and need not import it for this.
        """
        if self.running is None:
            # Another thread may be importing it, and then it has nothing yet, nor is there a loop.
            self.running = getattr(_modules.get("asyncio"), "_get_running_loop", None)
            if self.running is None:
                return None
        return self.running()

    def turn(self) -> None:
        """Have ``pending`` be of the task that runs now."""
        self.settle()
        if (loop := self.loop()) is None:
            if self._task is not None:
                self._turn_to(None)
            return
        task = _modules["asyncio"].current_task(loop)
        if task is not (None if self._task is None else self._task()):
            self._turn_to(task)

    def _turn_to(self, task: Any) -> None:
        """Put away what another task recorded, and take up what this one did."""
        self.state = OTHER
        if self._task is None:
            self._outside = self.pending
        elif (before := self._task()) is not None and self.pending is not None:
            self._others[before] = self.pending
        self.resting = None
        self._task = None if task is None else ref(task)
        self.is_in_task = task is not None
        self.pending = self._outside if task is None else self._others.pop(task, None)
        self._note_alone()

    def _note_alone(self) -> None:
        away: list[PendingCalls | EagerCalls | None] = [*self._others.values()]
        if self._task is not None:
            away.append(self._outside)
        self.is_alone = not any([calls is not None and calls.is_open for calls in away])


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
