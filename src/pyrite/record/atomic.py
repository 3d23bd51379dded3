"""Replaces a file as a whole: readers see the old bytes or the new ones, never a part.

Every file of value that Pyrite writes (checkpoints, weights, run state) passes through here, so
that a full disk, Ctrl-C or a power cut costs at most the new version.  Invariant: until
``os.replace`` returns, the file at ``path`` has not been touched; after it, the new bytes are on
the disk.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pyrite.opening import PathLike as PathLike


@contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` when the block ends without an error.

    The bytes go to a hidden ``.tmp`` file in the same directory (a rename is atomic only within a
    file system), which any error removes; only a killed process leaves one behind.  The mode of an
    existing file is kept, and a symbolic link keeps pointing where it points.

    Raises OSError when the file cannot be written; the old file is then unchanged.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "state.json"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"{}")
    >>> target.read_bytes()
    b'{}'
    """
    target = Path(os.path.realpath(path))
    _require_replaceable(target)
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too: whatever ended the block, the half-written file goes
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_directory(target.parent)


def _require_replaceable(target: Path) -> None:
    """Raise OSError where a rename would succeed but should not: devices, write-protected files."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(target.parent))
    if not target.exists():
        return
    if not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(target))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is write-protected", str(target))


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut."""
    if os.name == "nt":  # Windows opens no directories; NTFS journals the rename
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # network file systems without it
            raise
    finally:
        os.close(descriptor)
