"""After how many commands a queue submits without being asked to.

A submission costs the host 40 to 60 µs on an H200, as much as five calls of a small op, so a device
that has work gets more by 64 commands at a time.  One that has none waits meanwhile: after the host
has waited for all, the next submission comes after few commands, and each has twice as many as the
one before.  So a device begins while the host prepares the rest, for three submissions more.

What another thread encodes costs the caller 60 µs for each job, however long: twenty calls of a
small op.  So jobs of such calls get longer, up to 256 commands.  Those of programs do not: whoever
reads then encodes what is left himself, and the device has nothing to do meanwhile.

A device in software works on the processor that would prepare the rest, and an application submits
when it wants to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

#: So many commands are submitted, to keep a device busy.
SUBMIT_AFTER: Final = 64

#: So many calls of single ops at most, where another thread encodes them.
ENCODE_AFTER: Final = 256

#: So many, if it is idle.
FIRST: Final = 8

#: The first piece of a program that is submitted in several, each twice as long as the one before.
FIRST_PIECE: Final = 16


class Pace:
    """The pace of one queue.  ``due`` commands are submitted next."""

    __slots__ = ("_first", "_first_piece", "due")

    def __init__(self, *, is_early: bool) -> None:
        self._first = FIRST if is_early else SUBMIT_AFTER
        self._first_piece = FIRST_PIECE if is_early else SUBMIT_AFTER
        self.due = self._first

    @property
    def is_steady(self) -> bool:
        """Whether the device has work while the next submission is made ready."""
        return self._first < SUBMIT_AFTER <= self.due

    def submitted(self) -> None:
        """Note that the device has work."""
        self.due = min(2 * self.due, SUBMIT_AFTER)

    def begun(self, *, is_of_ops: bool) -> None:
        """Note that another thread encodes what it gets next, calls of single ops or programs."""
        self.due = min(2 * self.due, ENCODE_AFTER) if is_of_ops else SUBMIT_AFTER

    def rested(self) -> None:
        """Note that the device has none."""
        self.due = self._first

    def pieces(self, count: int) -> Iterator[range]:
        """Give the pieces in which so many launches are appended.

        >>> [len(piece) for piece in Pace(is_early=True).pieces(120)]
        [16, 32, 64, 8]
        """
        start, size = 0, self._first_piece
        while start < count:
            yield range(start, min(start + size, count))
            start += size
            size = min(2 * size, SUBMIT_AFTER)
