"""When buffers of a program are in use, and what is the most at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """So many bytes, in use from one launch to another, both included."""

    nbytes: int
    begin: int
    end: int

    def meets(self, other: Use) -> bool:
        """Whether both are in use at some launch."""
        return self.begin <= other.end and other.begin <= self.end


def peak_of(uses: Sequence[Use]) -> list[int]:
    """Return which uses are in memory when most bytes are: no block can be smaller.

    >>> peak_of([Use(64, 0, 1), Use(64, 1, 2), Use(32, 2, 3)])
    [0, 1]
    """
    launches = sorted({u.begin for u in uses})
    found = [[n for n, u in enumerate(uses) if u.begin <= at <= u.end] for at in launches]
    return max(found, key=lambda of: sum(uses[n].nbytes for n in of), default=[])


def least_bytes(uses: Sequence[Use]) -> int:
    """Return the most bytes that are in use at one launch: no block can be smaller."""
    return sum(uses[n].nbytes for n in peak_of(uses))
