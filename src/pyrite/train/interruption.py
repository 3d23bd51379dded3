"""Stopping and pausing a run from outside: from another thread, a view, or with Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


class Interrupter:
    """Asks a run to stop, to pause or to save a checkpoint, after the step under way.

    Safe in any thread and in signal handlers: each is one assignment, and takes no lock.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._is_paused = False
        self._wants_save = False

    def stop(self, reason: str = "stop requested") -> None:
        """Ask to stop; the first reason stays."""
        if self._reason is None:
            self._reason = reason

    def pause(self) -> None:
        """Ask to wait, until `resume` or `stop`."""
        self._is_paused = True

    def resume(self) -> None:
        """End the pause."""
        self._is_paused = False

    def save(self) -> None:
        """Ask for a checkpoint; a run without a directory has none."""
        self._wants_save = True

    def saved(self) -> None:
        """Take the request for a checkpoint back: one was made."""
        self._wants_save = False

    def reset(self) -> None:
        """Take all requests back, so that the next run may go on."""
        self._reason = None
        self._is_paused = self._wants_save = False

    @property
    def is_paused(self) -> bool:
        """Whether somebody asked to wait."""
        return self._is_paused

    @property
    def wants_save(self) -> bool:
        """Whether somebody asked for a checkpoint, and none was made since."""
        return self._wants_save

    @property
    def reason(self) -> str | None:
        """Why to stop, or None."""
        return self._reason

    @property
    def should_stop(self) -> bool:
        """Whether somebody asked to stop."""
        return self._reason is not None


@contextmanager
def stopping_on_signals(interrupter: Interrupter, told: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C in the block ask to stop, and a second one raise KeyboardInterrupt.

    Where somebody has asked to stop already, the first one raises.  That the terminal is closed
    (SIGHUP) asks to stop too.  ``told(reason)`` is called within the signal handler.

    Only the main thread receives signals, so in any other this does nothing; nor where the program
    handles a signal itself.
    """

    def ctrl_c(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupter.should_stop:
            signal.default_int_handler(number, frame)
        interrupter.stop("Ctrl-C")
        told("Ctrl-C")

    def hangup(number: int, frame: FrameType | None) -> None:
        interrupter.stop("the terminal was closed")

    with (
        _handling("SIGINT", signal.default_int_handler, ctrl_c),
        _handling("SIGHUP", signal.SIG_DFL, hangup),
    ):
        yield


@contextmanager
def _handling(name: str, usual: object, handler: Handler) -> Iterator[None]:
    """Let a signal call the handler, unless it is handled in another way than the usual one."""
    number = getattr(signal, name, None)
    before = None if number is None else signal.getsignal(number)
    is_main = threading.current_thread() is threading.main_thread()
    if number is None or not is_main or before is not usual:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
