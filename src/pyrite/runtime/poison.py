"""Poison, the pattern of memory that nobody may read: NaN in every float dtype.

As an integer of any width it is far from 0, as a bool it is neither true nor false.  So a value
that was never written, was freed, or lies outside of what a launch may touch shows in its results,
and a write there is found because the pattern is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pyrite.runtime.protocol import Buffer
from pyrite.types import Array, Shape

#: float16, bfloat16, and float32 and float64 of it repeated: a quiet NaN each.
PATTERN = np.array([0x7FFD], "<u2").view(np.uint8)


def poison(memory: Array) -> None:
    """Fill bytes with the pattern, which begins with the first of them."""
    whole = len(memory) & ~1
    memory[:whole].view("<u2")[:] = PATTERN.view("<u2")[0]
    memory[whole:] = PATTERN[0]


def poisoned(nbytes: int) -> Array:
    """Return so many new bytes of the pattern."""
    memory: Array = np.empty(nbytes, np.uint8)
    poison(memory)
    return memory


def changed(memory: Array, phase: int = 0) -> Array:
    """Return the positions of bytes that are not the pattern's; it began ``phase`` bytes before."""
    phase %= len(PATTERN)
    size = phase + len(memory)
    wanted = _LONG if size <= len(_LONG) else np.resize(PATTERN, size)
    is_same = memory == wanted[phase:size]
    found: Array = np.flatnonzero(~is_same) if not is_same.all() else _NOWHERE
    return found


_NOWHERE: Array = np.empty(0, np.intp)

#: As much of it as is compared at once, mostly.
_LONG = np.resize(PATTERN, 1 << 13)


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The elements of a buffer that belong to an operand: where `mask` is true, from `first` on.

    The first and the last of the mask are true; elements have ``itemsize`` bytes.
    """

    itemsize: int
    first: int
    mask: Array

    @property
    def begin(self) -> int:
        """The byte at which it begins."""
        return self.first * self.itemsize

    @property
    def end(self) -> int:
        """The byte before which it ends."""
        return (self.first + len(self.mask)) * self.itemsize

    def elements(self, itemsize: int) -> Array:
        """Return of each element of ``itemsize`` bytes, from the buffer's first, whether it has it.

        What lies behind the last is not its own.
        """
        own = np.zeros(self.end, bool)
        own[self.begin :] = np.repeat(self.mask, self.itemsize)
        whole = self.end // itemsize * itemsize
        return np.asarray(own[:whole].reshape(-1, itemsize).all(axis=1))

    def masked(self, memory: Array) -> Array:
        """Return a copy of its bytes in which what is not its own is poison."""
        found = poisoned(len(self.mask) * self.itemsize).reshape(-1, self.itemsize)
        given = memory[self.begin : self.end].reshape(-1, self.itemsize)
        found[self.mask] = given[self.mask]
        return found.reshape(-1)


@lru_cache(maxsize=256)
def reach_of(itemsize: int, offset: int, shape: Shape, strides: Shape) -> Reach:
    """Return the reach of a tensor whose offset and strides count elements; it is not empty."""
    steps = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n > 1]
    first = offset + sum((n - 1) * stride for n, stride in steps if stride < 0)
    last = offset + sum((n - 1) * stride for n, stride in steps if stride > 0)
    mask = np.zeros(last - first + 1, bool)
    # A byte for each element, so that strides are the same in both.
    as_strided(mask[offset - first :], shape, strides)[...] = True
    return Reach(itemsize, first, mask)


class Guarding(Protocol):
    """What a runtime has besides that keeps launches inside of their operands' reach."""

    def within(self, buffer: Buffer, reach: Reach) -> Buffer:
        """Return what is bound in place of a buffer of which only that part may be read.

        It has the same elements at the same indices; others are poison, or refused.
        """
        ...
