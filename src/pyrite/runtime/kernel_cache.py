"""Kernels as they were written, on disk, for processes that want the same ones.

An entry is found by a digest of what a kernel is of, and of all that makes it what it is: this
package's sources, the processor, LLVM, the libraries that a rule may read.  `pickle` reads it: the
folder is this user's alone, and its objects run anyway (`pyrite.runtime.folder`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from time import time
from typing import Any, Final

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.sources import Sources

_PROTOCOL: Final = 5


class KernelCache:
    """What is kept of kernels for one target; ``later`` has something done when nobody waits."""

    def __init__(
        self, disk: DiskCache, target: tuple[str, ...], later: Callable[[Callable[[], None]], None]
    ) -> None:
        self._disk = disk
        self._target = target
        self._later = later
        self._sources = Sources(disk)

    def get(self, digest: str) -> Any | None:
        """Return what was kept under a digest, None where there is nothing that can be read."""
        version = self._sources.version
        blob = None if version is None else self._disk.get(*self._key(version, digest))
        if blob is None:
            return None
        try:
            return pickle.loads(blob)
        except Exception:  # whatever pickle raises for what it did not write: a miss
            return None

    def put_later(self, digest: str, make: Callable[[], Any]) -> None:
        """Keep what is made, which says how a kernel was written by now, when nobody waits."""
        version, now = self._sources.version, time()
        if version is None:
            return
        disk, key, sources = self._disk, self._key(version, digest), self._sources

        def put() -> None:
            if sources.are_unchanged(since=now):
                disk.put(pickle.dumps(make(), _PROTOCOL), *key)

        self._later(put)

    def _key(self, version: str, digest: str) -> tuple[str, ...]:
        return ("written", digest, *self._target, version)
