"""How every file is opened for reading: only regular files, and without waiting for a writer.

A FIFO blocks whoever opens it until somebody writes, a device may never end, and opening some of
them does something.  So a path is looked at first, opened without blocking, and what was opened is
looked at again.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable
from typing import BinaryIO, ParamSpec, TypeVar

from pyrite.errors import PyriteError

P = ParamSpec("P")
T = TypeVar("T")

PathLike = str | os.PathLike[str]

_FLAGS = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}

_PIECE = 1 << 20


def open_file(path: PathLike) -> BinaryIO:
    """Return a regular file, opened to read its bytes.

    Raises OSError for anything else, and for a path that can name no file.

    >>> open_file("/dev/null")
    Traceback (most recent call last):
    OSError: [Errno 22] it is a device, not a regular file: '/dev/null'
    """
    return os.fdopen(regular(path, os.O_RDONLY), "rb")


def regular(path: PathLike, flags: int, mode: int = 0o666, *, dir_fd: int | None = None) -> int:
    """Return a descriptor of a regular file, opened with flags.  Raises OSError for others."""
    follows = not flags & getattr(os, "O_NOFOLLOW", 0)
    try:
        try:
            _require_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=follows), path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
        descriptor = os.open(path, flags | _FLAGS, mode, dir_fd=dir_fd)
    except ValueError as error:
        # A NUL, or half of a surrogate pair.
        raise OSError(errno.EINVAL, f"no file can have this name: {error}", repr(path)) from None
    try:
        _require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(status: os.stat_result, path: PathLike) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise OSError(errno.EINVAL, f"it is {what}, not a regular file", os.fspath(path))


def reader(name: str, error: type[PyriteError]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of what reads files: where memory ends, it raises ``error``.

    ``name`` is what it is called in the message.
    """

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(read)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return read(*args, **kwargs)
            except MemoryError as cause:
                paths = (repr(os.fspath(a)) for a in args if isinstance(a, str | os.PathLike))
                raise error(
                    f"{name} requires memory for what is in {next(paths, 'its files')}, got none "
                    "left; free some, or read a part of it"
                ) from cause

        return checked

    return decorate


def read_at_most(file: int, limit: int, name: str) -> bytes:
    """Return all that is in an open file.  Raises OSError if that is more than ``limit`` bytes."""
    size = os.fstat(file).st_size
    found = bytearray()
    while size <= limit and len(found) <= limit:
        piece = os.read(file, min(_PIECE, limit + 1 - len(found)))
        if not piece:
            return bytes(found)
        found += piece
    raise OSError(errno.EFBIG, f"it has more than {limit} bytes", name)
