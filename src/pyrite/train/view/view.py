"""View: what shows a run.  The learner knows nothing else of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from pyrite.train.event import Event
from pyrite.train.interruption import Interrupter


class View(Protocol):
    """Shows events.  It is called from one thread that is its own, and never delays a step.

    A view that raises is closed, reported once, and asked no more; the training goes on.
    """

    def handle(self, event: Event) -> None:
        """Show one event.  Some `StepEnded` are left out where steps are faster than the view."""
        ...

    def close(self) -> None:
        """Finish: put the terminal back as it was.  After it a next run may begin."""
        ...


@runtime_checkable
class CommandingView(View, Protocol):
    """A view that also commands the run, and adds to what the run tells."""

    def attach(self, interrupter: Interrupter, emit: Callable[[Event], None]) -> None:
        """Take hold of a run before its first event; both may be used in any thread."""
        ...
