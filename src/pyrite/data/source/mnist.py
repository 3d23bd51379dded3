"""The IDX format of MNIST and its descendants (Fashion-MNIST, KMNIST, EMNIST), plain or gzip.

    00 00 | dtype code | number of axes | one big-endian uint32 per axis | values, big-endian

Source: Y. LeCun, C. Cortes & C. Burges, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.data.dataset import Dataset
from pyrite.data.source.image import Image, ImageArrayDataset
from pyrite.data.source.payload import Payload
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import reader

IDX_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The third byte of the file and the dtype that it means."""

MAX_AXES = 32
"""As many as every supported NumPy can hold."""

_PREFIXES = {"train": "train", "test": "t10k"}


@reader("mnist", DataError)
def mnist(folder: str | PathLike[str], split: Literal["train", "test"] = "train") -> Dataset[Image]:
    """Return the MNIST images in folder: pixels float32 (1, H, W), label as in the file.

    Reads {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, with or without .gz; a dot before
    idx is accepted too.

    Raises DataError if a file is missing, damaged or foreign; ArgumentError for another split.
    """
    if split not in _PREFIXES:
        raise ArgumentError(f"mnist requires split 'train' or 'test', got {split!r}")
    prefix = _PREFIXES[split]
    images_path = _find(Path(folder), f"{prefix}-images", "idx3-ubyte")
    labels_path = _find(Path(folder), f"{prefix}-labels", "idx1-ubyte")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.dtype != np.uint8 or images.ndim != 3:
        raise _foreign("images of uint8 (N, H, W)", images, images_path)
    if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise _foreign(f"labels of uint8 ({len(images)},)", labels, labels_path)
    return ImageArrayDataset(images[:, None], labels)


@reader("idx", DataError)
def read_idx(path: str | PathLike[str]) -> NDArray[Any]:
    """Return the array of an IDX file, in native byte order; gzip is recognised by its first bytes.

    Raises DataError if the file is missing, truncated, longer than its header says, or not IDX.
    """
    with Payload(Path(path), "idx") as payload:
        zero0, zero1, code, ndim = payload.read(4, "magic number")
        if zero0 or zero1 or code not in IDX_DTYPES:
            raise DataError(
                f"idx requires a magic number 00 00 {{08, 09, 0b, 0c, 0d, 0e}} ndim, "
                f"got {zero0:02x} {zero1:02x} {code:02x} {ndim:02x}: {path}"
            )
        if ndim > MAX_AXES:
            raise DataError(f"idx requires at most {MAX_AXES} axes, got {ndim}: {path}")
        sizes = np.frombuffer(payload.read(4 * ndim, "axis lengths"), ">u4")
        shape = tuple(int(size) for size in sizes)
        dtype = np.dtype(IDX_DTYPES[code])
        data = payload.read(math.prod(shape) * dtype.itemsize, f"values of shape {shape}")
        payload.end()
    values = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False)
    try:
        return values.reshape(shape)
    except ValueError as error:
        # No values, but axes that NumPy cannot address: (0, 2**32 - 1, 2**32 - 1, 2**32 - 1).
        raise DataError(f"idx requires axes of an array, got shape {shape}: {path}") from error


def _find(folder: Path, stem: str, kind: str) -> Path:
    names = [f"{stem}{mark}{kind}{suffix}" for mark in "-." for suffix in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"mnist requires one of {names}, got none of them in {folder}")


def _foreign(required: str, array: NDArray[Any], path: Path) -> DataError:
    return DataError(f"mnist requires {required}, got {array.dtype} {array.shape} in {path}")
