"""Memory of the system in huge pages, handed out in pieces.

What is used for the first time costs a page fault, 2 µs for a page of 4 KB and 40 for one of 2 MB;
where a virtual machine's host has to find the memory, 9 and 4,500.  A call of a new size makes
blocks that nobody has used.  So blocks are pieces of chunks that are large enough for huge pages,
where the system has these, and the next pages are touched ahead by another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from pyrite.runtime.cpu.pages import PAGE, forget, has_pages, touch
from pyrite.types import Array

#: The size of a huge page, and what a chunk begins with a multiple of.
HUGE_PAGE: Final = 1 << 21
#: The bytes of a chunk, of which the system gives those that are touched.  NumPy asks for huge
#: pages from 4 MB on.
CHUNK: Final = 1 << 26
#: The smallest and the largest piece: what is beyond has memory of its own.
SMALLEST: Final = 1 << 16
LARGEST: Final = 1 << 22
#: So many bytes are touched before they are handed out, when half of that is left.
AHEAD: Final = 1 << 23


def is_piece(nbytes: int) -> bool:
    """Whether so many bytes are a piece of a chunk."""
    return SMALLEST <= nbytes <= LARGEST and has_pages()


class Chunk:
    """Memory that is handed out from its begin to its end, and lives as long as a piece of it."""

    __slots__ = ("_memory", "_touched", "_used")

    def __init__(self) -> None:
        whole = np.empty(CHUNK + HUGE_PAGE, np.uint8)
        skip = -whole.ctypes.data % HUGE_PAGE
        self._memory: Array = whole[skip : skip + CHUNK]
        self._used = self._touched = 0

    def piece(self, nbytes: int) -> Array | None:
        """Return the next bytes, which begin a page; None where less is left."""
        start = self._used
        if start + nbytes > CHUNK:
            return None
        # With a page between them: pieces of a power of two would lie in the same sets of a cache.
        self._used = start + -(-nbytes // PAGE) * PAGE + PAGE
        return self._memory[start : start + nbytes]

    def touching(self) -> Callable[[], None] | None:
        """Return what touches pages that come next; None where enough are, or will be."""
        begin = max(self._touched, self._used // HUGE_PAGE * HUGE_PAGE)
        if begin >= min(self._used + AHEAD // 2, CHUNK):
            return None
        self._touched = min(begin + AHEAD, CHUNK)
        return partial(_touch, self._memory[begin : self._touched])


def _touch(memory: Array) -> None:
    for start in range(0, len(memory), HUGE_PAGE):
        touch(memory.ctypes.data + start, HUGE_PAGE)


def drop(piece: Array) -> None:
    """Give the pages of a piece back; its addresses are the chunk's, and go with that."""
    forget(piece.ctypes.data, len(piece) // PAGE * PAGE)
