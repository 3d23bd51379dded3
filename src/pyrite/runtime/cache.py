"""Compiled code on disk, for the next process.

A file is one blob with its checksum, named by the hash of all that it depends on, so that an entry
is never out of date and never wrong: a damaged or foreign file is not an entry, and is written
anew.  Files appear by renaming, hence whole; many processes may write the same at once.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from pyrite.config import config

_MAGIC = b"pyrite-code-1\n"
_CHECKSUM = 16

#: Bytes on disk; when there are more, the files read least recently go.
LIMIT = 512 << 20


class DiskCache:
    """Blobs by key, in a folder; see the head of this file.

    ``counts`` has ``hits``, ``misses``, ``damaged`` and ``unwritable``.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_trimmed = False

    def get(self, *key: str) -> bytes | None:
        """Return what was stored under the key, or None."""
        blob = self._read(_name(key))
        self._count("misses" if blob is None else "hits")
        return blob

    def put(self, blob: bytes, *key: str) -> None:
        """Store the blob under the key.  Where the folder cannot be written nothing is stored."""
        if self.folder is None:
            return
        path = self.folder / _name(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _MAGIC + _checksum(blob) + blob)
        except OSError:
            self._count("unwritable")
        else:
            self._trim_once()

    def _read(self, name: str) -> bytes | None:
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head, blob = len(_MAGIC) + _CHECKSUM, content[len(_MAGIC) + _CHECKSUM :]
        if content[:head] != _MAGIC + _checksum(blob):
            self._count("damaged")
            return None
        return blob

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def _trim_once(self) -> None:
        with self._lock:
            if self._is_trimmed or self.folder is None:
                return
            self._is_trimmed = True
        _trim(self.folder, LIMIT)


def default_cache() -> DiskCache:
    """Return the cache in ``config.cache``, or in the user's folder for such files.

    A user without a home, as a container may have, keeps nothing.
    """
    if config.cache == "off":
        return DiskCache(None)
    try:
        return DiskCache((Path(config.cache) if config.cache else _user_folder()).expanduser())
    except RuntimeError:  # of expanduser
        return DiskCache(None)


def _user_folder() -> Path:
    """The system's folder for such files, which may begin with ``~``."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "pyrite" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/pyrite")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "pyrite"


@cache
def source_version(*packages: str) -> str:
    """Return a hash of the packages' source files: the version of what they generate.

    Nobody has to remember to raise a number when a pass or a printer is changed.
    """
    digest = hashlib.blake2b(digest_size=16)
    for package in packages:
        # From the top: a package need not be imported for its files.
        folder = files(__name__.partition(".")[0]).joinpath(*package.split(".")[1:])
        sources = [f for f in folder.iterdir() if f.name.endswith((".py", ".ll"))]
        for file in sorted(sources, key=lambda f: f.name):
            digest.update(f"{package}/{file.name}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _name(key: tuple[str, ...]) -> str:
    digest = hashlib.blake2b("\n".join(key).encode(), digest_size=20).hexdigest()
    return f"{digest[:2]}/{digest[2:]}"


def _checksum(blob: bytes) -> bytes:
    return hashlib.blake2b(blob, digest_size=_CHECKSUM).digest()


def _write(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _trim(folder: Path, limit: int) -> None:
    """Remove the oldest files until the rest has at most ``limit`` bytes."""
    found = []
    for path in folder.glob("??/*"):
        try:
            status = path.stat()
        except OSError:  # another process trims too
            continue
        found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    excess = sum(size for _, size, _ in found) - limit
    for _, size, path in sorted(found):
        if excess <= 0:
            break
        with suppress(OSError):  # another process trims too, or holds it open, or owns it
            path.unlink()
        excess -= size
