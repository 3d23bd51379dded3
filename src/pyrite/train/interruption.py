"""Stopping a run from outside: from another thread, from a view, or with Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupter:
    """Asks a run to stop after the step under way.

    Safe in any thread and in signal handlers: it is one assignment, and takes no lock.
    """

    def __init__(self) -> None:
        self._reason: str | None = None

    def stop(self, reason: str = "stop requested") -> None:
        """Ask to stop; the first reason stays."""
        if self._reason is None:
            self._reason = reason

    def reset(self) -> None:
        """Take the request back, so that the next run may go on."""
        self._reason = None

    @property
    def reason(self) -> str | None:
        """Why to stop, or None."""
        return self._reason

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked to stop."""
        return self._reason is not None


@contextmanager
def stopping_on_ctrl_c(interrupter: Interrupter, told: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C in the block ask to stop, and a second one raise KeyboardInterrupt.

    ``told(reason)`` is called at the first, within the signal handler.  Only the main thread
    receives signals, so in any other this does nothing; nor where the program handles them itself.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        interrupter.stop("Ctrl-C")
        told("Ctrl-C")

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
