"""Kernels as they were written, on disk, for processes that want the same ones.

An entry is found by a digest of what a kernel is of, and of all that makes it what it is: this
package's sources, the processor, LLVM.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from pyrite.recent import KERNELS
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.sources import Sources


class _Waiting(NamedTuple):
    """What is to be kept, and when it was made."""

    made_at: float
    key: tuple[str, ...]
    make: Callable[[], bytes]


class KernelCache:
    """What is kept of kernels for one target; ``later`` has something done when nobody waits."""

    def __init__(
        self, disk: DiskCache, target: tuple[str, ...], later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._disk = disk
        self._target = target
        self._later = later
        self._sources = Sources(disk)
        self._waiting: list[_Waiting] = []
        self._is_flushed_at_end = False

    def get(self, digest: str) -> bytes | None:
        """Return what was kept under a digest, None where there is nothing."""
        version = self._sources.version
        return None if version is None else self._disk.get(*self._key(version, digest))

    def put_later(self, digest: str, make: Callable[[], bytes]) -> None:
        """Keep what is made, which says how a kernel was written by now, when nobody waits."""
        if self._add(digest, make):
            self._later(self.flush)

    def put_with_others(self, digest: str, make: Callable[[], bytes]) -> None:
        """Keep what is made with the next kernel, or when the process ends.

        It may take less than the look at all sources before something is kept: 4 to 20 ms.
        """
        if self._add(digest, make) and not self._is_flushed_at_end:
            self._is_flushed_at_end = True
            atexit.register(self.flush)

    def flush(self) -> None:
        """Keep what waits to be kept, if the sources are those of which it was made."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._sources.are_unchanged(since=max(x.made_at for x in waiting)):
            for _, key, make in waiting:
                with suppress(Exception):  # it makes other processes faster
                    self._disk.put(make(), *key)

    def _add(self, digest: str, make: Callable[[], bytes]) -> bool:
        version = self._sources.version
        if version is None or len(self._waiting) >= KERNELS:
            return False
        self._waiting.append(_Waiting(monotonic(), self._key(version, digest), make))
        return True

    def _key(self, version: str, digest: str) -> tuple[str, ...]:
        return ("written", digest, *self._target, version)
