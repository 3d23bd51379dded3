"""View: what shows a run.  The learner knows nothing else of views."""

from __future__ import annotations

from typing import Protocol

from pyrite.train.event import Event


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
