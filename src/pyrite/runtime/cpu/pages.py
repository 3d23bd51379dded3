"""Pages of the system's memory, those without access, and how many there may be."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from ctypes import c_int, c_long, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyrite.types import Array

PAGE: Final = mmap.PAGESIZE

#: A guarded block is this many mappings: a page before it, itself, a page after it.
MAPPINGS: Final = 3

#: Mappings that are asked for before native code may need some.
_SPARE: Final = 8

_READ_WRITE: Final = mmap.PROT_READ | mmap.PROT_WRITE

#: Linux's MADV_POPULATE_WRITE, since 5.14; not in `mmap`.
_POPULATE_WRITE: Final = 23

_FAILED: Final = c_void_p(-1).value


class Pages:
    """Memory between two pages without access, given back by `release` and not before."""

    __slots__ = ("_start", "address", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Raise MemoryError where the system gives none; ``nbytes`` are whole pages."""
        libc = _libc()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = libc.mmap(None, nbytes + 2 * PAGE, NO_ACCESS, flags, -1, 0)
        if start == _FAILED:
            raise MemoryError
        self._start: int = start
        self.address = start + PAGE
        self.nbytes = nbytes
        if libc.mprotect(self.address, nbytes, _READ_WRITE):
            self.release()
            raise MemoryError
        self.memory: Array = np.asarray(_Bytes(self.address, nbytes))

    def close(self) -> None:
        """Let nobody touch it any more; the addresses stay taken."""
        _libc().mprotect(self.address, self.nbytes, NO_ACCESS)
        _libc().madvise(self.address, self.nbytes, mmap.MADV_DONTNEED)

    def release(self) -> None:
        """Give it back."""
        _libc().munmap(self._start, self.nbytes + 2 * PAGE)


class _Bytes:
    """Memory as NumPy may see it; an array of ctypes would be a new type for each size."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False),
        }  # fmt: skip


#: The access of a page that faults when it is touched; not in `mmap` of every Python.
NO_ACCESS: Final = 0


def has_pages() -> bool:
    """Whether this system lets a program take the access to pages away."""
    return os.name == "posix"


def forget(address: int, nbytes: int) -> None:
    """Give pages back to the system: they are there still, and what was in them is lost.

    Where no system call does that, they stay.
    """
    if has_pages():
        _libc().madvise(address, nbytes, mmap.MADV_DONTNEED)


def touch(address: int, nbytes: int) -> None:
    """Have the system give memory to pages whose turn comes; what is in them stays.

    Where no system call does that, they get it when they are used.
    """
    if sys.platform == "linux":
        _libc().madvise(address, nbytes, _POPULATE_WRITE)


def has_room(nbytes: int) -> bool:
    """Whether the system gives so many bytes now, and `_SPARE` mappings more.

    For native code that ends the process where it does not.  It takes 20 µs.
    """
    if not has_pages():
        return True
    libc = _libc()
    nbytes = -(-max(nbytes, _SPARE * PAGE) // PAGE) * PAGE
    start = libc.mmap(None, nbytes, _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if start == _FAILED:
        return False
    # Each second page without access: a mapping for it, and one for what is behind it.
    pages = range(start, start + _SPARE * PAGE, 2 * PAGE)
    has_mappings = not any(libc.mprotect(page, PAGE, NO_ACCESS) for page in pages)
    libc.munmap(start, nbytes)
    return has_mappings


def most_mappings() -> int:
    """Return how many more mappings this process may well have: a quarter of all stays free."""
    taken, limit = mappings() or (0, sys.maxsize)
    return max(0, limit * 3 // 4 - taken)


def mappings() -> tuple[int, int] | None:
    """Return how many mappings this process has, and may have; None where nothing says so."""
    try:
        limit = int(Path("/proc/sys/vm/max_map_count").read_text())
        return len(Path("/proc/self/maps").read_bytes().splitlines()), limit
    except OSError:
        return None


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]
    libc.mprotect.argtypes = [c_void_p, c_size_t, c_int]
    libc.madvise.argtypes = [c_void_p, c_size_t, c_int]
    libc.munmap.argtypes = [c_void_p, c_size_t]
    return libc
