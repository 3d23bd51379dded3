"""Index errors that a kernel cannot stop for, kept on the device until the next read."""

from __future__ import annotations

import threading

import torch

from pyrite.errors import IndexRangeError
from pyrite.op import user_location


class Faults:
    """The first index error of a device since it was last read, without waiting for it.

    Invariant: the word is 0, or the number of the message of the first error.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._word: torch.Tensor | None = None
        self._numbers: dict[tuple[str, str], int] = {}

    def note(self, outside: torch.Tensor, message: str) -> None:
        """Remember the message if any index is outside; the user's line goes with it."""
        key = (message, user_location())
        with self._lock:
            number = self._numbers.setdefault(key, len(self._numbers) + 1)
            found = outside.any().to(torch.int64) * number
            self._word = found if self._word is None else self._first(found)

    def _first(self, found: torch.Tensor) -> torch.Tensor:
        assert self._word is not None
        return torch.where(self._word == 0, found, self._word)

    def raise_any(self) -> None:
        """Raise the IndexRangeError that was found, if one was.  Waits for the device."""
        with self._lock:
            word, self._word = self._word, None
        number = 0 if word is None else int(word)
        if number:
            message, location = next(k for k, n in self._numbers.items() if n == number)
            error = IndexRangeError(message)
            error.location = location
            raise error
