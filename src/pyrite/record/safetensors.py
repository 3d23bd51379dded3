"""Reads and writes safetensors: 8 bytes of header length, a JSON header, the bytes of the arrays.

The reader trusts nothing: every length, name, dtype, shape and offset is tested before it is used,
so a damaged or hostile file is one RecordError that names the file.  The writer is our own as well,
because the library writes metadata in the order of a hash table that differs between runs, and to a
path instead of the file that ``atomic_write`` hands out.  Invariants: equal arrays and metadata
give equal bytes; arrays from a file are read-only.

Source: https://huggingface.co/docs/safetensors, whose library the tests read and write against.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from pyrite.errors import RecordError
from pyrite.opening import reader
from pyrite.record.atomic import PathLike, atomic_write
from pyrite.record.mapping import describe, map_file
from pyrite.types import Array

#: The limit of the reference library; the largest headers in the wild are a few megabytes.
MAX_HEADER_BYTES = 100_000_000
#: Arrays of one file: ten times those of the largest in the wild, which come in shards.
MAX_ENTRIES = 1 << 16
#: NumPy's limit on the number of axes.
MAX_RANK = 64

#: Format code -> dtype.  Sub-byte formats (F4, F6_*) have no NumPy dtype and are refused by name.
DTYPES: Mapping[str, np.dtype[Any]] = {
    code: np.dtype(scalar)
    for code, scalar in {
        "BOOL": np.bool_,
        "U8": np.uint8,
        "I8": np.int8,
        "U16": np.uint16,
        "I16": np.int16,
        "U32": np.uint32,
        "I32": np.int32,
        "U64": np.uint64,
        "I64": np.int64,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E8M0": ml_dtypes.float8_e8m0fnu,
        "F16": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "F32": np.float32,
        "F64": np.float64,
        "C64": np.complex64,
    }.items()
}
_CODES = {dtype.name: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True)
class ArrayEntry:
    """One array, as the header declares it; ``begin`` and ``end`` count from the file's start."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile(Mapping[str, Array]):
    """A file's arrays by name, each read when it is asked for: a read-only view of the mapped file.

    ``entries`` tells dtypes and shapes without reading any data, ``metadata`` the header's strings.

    Raises RecordError when the file is damaged, foreign or hostile.
    """

    @reader("safetensors", RecordError)
    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self._data = map_file(path)
        self.entries, self.metadata = _parse(self._data, f"safetensors file {self.path!r}")

    @reader("safetensors", RecordError)
    def __getitem__(self, name: str) -> Array:
        entry = self.entries[name]
        array: Array = np.ndarray(entry.shape, entry.dtype, self._data[entry.begin : entry.end])
        if not array.flags.aligned:  # a foreign header of odd length; kernels need alignment
            array = read_only(array.copy())
        return require_bools(little_endian(array), f"array {name!r} of {self.path!r}")

    def __contains__(self, name: object) -> bool:
        return name in self.entries  # Mapping's own would read the array

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@reader("safetensors", RecordError)
def load_safetensors(path: PathLike, *, copy: bool = False) -> dict[str, Array]:
    """Return all arrays of a safetensors file by name, in the order of the header.

    They are read-only views of the mapped file; ``copy=True`` reads them into memory, so that the
    file may be deleted or, on Windows, replaced while they live.

    Raises RecordError when the file is damaged, foreign or hostile.
    """
    file = SafetensorsFile(path)
    return {name: read_only(array.copy()) if copy else array for name, array in file.items()}


