"""The CPU's memory: blocks in size classes, kept for the next who asks.

A block that nobody holds may still be used by launches that come earlier in the stream.  Whoever
gets it for launches comes later, so it is given away at once; but the host, which writes now,
gets a block only when those launches are done.  A free block remembers the submission to wait for.

Invariant: ``live + free == reserved``, and ``free <= limit`` once what ended is taken back.

Each small op comes through `Allocator.lend`, where a tenth of a microsecond shows: it takes no lock
while there is a block of its size that somebody let go of.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np
import psutil

from pyrite.columns import held as held_by_others
from pyrite.errors import ArgumentError, OutOfMemoryError
from pyrite.runtime.cpu.chunk import Chunk, drop, is_piece
from pyrite.runtime.protocol import Held, MemoryReport
from pyrite.runtime.shortage import largest_of
from pyrite.types import Array

#: What the address of each block is a multiple of: a cache line, and a vector of AVX-512.
ALIGNMENT: Final = 64
#: The same for a large one: a page.  A load that lies a little behind a store modulo 4096 waits for
#: it, and blocks of 2 MB that follow each other by a cache line made norms take 1.25 times as long.
PAGE: Final = 4096
#: From how many bytes on blocks begin a page.
LARGE: Final = 1 << 16
#: From how many bytes on there are more size classes.
HUGE: Final = 1 << 20
#: The smallest block.
SMALLEST: Final = 256

_new = object.__new__


class Block:
    """Bytes at an address, of which the first ``nbytes`` are in use."""

    __slots__ = ("address", "capacity", "lease", "memory", "submission")

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.address: int = memory.ctypes.data
        self.capacity = len(memory)
        #: The last submission that may use it, once it is free.
        self.submission = 0
        #: That it is in use: who holds the buffer does not hold this, which must outlive it.
        self.lease: Lease | None = None


class CpuBuffer:
    """A buffer; its block goes back to the allocator when nobody holds it: see `Lease`."""

    __slots__ = ("__weakref__", "address", "block", "nbytes", "origin")

    def __init__(self, block: Block, nbytes: int) -> None:
        self.block = block
        self.address = block.address
        self.nbytes = nbytes
        #: What made it, where that was noted.
        self.origin: object | None = None

    @property
    def owner(self) -> CpuBuffer:
        """Itself."""
        return self

    def view(self, offset: int, nbytes: int) -> CpuView:
        """Return a part of it, which keeps the whole alive."""
        return CpuView(self, offset, nbytes)

    def bytes(self) -> Array:
        """Return its memory as uint8, without a copy: valid while the buffer is held."""
        return self.block.memory[: self.nbytes]

    def lease(self) -> memoryview:
        """Return its memory, without a copy: whoever holds the view holds the buffer."""
        return _leased(self)


class Lease(weakref.ref[CpuBuffer]):
    """A hold on a buffer.  Its callback is not Python: Ctrl-C in a finalizer is lost."""

    __slots__ = ("block",)

    block: Block


class CpuView:
    """A part of a buffer."""

    __slots__ = ("base", "nbytes", "offset")

    def __init__(self, base: CpuBuffer, offset: int, nbytes: int) -> None:
        if not 0 <= offset <= offset + nbytes <= base.nbytes:
            raise ArgumentError(
                f"view requires a part of {base.nbytes} bytes, got {nbytes} from {offset} on"
            )
        self.base = base
        self.offset = offset
        self.nbytes = nbytes

    @property
    def owner(self) -> CpuBuffer:
        """The whole."""
        return self.base

    @property
    def address(self) -> int:
        """Where it begins."""
        # Not kept: a step of training makes hundreds of parts, and as many numbers all over memory.
        return self.base.address + self.offset

    def view(self, offset: int, nbytes: int) -> CpuView:
        """Return a part of it, which keeps the whole alive."""
        return CpuView(self.base, self.offset + offset, nbytes)

    def bytes(self) -> Array:
        """Return its memory as uint8, without a copy: valid while the view is held."""
        return self.base.bytes()[self.offset : self.offset + self.nbytes]

    def lease(self) -> memoryview:
        """Return its memory, without a copy: whoever holds the view holds the buffer."""
        return _leased(self)


#: A tuple: ``CpuBuffer | CpuView`` would be made anew at each use.
BUFFERS: Final = (CpuBuffer, CpuView)


def is_held_once(holder: Sequence[Any], position: int) -> bool:
    """Whether nobody but a list holds a buffer of it, which has memory of the allocator's.

    Every tensor, view, and export of a buffer holds it.  A part of one is not asked about: others
    may have been made of the same memory.
    """
    buffer = holder[position]
    if type(buffer) is not CpuBuffer or type(buffer.block) is not Block:
        return False
    del buffer
    return _references(holder, position) == _HELD_ONCE


def alone(buffers: list[Any]) -> list[bool]:
    """Return of each of a list's buffers what `is_held_once` says: it is nowhere else in a list."""
    numbers, _ = held_by_others(buffers)
    others = {*numbers}
    return [
        type(buffer) is CpuBuffer and type(buffer.block) is Block and n not in others
        for n, buffer in enumerate(buffers)
    ]


def _references(holder: Sequence[Any], position: int) -> int:
    found = holder[position]
    return sys.getrefcount(found)


#: What is counted of an object that only a list holds.  Whether the name and the argument count
#: differs from one Python to another: 3.14 borrows what earlier ones took.
_HELD_ONCE: Final = _references([object()], 0)


def _leased(buffer: CpuBuffer | CpuView) -> memoryview:
    # NumPy's own views hold the block, which would be given to others meanwhile.
    exporter: Any = _bytes_of(buffer.nbytes).from_address(buffer.address)
    exporter.lease = buffer
    return memoryview(exporter)


@lru_cache(maxsize=1024)
def _bytes_of(nbytes: int) -> Any:
    """Return the type of so many bytes: one that nobody keeps is left to Python's collector."""
    return ctypes.c_ubyte * nbytes


class SizeClass:
    """The blocks of one size that nobody holds.

    ``ended`` are leases whose buffers died, the last one at the end: their blocks count as in use
    until they are taken back, or lent again.  A buffer may die anywhere, even while this thread
    holds the allocator's lock, so its end waits for none: a deque's append and pop are atomic.
    """

    __slots__ = ("capacity", "end", "ended", "free")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ended: deque[Lease] = deque()
        self.end = self.ended.append
        #: Blocks that were taken back, and so know which submission they wait for.
        self.free: deque[Block] = deque()


class Allocator:
    """Hands out blocks; see the head of this file.

    ``now`` is the submission to which the next launch belongs, ``done`` the last that is finished.
    ``limit`` is the most bytes that are kept free: a quarter of the computer's memory by default.
    ``later`` has something done when nobody waits.
    """

    def __init__(
        self, now: Callable[[], int], done: Callable[[], int], limit: int | None = None, *,
        later: Callable[[Callable[[], None]], None] = lambda do: None,
    ) -> None:  # fmt: skip
        self._now = now
        self._done = done
        self.limit = psutil.virtual_memory().total // 4 if limit is None else limit
        self._lock = Lock()
        #: All that there are: what Ctrl-C loses on its way must not be freed under a launch.
        self._blocks: set[Block] = set()
        #: Where the next large block comes from.
        self._chunk: Chunk | None = None
        self._later = later
        #: By capacity; none is ever removed.
        self._classes: dict[int, SizeClass] = {}
        self._live = self._reserved = self._peak = 0

    def allocate(self, nbytes: int, *, for_host: bool = False) -> CpuBuffer:
        """Return a buffer of unspecified contents, which the host may write at once if so asked.

        Raises OutOfMemoryError when there is no memory left.
        """
        of = self.size_class(nbytes)
        if not for_host:
            return self.lend(of, nbytes)
        block = self._taken(of, for_host=True)
        buffer = CpuBuffer(block, nbytes)
        lease = block.lease = Lease(buffer, of.end)
        lease.block = block
        return buffer

    def size_class(self, nbytes: int) -> SizeClass:
        """Return the class of the blocks for so many bytes."""
        capacity = size_class(nbytes)
        found = self._classes.get(capacity)
        if found is None:
            with self._lock:
                found = self._classes.setdefault(capacity, SizeClass(capacity))
        return found

    def lend(self, of: SizeClass, nbytes: int) -> CpuBuffer:
        """Return what `allocate` does, of a known class, for launches.

        A block that somebody let go of goes from hand to hand: nothing that is counted changes, so
        nothing is locked.
        """
        ended = of.ended
        block: Block | None = None
        if ended:
            # Suppressing takes a call more, which shows in small ops.
            try:
                block = ended.pop().block
            except IndexError:
                pass  # another thread was faster
        if block is None:
            block = self._taken(of, for_host=False)
        # As by ``CpuBuffer(block, nbytes)``, in half the time.
        buffer = _new(CpuBuffer)
        buffer.block = block
        buffer.address = block.address
        buffer.nbytes = nbytes
        buffer.origin = None
        lease = block.lease = Lease(buffer, of.end)
        lease.block = block
        return buffer

    def _taken(self, of: SizeClass, *, for_host: bool) -> Block:
        """Return a free block, or a new one, which is in use from now on."""
        free, capacity = of.free, of.capacity
        with self._lock:
            self._take_back()
            # The block that came back last, which may be in a cache; for the host the first.
            if not free or (for_host and free[0].submission > self._done()):
                block = self._reserve(capacity)
            else:
                block = free.popleft() if for_host else free.pop()
            live = self._live = self._live + capacity
            if live > self._peak:
                self._peak = live
        return block

    def report(self) -> MemoryReport:
        """Return how much is in use."""
        with self._lock:
            self._take_back()
            return MemoryReport(self._live, self._reserved, self._peak)

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        with self._lock:
            self._take_back()
            return held(self._blocks)

    def trim(self, keep: int = 0) -> None:
        """Give free blocks back to the system, until ``keep`` bytes are left free.

        Blocks that a launch may still use are not given back.
        """
        with self._lock:
            self._take_back()
            self._shrink(keep)

    def _take_back(self) -> None:
        """Free the blocks of the leases that ended."""
        now = self._now
        for of in self._classes.values():
            ended = of.ended
            while ended:
                try:
                    block = ended.popleft().block
                except IndexError:
                    break  # another thread borrowed it
                block.lease = None
                # Asked for anew: another thread may have used this one, and ended it, since the
                # last.  Later than need be, but not by much: who asks for more memory comes here.
                block.submission = now()
                of.free.append(block)
                self._live -= of.capacity
        if self._reserved - self._live > self.limit:
            self._shrink(self.limit)

    def _reserve(self, capacity: int) -> Block:
        try:
            return self._make(capacity)
        except MemoryError:
            self._shrink(0)
        try:
            return self._make(capacity)
        except MemoryError:
            raise no_room(capacity, self._live, held(self._blocks)) from None

    def _make(self, capacity: int) -> Block:
        block = Block(self._memory(capacity))
        self._blocks.add(block)
        self._reserved += capacity
        return block

    def _memory(self, capacity: int) -> Array:
        if not is_piece(capacity):
            return apart(capacity)
        chunk = self._chunk
        found = None if chunk is None else chunk.piece(capacity)
        if chunk is None or found is None:
            try:
                chunk = self._chunk = Chunk()
            except MemoryError:  # so much may be too much where this block is not
                return apart(capacity)
            found = chunk.piece(capacity)
            assert found is not None, "a chunk has room for the largest piece"
        touching = chunk.touching()
        if touching is not None:
            self._later(touching)
        return found

    def _shrink(self, keep: int) -> None:
        """Large blocks first: they are the quickest way there."""
        done = self._done()
        for capacity in sorted(self._classes, reverse=True):
            free = self._classes[capacity].free
            while self._reserved - self._live > keep and free and free[0].submission <= done:
                block = free.popleft()
                self._blocks.remove(block)
                self._reserved -= capacity
                if is_piece(capacity):
                    drop(block.memory)


def apart(capacity: int) -> Array:
    """Return memory that is no part of a chunk."""
    # NumPy asks for huge pages where the system has them, and it is large.
    alignment = PAGE if capacity >= LARGE else ALIGNMENT
    whole = np.empty(capacity + alignment, dtype=np.uint8)
    skip = -whole.ctypes.data % alignment
    return whole[skip : skip + capacity]


def held(blocks: Iterable[Block]) -> list[Held]:
    """Return the buffers in blocks, the largest first."""
    buffers = (block.lease() for block in blocks if block.lease is not None)
    return sorted(
        [Held(b.nbytes, b.origin) for b in buffers if b is not None], key=lambda x: -x.nbytes
    )


def no_room(capacity: int, live: int, held: Sequence[Held]) -> OutOfMemoryError:
    """Return the error of who asks for so many bytes when there are none."""
    free = psutil.virtual_memory().available
    return OutOfMemoryError(
        f"cpu requires room for {capacity:,} bytes, got none: the system has {free:,} free, "
        f"{live:,} are in use here{largest_of(held)}; use smaller batches, or checkpoint"
    )


@lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Return the size of the block for so many bytes: four classes in each doubling.

    Sixteen from a megabyte on: the block of a program is one, and its size the same in each run.

    >>> [size_class(n) for n in (0, 256, 257, 1000, 1025, (1 << 20) + 1)]
    [256, 256, 320, 1024, 1280, 1114112]
    """
    if nbytes <= SMALLEST:
        return SMALLEST
    classes = 4 if nbytes <= HUGE else 16
    step = (1 << (nbytes - 1).bit_length() - 1) // classes
    return -(-nbytes // step) * step
