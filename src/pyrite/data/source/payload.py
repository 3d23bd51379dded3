"""Bytes of a data file, plain or gzip, never more of them than a header can honestly claim."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from pyrite.errors import DataError
from pyrite.opening import open_file

GZIP_MAGIC = b"\x1f\x8b"

# One deflate symbol of two bits can stand for 258 bytes (RFC 1951): no stream expands further.
MAX_EXPANSION = 1032

_CHUNK = 1 << 20


class Payload:
    """A file that is read from the front, for one reader of one format.

    `read` gives exactly the bytes asked for, or a DataError that names the file.  The size asked
    for may come from a hostile header: it is compared with what the file can hold before any memory
    is taken, and the bytes are read in pieces.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Open path, for messages of the format called name.

        Raises DataError if there is no such file, or it cannot be opened.
        """
        self.path = path
        self.name = name
        try:
            self._file: BinaryIO = open_file(path)
            size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise DataError(
                f"{name} requires a readable file, got {path}: {error.strerror}"
            ) from error
        self.limit = size
        self._opened = [self._file]
        is_packed = self._file.read(2) == GZIP_MAGIC
        self._file.seek(0)
        if is_packed:
            self.limit = size * MAX_EXPANSION
            # Closing what unpacks does not close what it reads.
            self._file = cast(BinaryIO, gzip.open(self._file, "rb"))
            self._opened.append(self._file)

    def __enter__(self) -> Payload:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in reversed(self._opened):
            file.close()

    def read(self, size: int, what: str) -> bytes:
        """Return the next size bytes, which are `what` in messages.

        Raises DataError if the file has fewer, or its compression is damaged.
        """
        if size > self.limit:
            amount = size if size < 1 << 63 else "over 2**63"
            raise DataError(
                f"{self.name} requires {amount} bytes of {what}, "
                f"got a file that holds at most {self.limit}: {self.path}"
            )
        data = self._read(size)
        if len(data) < size:
            amount = size if size < 1 << 63 else "over 2**63"
            raise DataError(
                f"{self.name} requires {amount} bytes of {what}, got {len(data)}; "
                f"the file is truncated: {self.path}"
            )
        return data

    def end(self) -> None:
        """Nothing is left.  Raises DataError if bytes follow."""
        if self._read(1):
            raise DataError(f"{self.name} requires the file to end after its data: {self.path}")

    def _read(self, size: int) -> bytes:
        pieces = bytearray()
        try:
            while len(pieces) < size:
                piece = self._file.read(min(_CHUNK, size - len(pieces)))
                if not piece:
                    break
                pieces += piece
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self.name} requires an undamaged file, got {error} in {self.path}"
            ) from error
        return bytes(pieces)
