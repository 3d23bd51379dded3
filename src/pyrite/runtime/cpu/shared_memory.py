"""Arrays of an application as buffers: its memory, which Pyrite reads, and writes only by ``out=``.

An array is held for as long as a buffer of it is, and until the launches that may read it are done:
these run later than they were called.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from pyrite.runtime.cpu.memory import Block, CpuBuffer, Lease
from pyrite.types import Array


class SharedBlock(Block):
    """The bytes from the first to the last element of an array."""

    __slots__ = ("owner",)

    def __init__(self, array: Array) -> None:
        self.owner = array
        self.address, end = np.lib.array_utils.byte_bounds(array)
        self.capacity = end - self.address
        exporter: Any = (ctypes.c_ubyte * self.capacity).from_address(self.address)
        self.memory = np.frombuffer(exporter, np.uint8)
        self.submission = 0
        self.lease = None


class SharedMemory:
    """Lends arrays; ``now`` and ``done`` are those of `pyrite.runtime.cpu.memory.Allocator`."""

    def __init__(self, now: Callable[[], int], done: Callable[[], int]) -> None:
        self._now = now
        self._done = done
        self._blocks: set[SharedBlock] = set()
        self._ended: deque[Lease] = deque()
        self._leaving: deque[SharedBlock] = deque()

    def adopt(self, array: Array) -> CpuBuffer:
        """Return the memory of an array as a buffer."""
        self.take_back()
        block = SharedBlock(array)
        self._blocks.add(block)
        buffer = CpuBuffer(block, block.capacity)
        lease = block.lease = Lease(buffer, self._ended.append)
        lease.block = block
        return buffer

    def take_back(self) -> None:
        """Let go of the arrays that nothing reads any more."""
        while self._ended:
            block = cast(SharedBlock, self._ended.popleft().block)
            block.lease = None
            block.submission = self._now()
            self._leaving.append(block)
        while self._leaving and self._leaving[0].submission <= self._done():
            self._blocks.discard(self._leaving.popleft())
