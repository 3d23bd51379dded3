"""The version of Pyrite that runs, by its source files: what is kept on disk is for that one only.

To read a thousand files takes 30 ms, to ask for their times and sizes 3.  So the hash of their
contents is kept under a hash of these.  The files are those of the code that runs only if they were
not changed since this process began to import them: if they were, there is no version.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from pyrite.config import IMPORTED
from pyrite.runtime.cache import DiskCache

#: Seconds by which the time of a file may be earlier than that of who changed it: a tick of Linux
#: is 10 ms at most.
_TICK: Final = 0.1


class _Source(NamedTuple):
    """A file: its name in the package, when it was changed, its size."""

    name: str
    modified: int
    changed: int
    size: int


class Sources:
    """The source files of a package, which began to be imported at a time."""

    def __init__(
        self, cache: DiskCache, folder: Path | None = None, imported: float = IMPORTED
    ) -> None:
        self._cache = cache
        self._folder = folder or Path(__file__).parents[1]
        self._before = (imported - _TICK) * 1e9
        self._found: list[_Source] = []
        self._looked = -1.0
        self._lock = threading.Lock()

    @cached_property
    def version(self) -> str | None:
        """A hash of all files; None if they may not be what runs."""
        self._look()
        is_older = all(max(s.modified, s.changed) < self._before for s in self._found)
        if not self._found or not is_older:
            return None
        of = hashlib.blake2b(repr(self._found).encode(), digest_size=16).hexdigest()
        key = ("sources", str(self._folder), of)
        known = self._cache.get(*key)
        if known is None:
            try:
                known = self._hash().encode()
            except OSError:
                return None
            if not self.are_unchanged(since=time.monotonic()):
                return None
            self._cache.put(known, *key)
        return known.decode()

    def are_unchanged(self, since: float) -> bool:
        """Whether the files are what they were, looked at after a time of `time.monotonic`."""
        with self._lock:
            if self._looked <= since:
                found = self._found
                self._look()
                if self._found != found:
                    self._found = []
            return bool(self._found)

    def _look(self) -> None:
        at = time.monotonic()
        try:
            self._found = sorted(_sources(self._folder))
        except OSError:  # there are no files, as in an archive
            self._found = []
        self._looked = at

    def _hash(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for source in self._found:
            digest.update(f"{source.name} {source.size}\n".encode())
            digest.update((self._folder / source.name).read_bytes())
        return digest.hexdigest()


def _sources(folder: Path, inside: str = "") -> Iterator[_Source]:
    with os.scandir(folder / inside) as entries:
        for entry in entries:
            name = f"{inside}{entry.name}"
            if entry.name.endswith((".py", ".ll")):
                at = entry.stat()
                yield _Source(name, at.st_mtime_ns, at.st_ctime_ns, at.st_size)
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _sources(folder, f"{name}/")
