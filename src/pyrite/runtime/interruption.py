"""Ctrl-C that waits until a thing is whole.

Python raises KeyboardInterrupt between any two instructions of the main thread.  Where that would
tear a submission from what is noted of it, or end a callback of native code, which can only drop
the exception, it has to wait for a moment.
"""

from __future__ import annotations

import threading

# `signal.signal` turns numbers into enums and back, 20 µs for such a block instead of 1.
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from signal import SIGINT
from types import FrameType, TracebackType
from typing import Any


class Uninterrupted:
    """A block that SIGINT does not end: its handler is called at the end of the block instead.

    For blocks that take no longer than a blink.  In other threads it does nothing: signals are the
    main thread's.

    >>> with Uninterrupted():
    ...     pass
    """

    __slots__ = ("_handler", "_late")

    def __init__(self) -> None:
        self._handler: Any = None
        self._late: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = getsignal(SIGINT)
        # Not a function: ignored, the system's, or of a library in C.
        if callable(handler):
            self._handler = handler
            set_handler(SIGINT, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._handler is None:
            return
        set_handler(SIGINT, self._handler)
        if self._late is not None:
            self._handler(*self._late)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._late = (number, frame)
