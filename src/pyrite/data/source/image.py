"""Images: what the image sources give; and datasets of images held as one array of bytes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.data.dataset import Dataset, checked_index
from pyrite.errors import DataError


class Image(NamedTuple):
    """pixels: float32 (C, H, W) in [0, 1]; label: the number of its class, from 0."""

    pixels: NDArray[np.float32]
    label: int


class SegmentedImage(NamedTuple):
    """pixels: float32 (C, H, W) in [0, 1]; mask: uint8 (H, W), the class of each, 255 for none."""

    pixels: NDArray[np.float32]
    mask: NDArray[np.uint8]


class MultiLabelImage(NamedTuple):
    """pixels: float32 (C, H, W) in [0, 1]; labels: float32 (classes,), 1 for each that it has."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.float32]


class BoxedImage(NamedTuple):
    """pixels: float32 (C, H, W) in [0, 1]; boxes: float32 (n, 4); labels: int32 (n,), from 0.

    A box is left, top, right, bottom, in pixels from the upper left corner.
    """

    pixels: NDArray[np.float32]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int32]


class ImageArrayDataset(Dataset[Image]):
    """Images held as uint8 (N, C, H, W) and labels as integers (N,); converted when read.

    white is the byte that means 1.0: 255, but 16 in the digits.

    Raises DataError unless there is one label per image.
    """

    def __init__(
        self, pixels: NDArray[np.uint8], labels: NDArray[np.integer], *, white: int = 255
    ) -> None:
        if pixels.ndim != 4 or labels.shape != pixels.shape[:1]:
            raise DataError(
                "images require pixels (N, C, H, W) and labels (N,), "
                f"got {pixels.shape} and {labels.shape}"
            )
        self._pixels = pixels
        self._labels = labels
        self._white = np.float32(white)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int, /) -> Image:
        index = checked_index(index, len(self))
        pixels = self._pixels[index].astype(np.float32) / self._white
        return Image(pixels, int(self._labels[index]))
