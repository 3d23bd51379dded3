"""The elements of a memory, and who touched each last: what a missing barrier would hide."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from pyrite.types import Array, DType

How = Literal["written", "read"]


class Race(NamedTuple):
    """Two invocations that touch one element with nothing that orders them."""

    #: The place of the touch among those that were noted together.
    position: int
    #: The invocation that touched the element before, and how; None where both write it at once.
    before: tuple[int, How] | None


class Memory:
    """A buffer, or the shared or private memories of all invocations."""

    def __init__(
        self,
        data: Array,
        size: int,
        base: Array | None = None,
        *,
        is_tracked: bool,
        own: Array | None = None,
    ) -> None:
        self.data = data
        self.size = size
        #: Whether each of the first elements may be touched; without it all may be.
        self.own = own
        #: Where the memory of each invocation begins in ``data``; a buffer has one beginning.
        self.base = base
        self.is_tracked = is_tracked
        if is_tracked:
            # Who wrote and who read each element, in which epoch of their workgroup.
            self._touched: dict[How, tuple[Array, Array]] = {
                "written": (np.full(len(data), -1), np.zeros(len(data), np.int64)),
                "read": (np.full(len(data), -1), np.zeros(len(data), np.int64)),
            }

    def touch(
        self, how: How, elements: Array, invocations: Array, epochs: Array, group_size: int
    ) -> Race | None:
        """Note that invocations touch an element each, in an epoch of theirs; return a race.

        A workgroup, of ``group_size`` invocations, begins an epoch at each barrier: what belongs to
        an earlier one is ordered.  Between workgroups nothing is.
        """
        orders: tuple[How, ...] = ("written", "read") if how == "written" else ("written",)
        for before in orders:
            who, when = self._touched[before]
            other = who[elements]
            race = (other >= 0) & (other != invocations)
            if not np.count_nonzero(race):
                continue
            same_group = other // group_size == invocations // group_size
            race &= ~(same_group & (when[elements] < epochs))
            if race.any():
                position = first(race)
                return Race(position, (int(other[position]), before))
        who, when = self._touched[how]
        who[elements] = invocations
        when[elements] = epochs
        if how == "written" and np.count_nonzero(who[elements] != invocations):
            return Race(first(who[elements] != invocations), None)
        return None


def undefined(dtype: DType, count: int) -> Array:
    """Return memory that was never written: NaN or a pattern, never a convenient zero."""
    if dtype.is_float:
        return np.full(count, np.nan).astype(dtype.numpy)
    if dtype.is_bool:
        return np.ones(count, dtype=bool)
    return np.full(count, 0x5A, dtype=np.uint8).repeat(dtype.itemsize).view(dtype.numpy)


def first(mask: Array) -> int:
    """Return the first row in which the mask is true."""
    return int(np.argwhere(mask)[0][0])
