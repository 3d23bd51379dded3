"""The binary versions of CIFAR-10 and CIFAR-100.

A file is a row of records.  CIFAR-10: label, 3,072 pixels.  CIFAR-100: coarse label, fine label,
3,072 pixels.  Pixels are 32 x 32 bytes of red, then green, then blue, row by row.

Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.data.dataset import Dataset
from pyrite.data.source.image import Image, ImageArrayDataset
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file, reader

Split = Literal["train", "test"]

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

_CIFAR10_FILES = {
    "train": [f"data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["test_batch.bin"],
}
_CIFAR100_FILES = {"train": ["train.bin"], "test": ["test.bin"]}
_CIFAR100_LABELS = {"coarse": (0, 20), "fine": (1, 100)}


@dataclass(frozen=True)
class _RecordFormat:
    """A record: how many label bytes precede the pixels, which one counts, how many classes."""

    name: str
    label_bytes: int
    label_at: int
    classes: int

    @property
    def record(self) -> int:
        return self.label_bytes + PIXELS


@reader("cifar10", DataError)
def cifar10(folder: str | PathLike[str], split: Split = "train") -> Dataset[Image]:
    """Return the CIFAR-10 images in folder: pixels float32 (3, 32, 32), label 0 to 9.

    Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin.

    Raises DataError if a file is missing, damaged or foreign; ArgumentError for another split.
    """
    files = _files(_CIFAR10_FILES, split)
    return _read(
        Path(folder), files, _RecordFormat("cifar10", label_bytes=1, label_at=0, classes=10)
    )


@reader("cifar100", DataError)
def cifar100(
    folder: str | PathLike[str],
    split: Split = "train",
    *,
    label: Literal["fine", "coarse"] = "fine",
) -> Dataset[Image]:
    """The CIFAR-100 images in folder: pixels float32 (3, 32, 32), label 0 to 99, or 0 to 19 coarse.

    Reads train.bin or test.bin.

    Raises as cifar10, and ArgumentError if label is another word.
    """
    files = _files(_CIFAR100_FILES, split)
    if label not in _CIFAR100_LABELS:
        raise ArgumentError(f"cifar100 requires label 'fine' or 'coarse', got {label!r}")
    label_at, classes = _CIFAR100_LABELS[label]
    return _read(Path(folder), files, _RecordFormat("cifar100", 2, label_at, classes))


def _files(names: dict[str, list[str]], split: str) -> list[str]:
    if split not in names:
        raise ArgumentError(f"cifar requires split 'train' or 'test', got {split!r}")
    return names[split]


def _read(folder: Path, names: Sequence[str], form: _RecordFormat) -> Dataset[Image]:
    records = np.concatenate([_records(folder / name, form) for name in names])
    pixels = records[:, form.label_bytes :].reshape(-1, *SHAPE)
    return ImageArrayDataset(pixels, records[:, form.label_at])


def _records(path: Path, form: _RecordFormat) -> NDArray[np.uint8]:
    """Return the records of one file: uint8 (N, label bytes + 3072)."""
    try:
        with open_file(path) as file:
            data = file.read()
    except OSError as error:
        raise DataError(
            f"{form.name} requires a readable file, got {path}: {error.strerror}"
        ) from error
    if not data or len(data) % form.record:
        raise DataError(
            f"{form.name} requires one or more records of {form.record} bytes, "
            f"got {len(data)} bytes; the file is truncated or foreign: {path}"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, form.record)
    wrong = np.flatnonzero(records[:, form.label_at] >= form.classes)
    if wrong.size:
        label = records[wrong[0], form.label_at]
        raise DataError(
            f"{form.name} requires labels below {form.classes}, "
            f"got {label} in record {wrong[0]}: {path}"
        )
    return records
