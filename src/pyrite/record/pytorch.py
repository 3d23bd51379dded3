"""Reads PyTorch's ``.pt`` and ``.pth`` files without PyTorch and without running their code.

Such a file is a zip archive: ``data.pkl`` describes the tensors; ``data/0``, ``data/1`` ... are
their storages.  The pickle is read as data (see unpickler.py), the storages are mapped, and a
tensor is a strided view of its storage, so tensors that shared memory when saved share it again.
Invariants: no byte outside a storage is reachable, whatever sizes and strides claim; arrays are
read-only.

Source: torch/serialization.py and torch/_utils.py of PyTorch 2.13; the tests read what it writes.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import ml_dtypes
import numpy as np

from pyrite.errors import RecordError
from pyrite.opening import PathLike, open_file, reader
from pyrite.record.mapping import describe, map_file
from pyrite.record.safetensors import (
    MAX_RANK,
    brief,
    read_only,
    require_addressable,
    require_bools,
)
from pyrite.record.unpickler import MAX_ITEMS, Constructor, unpickle
from pyrite.types import Array

#: An expanded tensor (stride 0) may be this much larger than its storage; beyond, it is an attack.
MAX_EXPANDED_BYTES = 2**30
#: A tensor takes about 150 bytes of the pickle: so many are those of 400,000.
MAX_PICKLE_BYTES = 2**26
#: Containers within containers; shared ones count each time, which stops "billion laughs".
MAX_DEPTH, MAX_NODES, MAX_NAME_LENGTH = 64, MAX_ITEMS, 1000

_DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(scalar)
    for name, scalar in {
        "bool": np.bool_,
        "uint8": np.uint8,
        "int8": np.int8,
        "uint16": np.uint16,
        "int16": np.int16,
        "uint32": np.uint32,
        "int32": np.int32,
        "uint64": np.uint64,
        "int64": np.int64,
        "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
        "float8_e5m2": ml_dtypes.float8_e5m2,
        "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "float32": np.float32,
        "float64": np.float64,
        "complex64": np.complex64,
        "complex128": np.complex128,
    }.items()
}
_STORAGES = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}

#: What zipfile raises for the archives of strangers.
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OSError)

#: What ``read_pytorch`` returns: dicts, lists and tuples of arrays, text, numbers, bools and None.
Tree = Any


@reader("PyTorch file", RecordError)
def load_pytorch(path: PathLike, *, key: str | None = None) -> dict[str, Array]:
    """Return the arrays of a PyTorch file by dotted name, as read-only views of the mapped file.

    ``{"model": {"fc.weight": w}}`` gives ``"model.fc.weight"``, or ``"fc.weight"`` with
    ``key="model"``: the part to read of a checkpoint that holds more, dotted if nested.  Items of
    lists are named by their index.  What is no tensor (an epoch, a learning rate) is left out here
    and told by ``read_pytorch``.

    Raises RecordError when the file is damaged, legacy, names code to run, or has no tensor there.
    """
    owner = f"PyTorch file {os.fspath(path)!r}"
    tree = read_pytorch(path)
    for part in _split(key):
        tree = _child(tree, part, owner)
    arrays: dict[str, Array] = {}
    for name, array in _arrays(tree, owner):
        if name in arrays:
            raise RecordError(f"{owner} requires one tensor for each dotted name, got two {name!r}")
        arrays[name] = array
    if not arrays:
        names = ", ".join(map(brief, list(tree)[:8])) if isinstance(tree, dict) else "no dict"
        raise RecordError(f"{owner} requires tensors at key={key!r}, got none there, but {names}")
    return arrays


@reader("PyTorch file", RecordError)
def read_pytorch(path: PathLike) -> Tree:
    """Return what was saved: dicts, lists and tuples of read-only arrays and plain values.

    ``torch.Size`` becomes a tuple, a dtype NumPy's, a device its name, a Parameter its array.

    Raises RecordError when the file is damaged, legacy, or names code to run.
    """
    archive = _Archive(path)
    return unpickle(
        archive.pickle(),
        allowed=_ALLOWED,
        persistent=archive.storage,
        owner=archive.owner,
    )


@dataclass(frozen=True)
class _Storage:
    """The bytes that tensors are views of.  ``dtype`` is None when each tensor states its own."""

    data: memoryview
    dtype: np.dtype[Any] | None
    is_swapped: bool


class _Archive:
    """The zip file, mapped; it hands out the pickle and the storages."""

    def __init__(self, path: PathLike) -> None:
        self.owner = f"PyTorch file {os.fspath(path)!r}"
        self._data = map_file(path)
        if bytes(self._data[:4]) != b"PK\x03\x04":
            raise RecordError(
                f"{self.owner} requires the zip format of PyTorch 1.6 or later, got "
                f"{describe(self._data)}; if PyTorch can read it, re-save it: "
                "torch.save(torch.load(path), path)"
            )
        self._entries = self._directory(path)
        self._prefix = self._find_prefix()
        self._is_swapped = self._byteorder() != sys.byteorder
        self._storages: dict[str, memoryview] = {}

    def pickle(self) -> bytes:
        name = f"{self._prefix}data.pkl"
        if self._entries[name].file_size > MAX_PICKLE_BYTES:
            raise RecordError(
                f"{self.owner} requires a data.pkl of at most {MAX_PICKLE_BYTES} bytes, "
                f"got {self._entries[name].file_size}"
            )
        return bytes(self._read(name))

    def storage(self, persistent_id: object) -> _Storage:
        """Return the storage that a persistent id ('storage', type, key, location, size) names."""
        match persistent_id:
            case ("storage", _StorageType() as kind, str(key), _, int(size)) if size >= 0:
                pass
            case _:
                raise RecordError(
                    f"{self.owner} requires references to storages, got {brief(persistent_id)}"
                )
        name = f"{self._prefix}data/{key}"
        if name not in self._entries:
            raise RecordError(f"{self.owner} requires the storage {brief(name)}, got none; it is "
                              "damaged, copy it again")  # fmt: skip
        if key not in self._storages:
            self._storages[key] = self._read(name)
        data, expected = self._storages[key], size * kind.itemsize
        if len(data) != expected:
            raise RecordError(
                f"{self.owner} requires {brief(expected)} bytes in storage {key!r}, got {len(data)}"
            )
        return _Storage(data, kind.dtype, self._is_swapped)

    def _directory(self, path: PathLike) -> dict[str, zipfile.ZipInfo]:
        try:
            with open_file(path) as file, zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
        except _ZIP_ERRORS as error:
            raise RecordError(
                f"{self.owner} requires a whole zip archive, got {error!s:.100}; "
                "it is truncated or damaged, copy it again"
            ) from error
        entries = {info.filename: info for info in infos}
        if len(entries) < len(infos):
            raise RecordError(f"{self.owner} requires each entry once, got one name twice")
        return entries

    def _find_prefix(self) -> str:
        """Return the directory of the archive that holds data.pkl, with its slash."""
        pickles = [n for n in self._entries if n == "data.pkl" or n.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise RecordError(
                f"{self.owner} requires one data.pkl, got {len(pickles)}; "
                "it is a zip archive, but not one of torch.save"
            )
        prefix = pickles[0].removesuffix("data.pkl")
        if f"{prefix}constants.pkl" in self._entries:
            raise RecordError(
                f"{self.owner} requires a saved state dict, got a TorchScript program; "
                "re-save it: torch.save(torch.jit.load(path).state_dict(), path)"
            )
        return prefix

    def _byteorder(self) -> str:
        """Return "little" or "big"; files of before PyTorch 2.0 do not say and are little."""
        name = f"{self._prefix}byteorder"
        order = bytes(self._read(name)[:8]) if name in self._entries else b"little"
        if order not in (b"little", b"big"):
            raise RecordError(f"{self.owner} requires byteorder 'little' or 'big', got {order!r}")
        return order.decode()

    def _read(self, name: str) -> memoryview:
        """Return the bytes of an entry, mapped, after a test of their checksum."""
        info = self._entries[name]
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise RecordError(f"{self.owner} requires uncompressed entries, got {brief(name)}")
        # The local header repeats name and extra field, whose length differs from the directory's.
        header = bytes(self._data[info.header_offset : info.header_offset + 30])
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            raise self._damaged(name)
        name_length, extra_length = struct.unpack("<HH", header[26:])
        begin = info.header_offset + 30 + name_length + extra_length
        data = self._data[begin : begin + info.file_size]
        # 0 is what torch.serialization.set_crc32_options(False) writes.
        if len(data) < info.file_size or (info.CRC != 0 and zlib.crc32(data) != info.CRC):
            raise self._damaged(name)
        return data

    def _damaged(self, name: str) -> RecordError:
        return RecordError(
            f"{self.owner} requires intact entries, got a wrong checksum or size in {brief(name)}; "
            "it is damaged, copy it again"
        )


@dataclass(frozen=True)
class _StorageType:
    """What ``torch.FloatStorage`` stands for; the dtype of an UntypedStorage is None."""

    dtype: np.dtype[Any] | None

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize if self.dtype is not None else 1


def _rebuild_tensor(
    storage: object, offset: object, shape: object, strides: object, *_: object
) -> Array:
    """Return the view that torch._utils._rebuild_tensor makes."""
    if not isinstance(storage, _Storage) or storage.dtype is None:
        raise RecordError("tensor requires a typed storage, got another; the file is damaged")
    return _view(storage, storage.dtype, offset, shape, strides)


def _rebuild_tensor_v2(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    requires_grad: object,
    hooks: object,
    metadata: object = None,
) -> Array:
    _require_no_metadata(metadata)
    return _rebuild_tensor(storage, offset, shape, strides)


def _rebuild_tensor_v3(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    requires_grad: object,
    hooks: object,
    dtype: object,
    metadata: object = None,
) -> Array:
    """Return a view of an untyped storage: the dtypes that have no storage class."""
    _require_no_metadata(metadata)
    if not isinstance(storage, _Storage) or not isinstance(dtype, np.dtype):
        raise RecordError("tensor requires a storage and a dtype, got others; the file is damaged")
    return _view(storage, dtype, offset, shape, strides)


def _rebuild_parameter(data: object, *_: object) -> object:
    """Return the parameter's tensor; requires_grad, hooks and attributes are dropped."""
    return data


