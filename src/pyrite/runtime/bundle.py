"""A bundle, and its memory, for runtimes where these are cheap beside what a launch starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.runtime.protocol import Buffer, BundledLaunch


class LaunchList:
    """Launches one by one, by the runtime's own method."""

    __slots__ = ("_launch", "_steps")

    def __init__(self, launch: Callable[[Any, Sequence[Any], Sequence[int]], None],
                 steps: Sequence[BundledLaunch]) -> None:  # fmt: skip
        self._launch = launch
        self._steps = tuple(steps)

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        for step in self._steps:
            self._launch(step.executable, step.bound(operands), step.grid)


class NewBuffers:
    """The memory of a bundle whose buffers are new in each run."""

    __slots__ = ("_allocate", "_capacity", "_sizes")

    def __init__(
        self, allocate: Callable[[int], Buffer], sizes: Sequence[int],
        capacity: Callable[[int], int],
    ) -> None:  # fmt: skip
        self._allocate, self._capacity = allocate, capacity
        self._sizes = tuple(sizes)

    def needed(self, *, are_new: bool = False) -> int:
        """Return how many bytes `buffers` takes."""
        return sum(map(self._capacity, self._sizes))

    def buffers(self, *, are_new: bool = False) -> list[Any]:
        """Return a buffer of each size; see `pyrite.runtime.protocol.BundleMemory`."""
        # A comprehension is a call more, which shows in small ops.
        made = []
        for nbytes in self._sizes:
            made.append(self._allocate(nbytes))
        return made

    def parts(
        self, buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int],
        sizes: Sequence[int],
    ) -> list[Any]:  # fmt: skip
        """Return parts of buffers; see `pyrite.runtime.protocol.BundleMemory`."""
        return parts_one_by_one(buffers, which, offsets, sizes)


def parts_one_by_one(
    buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]
) -> list[Any]:
    """Return parts of buffers, as each buffer makes one."""
    return [
        buffers[n].view(offset, nbytes)
        for n, offset, nbytes in zip(which, offsets, sizes, strict=True)
    ]
