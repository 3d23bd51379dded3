"""Index errors that a kernel cannot stop for, kept on the device until the next read."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from pyrite.errors import IndexRangeError
from pyrite.op import user_location

#: How many answers are kept apart.  64 checks are four to a step in 16 steps that nobody reads.
_NOTED_APART = 64

#: The number of a message, and whether it is to be raised: a bool.  Without a number, the number of
#: the first of several, or 0.
Noted = tuple[int | None, torch.Tensor]


def _first(noted: Sequence[Noted]) -> torch.Tensor:
    """Return the number of the first message that is to be raised, 0 for none."""
    total = torch.zeros((), dtype=torch.int64, device=noted[0][1].device)
    for number, found in reversed(noted):
        total = (
            torch.where(found, number, total) if number else torch.where(found == 0, total, found)
        )
    return total


class Faults:
    """The first index error of a device since it was last read, without waiting for it.

    What an op notes is a bool of the device; those of many ops are put together at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: list[Noted] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def note(self, outside: torch.Tensor, message: str) -> None:
        """Remember the message if an index is outside, a bool; the user's line goes with it."""
        key = (message, user_location())
        with self._lock:
            self._noted.append((self._numbers.setdefault(key, len(self._numbers) + 1), outside))
            if len(self._noted) == _NOTED_APART:
                self._noted = [(None, _first(self._noted))]

    def raise_any(self) -> None:
        """Raise the IndexRangeError that was found, if one was.  Waits for the device."""
        with self._lock:
            noted, self._noted = self._noted, []
        number = int(_first(noted)) if noted else 0
        if number:
            message, location = next(k for k, n in self._numbers.items() if n == number)
            error = IndexRangeError(message)
            error.location = location
            raise error