def _rebuild_from_type(function: object, kind: object, arguments: object, state: object) -> object:
    """Return the tensor of a subclass, or of one with Python attributes, which are dropped."""
    if not isinstance(function, Constructor) or not isinstance(arguments, tuple):
        raise RecordError("tensor requires a known constructor, got another; the file is damaged")
    return function.call(*arguments)


def _require_no_metadata(metadata: object) -> None:
    if metadata:
        raise RecordError(
            "tensor requires plain values, got a lazy view (conjugate or negative); "
            "save it after .resolve_conj().resolve_neg()"
        )


def _view(
    storage: _Storage, dtype: np.dtype[Any], offset: object, shape: object, strides: object
) -> Array:
    """Return a strided view of ``storage``, whose elements are all tested to lie inside."""
    sizes, steps = _naturals(shape, "shape"), _naturals(strides, "strides")
    (start,) = _naturals((offset,), "storage offset")
    if len(sizes) != len(steps) or len(sizes) > MAX_RANK:
        raise RecordError(
            f"tensor requires one stride per axis, got {brief(sizes)}, {brief(steps)}"
        )
    require_addressable(sizes, dtype, "tensor")
    if 0 in sizes:
        return read_only(np.empty(sizes, dtype))
    last = start + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    if (last + 1) * dtype.itemsize > len(storage.data):
        raise RecordError(
            f"tensor requires elements inside its storage of {len(storage.data)} bytes, got shape "
            f"{brief(sizes)}, strides {brief(steps)}, offset {brief(start)} of {dtype}"
        )
    if math.prod(sizes) * dtype.itemsize > max(len(storage.data), MAX_EXPANDED_BYTES):
        raise RecordError(
            f"tensor requires at most {MAX_EXPANDED_BYTES} bytes when expanded, got {brief(sizes)} "
            f"of {dtype}; save it before .expand()"
        )
    data = storage.data[start * dtype.itemsize : (last + 1) * dtype.itemsize]
    # The stride of an axis of 1 is never taken, and may be any number.
    byte_steps = [step * dtype.itemsize if size > 1 else 0
                  for size, step in zip(sizes, steps, strict=True)]  # fmt: skip
    elements: Array = np.ndarray((len(data) // dtype.itemsize,), dtype, data)
    require_bools(elements, "tensor")
    if storage.is_swapped:
        elements = read_only(elements.byteswap())
    if not elements.flags.aligned:
        elements = read_only(elements.copy())
    # Through bytes: ml_dtypes have no buffer protocol, and as_strided knows no float8.
    view: Array = np.ndarray(sizes, dtype, elements.view(np.uint8).data, strides=byte_steps)
    return view


def _naturals(value: object, what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(item) is int and item >= 0 for item in value):
        raise RecordError(f"tensor requires {what} of 0 or more, got {brief(value)}")
    return value


def _device(*arguments: object) -> str:
    return ":".join(str(argument)[:20] for argument in arguments)


def _ordered_dict() -> dict[Any, Any]:
    """Return an empty dict; PyTorch fills OrderedDicts item by item."""
    return {}


_CONSTRUCTORS: Mapping[str, Callable[..., object]] = {
    "collections.OrderedDict": _ordered_dict,
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.Size": tuple,
    "torch.device": _device,
}
_ALLOWED: Mapping[str, object] = {
    **{name: Constructor(name, call) for name, call in _CONSTRUCTORS.items()},
    **{f"torch.{name}": dtype for name, dtype in _DTYPES.items()},
    **{f"torch.{name}": _StorageType(_DTYPES[dtype]) for name, dtype in _STORAGES.items()},
    "torch.storage.UntypedStorage": _StorageType(None),
    # The types that _rebuild_from_type_v2 is told and that we have no use for.
    "torch.Tensor": "torch.Tensor",
    "torch.nn.parameter.Parameter": "torch.nn.parameter.Parameter",
}


def _split(key: str | None) -> list[str]:
    return [] if key is None else key.split(".")


def _child(tree: Tree, part: str, owner: str) -> Tree:
    if isinstance(tree, dict) and part in tree:
        return tree[part]
    names = [name for name in tree if isinstance(name, str)] if isinstance(tree, dict) else []
    close = get_close_matches(part, names[:1000], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise RecordError(
        f"{owner} requires a key {part!r}, got {', '.join(map(brief, names[:8])) or 'none'}{hint}"
    )


def _arrays(tree: Tree, owner: str) -> Iterator[tuple[str, Array]]:
    """Yield dotted name and value of each array, in order."""
    pending, seen = [("", tree, 0)], 1
    while pending:
        name, value, depth = pending.pop()
        children = _children(value)
        seen += len(children)
        if depth > MAX_DEPTH or seen > MAX_NODES or len(name) > MAX_NAME_LENGTH:
            raise RecordError(
                f"{owner} requires at most {MAX_NODES} values, {MAX_DEPTH} deep, with names of "
                f"{MAX_NAME_LENGTH} letters, got more"
            )
        if isinstance(value, np.ndarray):
            yield name, value
        pending += [(f"{name}.{part}" if name else f"{part}", child, depth + 1)
                    for part, child in reversed(children)
                    if isinstance(child, dict | list | tuple | np.ndarray)]  # fmt: skip


def _children(value: Tree) -> Sequence[tuple[Any, Tree]]:
    """Return what a container holds, by key or number; nothing of what is no container."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else ()
