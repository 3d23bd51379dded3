"""Indices that were outside: found by a kernel, raised by the next read.

A kernel cannot raise.  One that reads or writes by index tests each index, and puts a number into
the device's error word where one fails; the read goes on with 0, the write is dropped.  Each place
in the user's program that runs such a kernel has a number of its own, so the error names the op and
the line although it is raised later, elsewhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from pyrite.errors import IndexRangeError
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Runtime, Wanted
from pyrite.types import Array, uint32


@dataclass(frozen=True, slots=True)
class Suspicion:
    """That one of the first ``launched`` kernels may have set the word."""

    word: Buffer
    launched: int

    @property
    def wanted(self) -> Wanted:
        """What is to be read to know it."""
        return [(self.word, uint32, (1,))]


class Faults:
    """The error word of one runtime, and what its numbers mean."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._messages: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._word: Buffer | None = None
        #: How many kernels may have set the word, and how many of them a read has looked after.
        self._launched = 0
        self._checked = 0

    def expect(self, message: str) -> tuple[Buffer, int]:
        """Return the error word and the number to put there, for a kernel that is to be launched.

        ``message`` is what the error will say; the user's line is noted here.
        """
        place = (message, user_location())
        with self._lock:
            number = self._numbers.get(place)
            if number is None:
                self._messages.append(place)
                number = self._numbers[place] = len(self._messages)
            if self._word is None:
                self._word = self._runtime.upload(np.zeros(1, np.uint32))
            self._launched += 1
            return self._word, number

    def suspicion(self) -> Suspicion | None:
        """Return what to read along with values, if a kernel before them may have failed."""
        with self._lock:
            if self._word is None or self._launched == self._checked:
                return None
            return Suspicion(self._word, self._launched)

    def settle(self, suspicion: Suspicion, value: Array) -> None:
        """Take the word that was read.  Raises IndexRangeError if a kernel failed."""
        number = int(value[0])
        with self._lock:
            self._checked = max(self._checked, suspicion.launched)
            if number == 0:
                return
            # The next kernels get a fresh word, else this one would be raised for ever.
            if self._word is suspicion.word:
                self._word = None
            message, location = self._messages[number - 1]
        error = IndexRangeError(message)
        error.location = location
        # The traceback shows where it is read; what is to be mended stands elsewhere.
        error.add_note(f"the index was used at {location}")
        raise error
