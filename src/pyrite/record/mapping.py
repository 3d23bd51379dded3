"""Maps weight files into memory, and names what a file is that is not what it should be.

A mapped file costs no memory until its bytes are read, and its arrays are views of it.  Invariant:
a mapping is read-only, so no array made from one can change the file.
"""

from __future__ import annotations

import mmap
import os

from pyrite.errors import RecordError
from pyrite.opening import PathLike, open_file

#: First bytes of what people really hand over in place of a weight file.
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive, as PyTorch's .pt and NumPy's .npz are"),
    (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", "a PyTorch file in the format before version 1.6"),
    (b"\x80", "a Python pickle"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; run git lfs pull"),
    (b"<", "an HTML or XML page, so the download went wrong"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy .npy file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"{", "a JSON file"),
)
_TAR_MAGIC = slice(257, 262)


def map_file(path: PathLike) -> memoryview:
    """Return the bytes of the file at ``path``, mapped read-only.

    They stay mapped while a view of them lives.  Replacing the file (a rename) is safe meanwhile;
    another program that truncates it in place kills the process, as with any mapping.

    Raises RecordError when there is no such file, or it cannot be read.
    """
    name = os.fspath(path)
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # ValueError: it shrank to nothing meanwhile
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RecordError(f"loading requires a readable file, got {name!r}: {reason}") from error


def describe(data: memoryview) -> str:
    """Return what kind of file begins with ``data``, in words for an error.

    >>> describe(memoryview(b"GGUF...."))
    'a GGUF file'
    """
    if not data:
        return "an empty file"
    if bytes(data[8:9]) == b"{":
        return "a safetensors file"
    if bytes(data[_TAR_MAGIC]) == b"ustar":
        return "a tar archive, as PyTorch wrote before version 0.1.10"
    head = bytes(data[:32]).lstrip()
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    return f"{len(data)} bytes that begin with {head[:8]!r}"
