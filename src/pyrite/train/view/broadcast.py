"""Broadcast: hands events to views, each on a thread of its own, so that no step waits for one.

Invariant: `emit` never blocks and never raises.  A view that falls behind misses `StepEnded`
events, which the next one makes up for; it misses no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from pyrite.train.event import Event, StepEnded
from pyrite.train.view.view import View

logger = logging.getLogger("pyrite.train")

#: Events that may wait for a view before steps are left out: some seconds of small steps.
CAPACITY = 1000
#: Seconds that the end of a run waits for a view to show what is left.
PATIENCE = 5.0


class Broadcast:
    """A context in which views receive events; at its end they are closed."""

    def __init__(self, views: Iterable[View], *, patience: float = PATIENCE) -> None:
        self._seats = [_Seat(view, patience) for view in views]

    def emit(self, event: Event) -> None:
        """Hand the event to every view, now or later.  Safe in a signal handler."""
        for seat in self._seats:
            seat.offer(event)

    def __enter__(self) -> Self:
        for seat in self._seats:
            seat.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for seat in self._seats:
            seat.dismiss()
        for seat in self._seats:
            seat.wait()


class _Seat:
    """A view, its thread, and the events that wait for it.

    SimpleQueue, because its ``put`` is reentrant: a signal handler may emit while a step does.
    """

    def __init__(self, view: View, patience: float) -> None:
        self.view = view
        self.patience = patience
        self.queue: SimpleQueue[Event | None] = SimpleQueue()
        self.failed = False
        name = f"pyrite-view-{type(view).__name__}"
        # A daemon: a view that hangs must not keep the process from ending.
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def offer(self, event: Event) -> None:
        if self.failed or (isinstance(event, StepEnded) and self.queue.qsize() >= CAPACITY):
            return
        self.queue.put(event)

    def dismiss(self) -> None:
        self.queue.put(None)

    def wait(self) -> None:
        self.thread.join(self.patience)
        if self.thread.is_alive():
            logger.error("view %s hangs and was left behind", type(self.view).__name__)

    def _run(self) -> None:
        try:
            while (event := self.queue.get()) is not None:
                self.view.handle(event)
            self.view.close()
        except Exception as error:
            self.failed = True
            with suppress(Exception):  # it may have left the terminal in a strange state
                self.view.close()
            logger.error(
                "view %s failed and was closed, the training goes on: %s: %s",
                type(self.view).__name__, type(error).__name__, error,
            )  # fmt: skip
