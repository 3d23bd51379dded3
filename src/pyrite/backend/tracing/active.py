"""Whether a body is traced on this thread, for those whom a body may not call."""

from __future__ import annotations

import threading
from typing import NoReturn, Protocol


class Refusing(Protocol):
    """What traces a body."""

    def refuse(self, what: str) -> NoReturn:
        """Raise UntraceableError, and remember it in case the body catches that."""
        ...


class Active(threading.local):
    """The tracer of a thread, while it traces."""

    tracer: Refusing | None = None


active = Active()


def forbid_in_bodies(what: str) -> None:
    """Raise UntraceableError where a body is traced: what differs from call to call is no part."""
    if active.tracer is not None:
        active.tracer.refuse(what)
