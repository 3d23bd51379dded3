"""A folder that one user alone can change: what is read from it was written by that user.

Whoever can put a file here runs code in every process that loads it, and a checksum does not tell
who wrote it.  So owner and mode are asked of what was opened, never of a path, which may stand for
something else by then: the folder, the folders inside, each file.  No link is followed below the
folder's parent.  Folders have mode 0700 and files 0600, whatever the mask is.

On Windows files have no such owners and modes: what is there keeps to the folder that the system
protects for the user, and only tests that files are plain and of a sensible size.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from pyrite.opening import read_at_most, regular

#: Whether a folder can be opened, and files be named from it.
HAS_OWNERS = hasattr(os, "geteuid") and os.open in os.supports_dir_fd

_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _CLOSED | _NO_LINK | getattr(os, "O_DIRECTORY", 0)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(OSError):
    """A folder may be changed by others; the message says by whom."""


class Used(NamedTuple):
    """A file: when it was last used, its size, and its name."""

    at: float
    size: int
    name: str


class Folder(ABC):
    """Files in folders of two letters: ``ab/cdef``.  All methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a file of at most ``limit`` bytes."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Replace a file by one with this content, as a whole."""

    @abstractmethod
    def used(self) -> list[Used]:
        """Return all files."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file."""


def folder_at(path: Path) -> Folder:
    """Return the folder at a path, which need not be there yet."""
    return OwnedFolder(path) if HAS_OWNERS else PlainFolder(path)


class OwnedFolder(Folder):
    """A folder where files have owners.  Raises UntrustedError while others can change it."""

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a file of this user's."""
        inner, own = name.split("/")
        with self._opened() as top, _inside(top, inner) as folder:
            file = regular(own, os.O_RDONLY | _NO_LINK, dir_fd=folder)
            try:
                try:
                    _require_own(os.fstat(file), own, _OTHERS)
                except UntrustedError as error:
                    # In a folder of this user's alone: it is replaced, there is nothing to tell.
                    raise PermissionError(errno.EPERM, str(error), own) from None
                return read_at_most(file, limit, own)
            finally:
                os.close(file)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, with mode 0600."""
        inner, own = name.split("/")
        with self._opened(make=True) as top, _inside(top, inner, make=True) as folder:
            new = f".new-{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED | _NO_LINK
            descriptor = os.open(new, flags, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    os.fchmod(descriptor, 0o600)
                    file.write(content)
                os.replace(new, own, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new, dir_fd=folder)
                raise

    def used(self) -> list[Used]:
        """Return all files."""
        found: list[Used] = []
        with self._opened() as top:
            for inner in os.listdir(top):
                with suppress(OSError), _inside(top, inner) as folder:
                    for own in os.listdir(folder):
                        with suppress(OSError):  # another process removes some too
                            status = os.stat(own, dir_fd=folder, follow_symlinks=False)
                            found.append(_used(status, f"{inner}/{own}"))
        return found

    def remove(self, name: str) -> None:
        """Remove a file."""
        inner, own = name.split("/")
        with self._opened() as top, _inside(top, inner) as folder:
            os.unlink(own, dir_fd=folder)

    @contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """Give a descriptor of the folder, which is this user's alone."""
        # What is above may be a link of the user's, to a larger disk.
        parent = Path(os.path.realpath(self.path.parent))
        if make:
            _make(parent)
        _require_no_public_folder(parent)
        above = os.open(parent, os.O_RDONLY | _CLOSED | getattr(os, "O_DIRECTORY", 0))
        try:
            with _inside(above, self.path.name, make=make) as folder:
                yield folder
        finally:
            os.close(above)


def _make(folder: Path) -> None:
    """Make a folder and those above it, for this user only."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(0o700)
            path.chmod(0o700)


def _require_no_public_folder(folder: Path) -> None:
    """Raise UntrustedError if all users may rename what is in a folder, or in one above it."""
    for path in (folder, *folder.parents):
        mode = os.stat(path).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UntrustedError(f"it is in {path}, where every user can put another")


@contextmanager
def _inside(above: int, name: str, *, make: bool = False) -> Iterator[int]:
    """Give a descriptor of a folder in an open one.  Raises UntrustedError unless it is own."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
            # A mask may have taken rights that this user needs.
            os.chmod(name, 0o700, dir_fd=above)
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        if _is_link(name, above):
            raise UntrustedError("it is a link, which may be turned elsewhere") from None
        raise
    try:
        status = os.fstat(folder)
        _require_own(status, name, _WRITABLE)
        if status.st_mode & _OTHERS:
            with suppress(OSError):  # it may be on a disk that is only read
                os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _is_link(name: str, above: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _require_own(status: os.stat_result, name: str, forbidden: int) -> None:
    """Raise UntrustedError for what another user owns, or may use in a way that is forbidden."""
    if status.st_uid != os.geteuid():
        raise UntrustedError(f"{name} belongs to user {status.st_uid}, this is {os.geteuid()}")
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        raise UntrustedError(f"{name} has mode {mode:04o}, so others can change it")


class PlainFolder(Folder):
    """A folder where files have no owners: on Windows."""

    def read(self, name: str, limit: int) -> bytes:
        """Return the content of a plain file."""
        file = regular(self.path / name, os.O_RDONLY)
        try:
            return read_at_most(file, limit, name)
        finally:
            os.close(file)

    def write(self, name: str, content: bytes) -> None:
        """Replace a file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".new-{secrets.token_hex(8)}")
        try:
            with open(new, "xb") as file:
                file.write(content)
            os.replace(new, path)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise

    def used(self) -> list[Used]:
        """Return all files."""
        found: list[Used] = []
        for path in self.path.glob("??/*"):
            with suppress(OSError):
                found.append(_used(path.lstat(), f"{path.parent.name}/{path.name}"))
        return found

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink()


def _used(status: os.stat_result, name: str) -> Used:
    return Used(max(status.st_atime, status.st_mtime), status.st_size, name)
