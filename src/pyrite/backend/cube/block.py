"""One block of memory for many buffers: those that are never in use together overlap.

Greedy by size: the largest part first, each at the lowest place that is free for as long as it is
in use.  Source: Pisarchyk & Lee 2020, arXiv:2001.03288, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Block:
    """The size of a block, and where in it each use lies, in their order."""

    nbytes: int
    offsets: tuple[int, ...]


def block_of(uses: Sequence[Use], alignment: int) -> Block:
    """Return where uses lie in one block.

    >>> block_of([Use(64, 0, 1), Use(64, 1, 2), Use(64, 2, 3)], 64)
    Block(nbytes=128, offsets=(0, 64, 0))
    """
    offsets = [0] * len(uses)
    placed: list[int] = []
    for n in sorted(range(len(uses)), key=lambda n: -uses[n].nbytes):
        at = 0
        for other in sorted((m for m in placed if uses[m].meets(uses[n])), key=offsets.__getitem__):
            if at + uses[n].nbytes <= offsets[other]:
                break
            at = max(at, offsets[other] + _aligned(uses[other].nbytes, alignment))
        offsets[n] = at
        placed.append(n)
    ends = (at + use.nbytes for at, use in zip(offsets, uses, strict=True))
    return Block(max(ends, default=0), tuple(offsets))


def hosted(uses: Mapping[int, Use], hosts: Mapping[int, Use]) -> dict[int, int]:
    """Return which uses lie in memory that is there for another one, before that is in use.

    >>> hosted({0: Use(64, 0, 1), 1: Use(64, 2, 2), 2: Use(64, 2, 4)}, {9: Use(64, 4, 5)})
    {1: 9, 0: 9}
    """
    left = dict(uses)
    found: dict[int, int] = {}
    for name, host in sorted(hosts.items(), key=lambda item: -item[1].nbytes):
        limit = host.begin
        while fitting := [
            (use.nbytes, use.end, n)
            for n, use in left.items()
            if use.end < limit and use.nbytes <= host.nbytes
        ]:
            _, _, n = max(fitting)
            found[n] = name
            limit = left.pop(n).begin
    return found


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


def _aligned(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment
