"""Memory in which a kernel that leaves its buffer is found: see `pyrite.config.Config.guard`.

A buffer lies against a page without access, so that a touch past its end (or before its beginning,
as was asked for) ends the process at once.  On its other side is poison up to the next such page:
what is read there shows as NaN, what is written there is found when the block is checked.  Freed
blocks lose all access, and keep their addresses for a while.  Where the system has no more room
for mappings, blocks have poison on both sides and no pages; that is said once, and counted.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

import numpy as np

from pyrite.config import Guard
from pyrite.runtime.cpu.memory import (
    ALIGNMENT,
    Block,
    CpuBuffer,
    CpuView,
    Lease,
    held,
    no_room,
    size_class,
)
from pyrite.runtime.cpu.pages import MAPPINGS, PAGE, Pages, has_pages, most_mappings
from pyrite.runtime.poison import Reach, changed, poison
from pyrite.runtime.protocol import Held, MemoryReport
from pyrite.types import Array

#: Bytes of poison on a side where no page is: a vector of 16 float64.
MARGIN: Final = 128
#: After so many blocks it is looked anew how many there may be, which can take 0.1 s.
_BLOCKS_A_LOOK: Final = 2048
#: So many freed blocks keep their addresses, and nobody may touch these.
CLOSED: Final = 1024


class GuardedBlock(Block):
    """Bytes with poison around them, and pages without access around that, if there is room."""

    __slots__ = ("_pages", "_poison", "_start", "nbytes")

    def __init__(self, nbytes: int, guard: Guard, *, has_pages: bool) -> None:
        self.capacity = size_class(nbytes)
        self.submission = 0
        self.lease = None
        self.nbytes = nbytes
        self._pages: Pages | None = None
        if has_pages:
            self._pages = Pages(-(-(nbytes + MARGIN) // PAGE) * PAGE)
            whole = self._pages.memory
        else:
            whole = np.empty(nbytes + 2 * MARGIN + ALIGNMENT, np.uint8)
            # As pages do, it begins where every dtype may.
            whole = whole[-whole.ctypes.data % ALIGNMENT :]
        start = len(whole) - nbytes if guard == "after" else 0
        self._start = start if has_pages else MARGIN
        poison(whole)
        self._poison = whole
        self.memory: Array = whole[self._start : self._start + nbytes]
        self.address: int = whole.ctypes.data + self._start

    @property
    def has_pages(self) -> bool:
        """Whether pages without access are around it."""
        return self._pages is not None

    @property
    def before(self) -> tuple[int, int]:
        """Where the page before it begins and ends; nowhere if there is none."""
        start = self._poison.ctypes.data
        return (start - PAGE, start) if self._pages else (0, 0)

    @property
    def after(self) -> tuple[int, int]:
        """Where the page behind it begins and ends; nowhere if there is none."""
        end = self._poison.ctypes.data + len(self._poison)
        return (end, end + PAGE) if self._pages else (0, 0)

    def damage(self) -> str | None:
        """Return what was written around it, in words, or None."""
        end = self._start + self.nbytes
        before, after = changed(self._poison[: self._start]), changed(self._poison[end:], end)
        if len(before):
            return f"at byte {int(before[0]) - self._start} of {self.nbytes}"
        return f"at byte {self.nbytes + int(after[0])} of {self.nbytes}" if len(after) else None

    def heal(self) -> None:
        """Have poison around it again."""
        kept = self.memory.copy()
        poison(self._poison)
        self.memory[:] = kept

    def free(self) -> bool:
        """Let nobody touch it; return whether it keeps its addresses and is to be released."""
        if self._pages is not None:
            self._pages.close()
        else:
            poison(self._poison)
        return self._pages is not None

    def release(self) -> None:
        """Give its addresses back."""
        if self._pages is not None:
            self._pages.release()


class Shadow(CpuView):
    """The copy of a part of a buffer, at the same places: what is around it is not there.

    Its address is where the buffer would begin, and may be nobody's.
    """

    __slots__ = ("_expected", "block")

    def __init__(self, base: CpuBuffer, reach: Reach) -> None:
        self.base = base
        assert isinstance(base.block, GuardedBlock), "a guarded runtime has guarded memory"
        self.block: GuardedBlock = base.block
        self.offset = -reach.begin
        self.nbytes = reach.end
        self._expected = base.bytes().copy()

    def view(self, offset: int, nbytes: int) -> CpuView:
        """Return a part of it."""
        return CpuView(self.base, self.offset + offset, nbytes)

    def bytes(self) -> Array:
        """Return the memory of what is there."""
        return self.base.bytes()

    def damage(self) -> str | None:
        """Return where it was written to, in words, or None: it is an operand that is read."""
        if not np.array_equal(self._expected, self.base.bytes()):
            return "inside, where it is only read"
        return self.block.damage()


class GuardedAllocator:
    """Makes a block for each buffer, and none is used twice: see the head of this file."""

    def __init__(self, guard: Guard, now: Callable[[], int], done: Callable[[], int]) -> None:
        self._guard: Guard = guard
        self._now = now
        self._done = done
        self._lock = Lock()
        self._made = self._most_blocks = 0
        self._blocks: set[GuardedBlock] = set()
        self._ended: deque[Lease] = deque()
        #: Freed blocks that a launch may still use, and those that nobody may touch.
        self._leaving: deque[GuardedBlock] = deque()
        self._closed: deque[GuardedBlock] = deque()
        self._live = self._peak = 0
        #: Blocks without pages, for want of mappings.
        self.without_pages = 0
        #: What was written around blocks that are free by now.
        self._found: list[str] = []

    def allocate(self, nbytes: int, *, for_host: bool = False) -> CpuBuffer:
        """Return a buffer of poison.  Raises DeviceError when there is no memory left."""
        with self._lock:
            self._take_back()
            block = self._make(nbytes)
            self._live += block.capacity
            self._peak = max(self._peak, self._live)
        buffer = CpuBuffer(block, nbytes)
        lease = block.lease = Lease(buffer, self._ended.append)
        lease.block = block
        return buffer

    @property
    def live_blocks(self) -> int:
        """The number of blocks that somebody holds, or has just let go."""
        return len(self._blocks)

    def damages(self) -> list[str]:
        """Return what was written around any block, each once."""
        with self._lock:
            self._take_back()
            found, self._found = self._found, []
            for block in self._blocks:
                self._look_at(block, found)
            return found

    def report(self) -> MemoryReport:
        """Return how much is in use; nothing is kept."""
        with self._lock:
            self._take_back()
            return MemoryReport(self._live, self._live, self._peak)

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        with self._lock:
            self._take_back()
            return held(self._blocks)

    def trim(self, keep: int = 0) -> None:
        """Take back what ended."""
        with self._lock:
            self._take_back()

    def _make(self, nbytes: int) -> GuardedBlock:
        mapped = len(self._blocks) + len(self._closed)
        if self._made % _BLOCKS_A_LOOK == 0:
            # Other allocators, and the application, have mappings too.
            self._most_blocks = mapped + most_mappings() // MAPPINGS if has_pages() else 0
        self._made += 1
        has_room = mapped < self._most_blocks
        if not has_room:
            self._note_no_room(mapped)
        try:
            block = GuardedBlock(nbytes, self._guard, has_pages=has_room)
        except MemoryError:
            raise no_room(nbytes, self._live, held(self._blocks)) from None
        self._blocks.add(block)
        return block

    def _note_no_room(self, blocks: int) -> None:
        self.without_pages += 1
        if self.without_pages == 1:
            warnings.warn(
                f"the guarded mode has no more mappings after {blocks} buffers (vm.max_map_count): "
                "further ones have poison around them, and no pages without access",
                RuntimeWarning,
                stacklevel=2,
            )

    def _take_back(self) -> None:
        while self._ended:
            block = self._ended.popleft().block
            assert isinstance(block, GuardedBlock)
            block.lease = None
            block.submission = self._now()
            self._live -= block.capacity
            self._leaving.append(block)
        done = self._done()
        while self._leaving and self._leaving[0].submission <= done:
            self._free(self._leaving.popleft())

    def _free(self, block: GuardedBlock) -> None:
        self._look_at(block, self._found)
        self._blocks.discard(block)
        if block.free():
            self._closed.append(block)
        if len(self._closed) > CLOSED:
            self._closed.popleft().release()

    @staticmethod
    def _look_at(block: GuardedBlock, found: list[str]) -> None:
        damage = block.damage()
        if damage is not None:
            found.append(damage)
            block.heal()