def save_safetensors(
    path: PathLike, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays, and strings for the header, as one safetensors file that replaces ``path``.

    Equal arguments give equal bytes.  Arrays are stored contiguous and little-endian.

    Raises RecordError when an array has a dtype that the format lacks, when a name is not text, or
    when the disk is full; the old file is then unchanged.
    """
    # Widest dtypes first, as the reference library does: every array is then aligned in the file.
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    header = _header(ordered, metadata or {}, f"saving {os.fspath(path)!r}")
    try:
        with atomic_write(path) as file:
            file.write(struct.pack("<Q", len(header)))
            file.write(header)
            for array in ordered.values():
                file.write(_raw_bytes(array))
    except OSError as error:
        raise RecordError(
            f"saving requires a file that can be written, got {os.fspath(path)!r}: "
            f"{error.strerror or error}; what was there before is unchanged"
        ) from error


def little_endian(array: Array) -> Array:
    """Return ``array`` with its bytes swapped on a big-endian machine, and as it is elsewhere."""
    return array if sys.byteorder == "little" else array.byteswap()


def read_only(array: Array) -> Array:
    """Return a view of ``array`` through which it cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def require_bools(array: Array, owner: str) -> Array:
    """Return ``array``; raise RecordError if it holds bools that are neither 0 nor 1."""
    # Any other byte compares unequal to both True and False.
    if array.dtype == np.bool_ and array.size and int(array.view(np.uint8).max()) > 1:
        raise RecordError(f"{owner} requires bools of 0 or 1, got other bytes; it is damaged")
    return array


def _header(arrays: Mapping[str, Array], metadata: Mapping[str, str], file: str) -> bytes:
    """Return the JSON header, padded with spaces so that the data begins at a multiple of 8."""
    table: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    begin = 0
    for name, array in arrays.items():
        code = _CODES.get(array.dtype.name)
        if code is None or name == "__metadata__":
            what = f"array {name!r} of {array.dtype}" if code is None else "'__metadata__'"
            raise RecordError(f"{file} requires arrays of {', '.join(_CODES)}, got {what}")
        end = begin + array.nbytes
        table[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    try:
        header = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"{file} requires names and metadata in Unicode, got {error}") from error
    if len(header) + 8 > MAX_HEADER_BYTES:
        raise RecordError(
            f"{file} requires a header of at most {MAX_HEADER_BYTES} bytes, got {len(header)}; "
            "put large values into arrays, not into metadata"
        )
    return header + b" " * (-len(header) % 8)


def _raw_bytes(array: Array) -> memoryview:
    """Return the bytes of ``array``, contiguous and little-endian; no copy if it is so already."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(little_endian(native)).reshape(-1).view(np.uint8).data


def _parse(data: memoryview, file: str) -> tuple[dict[str, ArrayEntry], dict[str, str]]:
    """Return the entries and the metadata of a whole file, all of it tested."""
    table, start = _read_table(data, file)
    metadata = table.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise RecordError(f"{file} requires __metadata__ of strings, got {brief(metadata)}")
    entries = {name: _entry(declared, start, f"{file} at {name!r}")
               for name, declared in table.items()}  # fmt: skip
    _require_tiling(entries, start, len(data), file)
    return entries, metadata


def _read_table(data: memoryview, file: str) -> tuple[dict[str, Any], int]:
    """Return the JSON object of the header, and where the data after it begins."""
    if len(data) < 8 or bytes(data[8:9]) not in (b"{", b""):
        raise RecordError(f"{file} requires a safetensors header, got {describe(data)}")
    (length,) = struct.unpack("<Q", data[:8])
    if length > MAX_HEADER_BYTES:
        raise RecordError(
            f"{file} requires a header of at most {MAX_HEADER_BYTES} bytes, got {length}"
        )
    if 8 + length > len(data):
        raise RecordError(
            f"{file} requires {8 + length} bytes for its header, got {len(data)}; "
            "it is truncated, copy it again"
        )
    text = bytes(data[8 : 8 + length])
    _require_few(text.count(b'"data_offsets"'), file)
    table = parse_json(text, f"{file} header")
    _require_few(len(table) - ("__metadata__" in table), file)
    return table, 8 + length


def _require_few(count: int, file: str) -> None:
    if count > MAX_ENTRIES:
        raise RecordError(f"{file} requires at most {MAX_ENTRIES} arrays, got {count}; split it")


def parse_json(text: bytes, owner: str) -> dict[str, Any]:
    """Return a JSON object from bytes that may be hostile.

    Raises RecordError, naming ``owner``, on bad UTF-8, bad JSON, a name given twice, nesting deeper
    than the interpreter's limit, or anything but an object.

    >>> parse_json(b'{"a": 1, "a": 2}', "index")
    Traceback (most recent call last):
    pyrite.errors.RecordError: index requires a JSON object, got name 'a' twice
    """
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "nesting too deep" if isinstance(error, RecursionError) else str(error)
        raise RecordError(f"{owner} requires a JSON object, got {reason}") from error
    if not isinstance(value, dict):
        raise RecordError(f"{owner} requires a JSON object, got {brief(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"name {brief(counts.most_common(1)[0][0])} twice")
    return table


_FIELDS = dict.fromkeys(("dtype", "shape", "data_offsets"))


def _entry(declared: object, start: int, owner: str) -> ArrayEntry:
    """Return what one header item declares, with offsets counted from the start of the file."""
    if not isinstance(declared, dict) or declared.keys() != _FIELDS.keys():
        raise RecordError(f"{owner} requires {', '.join(_FIELDS)}, got {brief(declared)}")
    code, shape, offsets = declared["dtype"], declared["shape"], declared["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise RecordError(f"{owner} requires a dtype of {', '.join(DTYPES)}, got {brief(code)}")
    if not _is_naturals(shape) or len(shape) > MAX_RANK:
        raise RecordError(f"{owner} requires a shape of 0 or more, got {brief(shape)}")
    if not _is_naturals(offsets) or len(offsets) != 2:
        raise RecordError(f"{owner} requires data_offsets [begin, end], got {brief(offsets)}")
    dtype, (begin, end) = DTYPES[code], offsets
    require_addressable(shape, dtype, owner)
    size = math.prod(shape) * dtype.itemsize
    if end - begin != size:
        raise RecordError(
            f"{owner} requires {size} bytes for shape {tuple(shape)} of {dtype}, "
            f"got data_offsets {brief(offsets)}"
        )
    return ArrayEntry(dtype, tuple(shape), start + begin, start + end)


def require_addressable(shape: Sequence[int], dtype: np.dtype[Any], owner: str) -> None:
    """Raise RecordError for a shape that NumPy cannot hold, even if an axis of 0 makes it empty."""
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize > sys.maxsize:
        raise RecordError(f"{owner} requires a shape that fits in memory, got {brief(shape)}")


def _require_tiling(entries: Mapping[str, ArrayEntry], start: int, size: int, file: str) -> None:
    """Raise RecordError unless the arrays cover the data exactly: no overlap, hole or rest."""
    reached = start
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached:
            what = "overlaps" if entry.begin < reached else "leaves a hole after"
            raise RecordError(
                f"{file} requires arrays one after another, got {name!r} at byte {entry.begin}, "
                f"which {what} the one that ends at {reached}"
            )
        reached = entry.end
    if reached != size:
        fix = "it is truncated, copy it again" if size < reached else "bytes were added at its end"
        raise RecordError(f"{file} requires {reached} bytes as its header says, got {size}; {fix}")


_INTEGERS = frozenset({int})


def _is_naturals(value: object) -> bool:
    return isinstance(value, list) and (
        not value or (_INTEGERS.issuperset(map(type, value)) and min(value) >= 0)
    )


def brief(value: object) -> str:
    """Return ``value`` for an error message, cut short and never deep."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(brief, list(value)[:4])) or 'nothing'}"
    if isinstance(value, list | tuple):
        shown = ", ".join("[...]" if isinstance(v, list | tuple) else brief(v) for v in value[:8])
        return f"[{shown}{', ...' if len(value) > 8 else ''}]"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value[:60]) if isinstance(value, str | bytes) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
