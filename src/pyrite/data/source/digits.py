"""The UCI optical digits: 1,797 handwritten digits of 8 x 8 pixels, shipped with Pyrite.

Alpaydin & Kaynak 1998, CC BY 4.0; the file is the test part of the original data set, as
scikit-learn distributes it.  See ATTRIBUTION.md beside it.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.data.dataset import Dataset
from pyrite.data.order import Indices, shuffled_order
from pyrite.data.source.image import Image, ImageArrayDataset
from pyrite.errors import ArgumentError

TEST_PER_CLASS = 36
"""36 of each class, 360 in all, are held out: a fifth of the 1,797."""

Split = Literal["train", "test", "all"]


def digits(split: Split = "train", *, seed: int = 0) -> Dataset[Image]:
    """Return the real UCI optical digits: pixels float32 (1, 8, 8), label 0 to 9.

    "train" has 1,437 images and "test" 360, 36 of each class, chosen by seed; "all" is both in the
    file's order.

    Raises ArgumentError if split is another word.
    Source: E. Alpaydin & C. Kaynak, UCI Machine Learning Repository, doi:10.24432/C50P49.

    >>> len(digits("train")), len(digits("test")), digits("all")[0].label
    (1437, 360, 0)
    """
    if split not in ("train", "test", "all"):
        raise ArgumentError(f"digits requires split 'train', 'test' or 'all', got {split!r}")
    table = _table()
    labels = table[:, 64]
    images = ImageArrayDataset(table[:, :64].reshape(-1, 1, 8, 8), labels, white=16)
    if split == "all":
        return images
    test = _test_positions(labels, seed)
    if split == "test":
        return images.select(test)
    return images.select(np.setdiff1d(np.arange(len(images)), test))


def _table() -> NDArray[np.uint8]:
    """uint8 (1797, 65): 64 pixels from 0 to 16, then the label."""
    packed = (files("pyrite.data.source") / "digits.csv.gz").read_bytes()
    text = gzip.decompress(packed).decode("ascii")
    return np.array([line.split(",") for line in text.split()], dtype=np.uint8)


def _test_positions(labels: NDArray[np.uint8], seed: int) -> Indices:
    """TEST_PER_CLASS positions of each class, ascending: the first of them in the order of seed."""
    order = shuffled_order(len(labels), seed)
    chosen = [order[labels[order] == digit][:TEST_PER_CLASS] for digit in range(10)]
    return np.sort(np.concatenate(chosen))
