"""Compiled code on disk, for the next process.

A file is one blob with its checksum, named by the hash of all that it depends on, so that an entry
is never out of date and never wrong: a damaged file is not an entry, and is written anew.  Files
appear by renaming, hence whole; many processes may write the same at once.

What is read is run.  That nobody else wrote it is for `OwnedFolder` to say, not for the checksum.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from secrets import randbelow
from typing import NamedTuple, TypeVar

from pyrite.config import config
from pyrite.runtime.folder import Folder, UntrustedError, folder_at

T = TypeVar("T")

_MAGIC = b"pyrite-code-1\n"
_CHECKSUM = 16

#: What part of the limit is written, by all processes, before the folder is looked at again: to
#: look at 100,000 files takes a second, and most processes write little.
_SHARE = 8

#: Bytes of one file: a hundred times the largest kernel.
LARGEST = 64 << 20


class Contents(NamedTuple):
    """The contents of a cache: its folder, how many files and bytes, and how many there may be."""

    folder: Path
    files: int
    nbytes: int
    limit: int


class CacheWarning(UserWarning):
    """The folder of compiled code is not this user's alone, so none of it is used."""


#: Whether a program was told; it is once.
_warned = False


class DiskCache:
    """Blobs by key, in a folder; see the head of this file.

    ``counts`` has ``hits``, ``misses``, ``damaged``, ``refused`` (what is no file, or not this
    user's) and ``unwritable``.  A folder that others can change is not used; a CacheWarning tells
    so once.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.counts: Counter[str] = Counter()
        self._files: Folder | None = None if folder is None else folder_at(folder)
        self._lock = threading.Lock()
        #: Bytes written since the folder was last looked at; None before the first.
        self._written: int | None = None

    def get(self, *key: str) -> bytes | None:
        """Return what was stored under the key, or None."""
        blob = self._read(_name(key))
        self._count("misses" if blob is None else "hits")
        return blob

    def put(self, blob: bytes, *key: str) -> None:
        """Store the blob under the key.  Where the folder cannot be written nothing is stored."""
        files, content = self._files, _MAGIC + _checksum(blob) + blob
        if files is None or len(content) > LARGEST:
            return
        try:
            files.write(_name(key), content)
        except OSError as error:
            self._note(error, "unwritable")
        else:
            self._wrote(files, len(content))

    def contents(self) -> Contents | None:
        """Return what is there, None where nothing is kept.

        Raises OSError for a folder that cannot be read, or that others can change.
        """
        if self._files is None or self.folder is None:
            return None
        try:
            found = self._files.used()
        except (FileNotFoundError, NotADirectoryError):
            found = []
        return Contents(self.folder, len(found), sum(f.size for f in found), limit())

    def clear(self) -> int:
        """Remove all files, but for those that another process removes; return how many.

        Raises OSError as `contents` does.
        """
        if self.contents() is None or self._files is None:
            return 0
        removed = 0
        with suppress(FileNotFoundError, NotADirectoryError):
            for file in self._files.used():
                with suppress(OSError):
                    self._files.remove(file.name)
                    removed += 1
        return removed

    def _read(self, name: str) -> bytes | None:
        if self._files is None:
            return None
        try:
            content = self._files.read(name, LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._note(error, "refused")
            return None
        head, blob = len(_MAGIC) + _CHECKSUM, content[len(_MAGIC) + _CHECKSUM :]
        if content[:head] != _MAGIC + _checksum(blob):
            self._count("damaged")
            return None
        return blob

    def _note(self, error: OSError, name: str) -> None:
        self._count(name)
        if isinstance(error, UntrustedError):
            _warn_once(f"{self.folder}: {error}")

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    def _wrote(self, files: Folder, nbytes: int) -> None:
        """Count what was written; look now and then whether there is too much.

        A process begins anywhere between two looks, so that many that write little look as often as
        one that writes as much.
        """
        share = max(1, limit() // _SHARE)
        with self._lock:
            before = randbelow(share) if self._written is None else self._written
            if before + nbytes < share:
                self._written = before + nbytes
                return
            self._written = 0
        with suppress(OSError):
            _trim(files, limit())


def limit() -> int:
    """Return how many bytes may be on disk."""
    return config.cache_megabytes << 20


def _warn_once(what: str) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        "the cache of compiled code requires a folder that this user alone can change, got "
        f"{what}; nothing is kept there: take it over (chown, chmod 700), or name another in "
        "PYRITE_CACHE, or 'off'",
        CacheWarning,
        stacklevel=2,
    )


def loaded(
    cache: DiskCache, key: tuple[str, ...], make: Callable[[], bytes],
    load: Callable[[bytes], T], failure: type[Exception],
) -> T:  # fmt: skip
    """Return what ``load`` makes of the entry of a key, or of a new one where there is none.

    An entry that fails to load is made anew: its checksum says that it is what was written, not
    that it was right.
    """
    blob = cache.get(*key)
    if blob is not None:
        with suppress(failure):
            return load(blob)
    blob = make()
    cache.put(blob, *key)
    return load(blob)


def default_cache() -> DiskCache:
    """Return the cache in ``config.cache``, or in the user's folder for such files.

    A user without a home, as a container may have, keeps nothing.
    """
    if config.cache == "off":
        return DiskCache(None)
    try:
        folder = (Path(config.cache) if config.cache else _user_folder()).expanduser()
    except RuntimeError:  # of expanduser
        return DiskCache(None)
    return DiskCache(folder.absolute())


def _user_folder() -> Path:
    """Return the system's folder for such files, which may begin with ``~``."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "pyrite" / "cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/pyrite")
    given = os.environ.get("XDG_CACHE_HOME", "")
    # "All paths set in these environment variables must be absolute.  If an implementation
    # encounters a relative path [...] it should consider the path invalid and ignore it."
    # Source: XDG Base Directory Specification 0.8
    return Path(given if os.path.isabs(given) else "~/.cache") / "pyrite"


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


def _trim(files: Folder, limit: int) -> None:
    """Remove the oldest files until the rest has at most ``limit`` bytes."""
    found = files.used()
    excess = sum(file.size for file in found) - limit
    for file in sorted(found):
        if excess <= 0:
            break
        with suppress(OSError):  # another process trims too, or holds it open, or owns it
            files.remove(file.name)
        excess -= file.size
