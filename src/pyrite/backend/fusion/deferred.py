"""The end of a program that writes over its inputs, put off until their holder has let go of them.

Who renews a model holds the old one until the call has returned.  What comes before the first write
is submitted in the call; the rest at the next op, read or wait, when an input that nobody else
holds gives its memory to a result, and one that is still held is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from threading import RLock
from typing import Any

from pyrite.backend.compiling import Begun
from pyrite.backend.fusion.lazy import Lazy
from pyrite.columns import Column, Maker
from pyrite.op import Handle
from pyrite.types import TensorType

_lazies, _values = Maker(Lazy, "type", "place", "value"), Column(Lazy, "value")


class DeferredRun:
    """A run that has begun, and the handles of what its end makes."""

    __slots__ = ("_begun", "_late", "_lock", "_numbers")

    def __init__(self, begun: Begun) -> None:
        self._begun: Begun | None = begun
        self._lock = RLock()
        self._numbers: list[int] = []
        self._late: list[Lazy] = []

    def handles(self, types: Sequence[TensorType]) -> list[Handle]:
        """Return the results: what is made, and handles of what the end makes.  Asked once."""
        assert self._begun is not None
        made: list[Handle] = [*self._begun.results]
        numbers = self._numbers = [n for n, x in enumerate(made) if x is None]
        places = [*zip(repeat(self), numbers)]
        self._late = _lazies.many(len(numbers), [types[n] for n in numbers], places, None)
        for n, lazy in zip(numbers, self._late, strict=True):
            made[n] = lazy
        return made

    def run(self) -> None:
        """Do the rest; once.  What raises may be tried again: then nothing was written."""
        with self._lock:
            begun: Any = self._begun
            if begun is None:
                return
            results = begun.finish()
            _values.write(self._late, [results[n] for n in self._numbers])
            self._begun, self._late = None, []
