"""The values that a file holds, decoded or mapped when they are asked for.

External data lies in the model's folder or below it: a path that leaves it, a link on the way, or a
piece outside its file is an error, and nothing is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np
from onnx import TensorProto, numpy_helper

from pyrite.errors import ModelImportError
from pyrite.onnx.element import Element, element
from pyrite.onnx.graph import Weight
from pyrite.opening import regular
from pyrite.types import Array, Shape, element_count

#: What one weight may take, in bytes: more is taken for a damaged size.
LARGEST = 1 << 40


def weight(
    tensor: TensorProto, key: str, folder: Path | None, *, is_initializer: bool = True
) -> Weight:
    """Return a tensor of a file as a weight.  Raises ModelImportError for a damaged one."""
    kind = element(tensor.data_type)
    shape = tuple(tensor.dims)
    if kind is None or any(size < 0 for size in shape) or element_count(shape) > LARGEST:
        raise ModelImportError(
            f"a weight requires a known type and sizes of at least 0, got type {tensor.data_type} "
            f"and {shape} for {key!r}"
        )
    if tensor.data_location == TensorProto.EXTERNAL:
        read = _external(tensor, key, kind, shape, folder)
    else:
        read = _internal(tensor, key, kind, shape)
    return Weight(key, kind, shape, read, is_initializer)


def sparse_weight(tensor: object, key: str) -> Weight:
    """Return a sparse tensor of a file as a dense weight."""
    values, indices = tensor.values, tensor.indices  # type: ignore[attr-defined]
    shape = tuple(tensor.dims)  # type: ignore[attr-defined]
    kind = element(values.data_type)
    if kind is None or element_count(shape) > DENSE_LIMIT or any(size < 0 for size in shape):
        raise ModelImportError(
            f"a sparse weight requires a known type and at most {DENSE_LIMIT} elements, got "
            f"{shape} for {key!r}"
        )

    def read() -> Array:
        places = _decoded(indices, key)
        dense = np.zeros(shape, _decoded(values, key).dtype)
        flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
        if flat.size and not (0 <= flat.min() and flat.max() < dense.size):
            raise ModelImportError(f"a sparse weight requires indices within {shape}: {key!r}")
        dense.reshape(-1)[flat] = _decoded(values, key)
        return _carried(dense, kind)

    return Weight(key, kind, shape, read, False)


#: Elements of a sparse weight, which is made dense.
DENSE_LIMIT = 1 << 26


def _internal(tensor: TensorProto, key: str, kind: Element, shape: Shape) -> Callable[[], Array]:
    def read() -> Array:
        array = _decoded(tensor, key)
        if array.shape != shape:
            raise ModelImportError(
                f"a weight requires as many values as its shape says, got {array.size} for "
                f"{shape}: {key!r}"
            )
        return _carried(array, kind)

    return read


def _decoded(tensor: TensorProto, key: str) -> Array:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelImportError(f"a weight requires whole data, got: {error}; {key!r}") from None


def _carried(array: Array, kind: Element) -> Array:
    """Return an array in the dtype that carries its element type."""
    if kind.carrier is None or array.dtype == kind.carrier.numpy:
        return array
    return array.astype(kind.carrier.numpy)


def _external(
    tensor: TensorProto, key: str, kind: Element, shape: Shape, folder: Path | None
) -> Callable[[], Array]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _place(entries.get("location", ""), key, folder)
    offset, length = _number(entries, "offset", 0, key), _number(entries, "length", -1, key)
    proto = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
    needed = _bytes_of(kind, shape)
    if length not in (-1, needed):
        raise ModelImportError(
            f"external data requires {needed} bytes for {kind.name} {shape}, got {length}: {key!r}"
        )
    _require_piece(path, offset, needed, key)

    def read() -> Array:
        piece = _mapped(path, offset, needed, key)
        if kind.carrier is not None and not kind.is_narrow:
            return piece.view(kind.carrier.numpy).reshape(shape)
        proto.raw_data = piece.tobytes()
        return _carried(_decoded(proto, key), kind)

    return read


def _bytes_of(kind: Element, shape: Shape) -> int:
    count = element_count(shape)
    if kind.is_narrow:
        bits = 2 if kind.name.endswith("2") else 4
        return (count * bits + 7) // 8
    return count * (kind.carrier.itemsize if kind.carrier else 1)


def _place(location: str, key: str, folder: Path | None) -> Path:
    """Return where external data lies; raise ModelImportError if not beneath the model's folder."""
    parts = PurePosixPath(location).parts
    within = location and not PurePosixPath(location).is_absolute() and ".." not in parts
    if folder is None or not within or "\\" in location or ":" in location or "\0" in location:
        got = "a model of bytes" if folder is None else repr(location)
        raise ModelImportError(
            f"external data requires a file beneath the model's folder, got {got} for {key!r}"
        )
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise ModelImportError(
                f"external data requires a file that no link leads to, got {location!r} for {key!r}"
            )
    return path


def _number(entries: dict[str, str], name: str, default: int, key: str) -> int:
    text = entries.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelImportError(f"external data requires a number as {name}, got {text!r}: {key!r}")
    return int(text)


def _require_piece(path: Path, offset: int, length: int, key: str) -> None:
    try:
        size = os.stat(path, follow_symlinks=False).st_size
    except OSError as error:
        raise ModelImportError(
            f"external data requires the file {path.name!r}, got: {error.strerror}; {key!r}"
        ) from None
    if offset + length > size:
        raise ModelImportError(
            f"external data requires {offset + length} bytes in {path.name!r}, got {size}: {key!r}"
        )


def _mapped(path: Path, offset: int, length: int, key: str) -> Array:
    """Return a piece of a file, mapped into memory."""
    if length == 0:
        return np.empty(0, np.uint8)
    try:
        with os.fdopen(regular(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return np.memmap(file, np.uint8, "r", offset, (length,))
    except (OSError, ValueError) as error:
        raise ModelImportError(f"external data requires a file that can be read: {error}") from None
