"""The end of a program that writes over its inputs, put off until their holder has let go of them.

Who renews a model holds the old one until the call has returned.  What comes before the first write
is submitted in the call; the rest at the next op, read or wait, when an input that nobody else
holds gives its memory to a result, and one that is still held is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

from pyrite.backend.compiling import Begun
from pyrite.backend.fusion.lazy import Lazy
from pyrite.op import Handle


class DeferredRun:
    """A run that has begun, and the handles of what its end makes."""

    __slots__ = ("_begun", "_late", "_lock")

    def __init__(self, begun: Begun, handles: Sequence[Handle]) -> None:
        self._begun: Begun | None = begun
        self._lock = RLock()
        self._late = [
            (n, x) for n, x in enumerate(handles) if isinstance(x, Lazy) and x.value is None
        ]
        for n, x in self._late:
            x.place = (self, n)

    def run(self) -> None:
        """Do the rest; once.  What raises may be tried again: then nothing was written."""
        with self._lock:
            begun: Any = self._begun
            if begun is None:
                return
            results = begun.finish()
            for n, x in self._late:
                x.value = results[n]
            self._begun, self._late = None, []
