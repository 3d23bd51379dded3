"""Indices that were outside: found by a kernel, raised by the next read.

A kernel cannot raise.  One that reads or writes by index tests each index, and puts a number into
the device's error word where one fails; the read goes on with 0, the write is dropped.  Each place
in the user's program that runs such a kernel has a number of its own, so the error names the op and
the line although it is raised later, elsewhere.
"""

from __future__ import annotations

import threading

import numpy as np

from pyrite.errors import IndexRangeError
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Runtime
from pyrite.types import uint32


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

    def raise_pending(self) -> None:
        """Wait for the kernels that may have failed; raise IndexRangeError if one did."""
        with self._lock:
            word, launched = self._word, self._launched
            if word is None or launched == self._checked:
                return
        number = int(self._runtime.read(word, uint32, (1,))[0])
        with self._lock:
            self._checked = max(self._checked, launched)
            if number == 0:
                return
            # The next kernels get a fresh word, else this one would be raised for ever.
            if self._word is word:
                self._word = None
            message, location = self._messages[number - 1]
        error = IndexRangeError(message)
        error.location = location
        raise error
