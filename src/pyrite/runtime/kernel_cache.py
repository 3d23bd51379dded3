"""Kernels as they were written, on disk, for processes that want the same ones.

An entry is found by a digest of what a kernel is of, and of all that makes it what it is: this
package's sources, the processor, LLVM.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.sources import Sources


class KernelCache:
    """What is kept of kernels for one target; ``later`` has something done when nobody waits."""

    def __init__(
        self, disk: DiskCache, target: tuple[str, ...], later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._disk = disk
        self._target = target
        self._later = later
        self._sources = Sources(disk)

    def get(self, digest: str) -> bytes | None:
        """Return what was kept under a digest, None where there is nothing."""
        version = self._sources.version
        return None if version is None else self._disk.get(*self._key(version, digest))

    def put_later(self, digest: str, make: Callable[[], bytes]) -> None:
        """Keep what is made, which says how a kernel was written by now, when nobody waits."""
        version, now = self._sources.version, monotonic()
        if version is None:
            return
        disk, key, sources = self._disk, self._key(version, digest), self._sources

        def put() -> None:
            if sources.are_unchanged(since=now):
                disk.put(make(), *key)

        self._later(put)

    def _key(self, version: str, digest: str) -> tuple[str, ...]:
        return ("written", digest, *self._target, version)
