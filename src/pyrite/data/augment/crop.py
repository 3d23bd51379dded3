"""Crops and flips: pixels move, and none changes its value; and crops that are resized."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.data.augment.augmentation import (
    IGNORED,
    NO_CHANGE,
    Augmentation,
    Change,
    require_probability,
)
from pyrite.data.augment.resize import nearest, resize
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, ShapeError

Border = Literal["constant", "edge", "reflect", "symmetric"]
"""What lies around an image: one value, its border, or itself without or with its border."""


@dataclass(frozen=True)
class RandomCrop(Augmentation):
    """A part of size (H, W), or a square, at a random place; padding widens the image before.

    padding is of each side; padding_mode says what is there: fill for "constant", of which a mask
    has IGNORED.

    Raises ArgumentError unless size >= 1, padding >= 0 and the mode is one of the four; ShapeError
    for an image that is smaller than size.
    """

    size: int | tuple[int, int]
    padding: int = 0
    fill: float = 0.0
    padding_mode: Border = "constant"

    def __post_init__(self) -> None:
        pair(self.size, "RandomCrop")
        if self.padding < 0:
            raise ArgumentError(f"RandomCrop requires padding >= 0, got {self.padding}")
        if self.padding_mode not in Border.__args__:  # type: ignore[attr-defined]
            raise ArgumentError(
                "RandomCrop requires padding_mode 'constant', 'edge', 'reflect' or 'symmetric', "
                f"got {self.padding_mode!r}"
            )

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the crop at a place that is drawn."""
        height, width = pair(self.size, "RandomCrop")
        free = shape[1] + 2 * self.padding - height, shape[2] + 2 * self.padding - width
        if min(free) < 0:
            raise ShapeError(
                f"RandomCrop requires an image of {height} x {width} or more with its padding of "
                f"{self.padding}, got {shape}; pass a larger padding, or resize it first"
            )
        top, left = draws.integer(free[0] + 1), draws.integer(free[1] + 1)

        def cut(array: NDArray[Any], fill: float) -> NDArray[Any]:
            padded = self._padded(array, fill)
            return padded[..., top : top + height, left : left + width]

        offset = (self.padding - left, self.padding - top)
        return Change(
            lambda pixels: cut(pixels, self.fill),
            lambda mask: cut(mask, IGNORED),
            lambda points: points + np.array(offset, points.dtype),
        )

    def _padded(self, array: NDArray[Any], fill: float) -> NDArray[Any]:
        if not self.padding:
            return array
        widths = [(0, 0)] * (array.ndim - 2) + [(self.padding, self.padding)] * 2
        if self.padding_mode == "constant":
            return np.pad(array, widths, constant_values=fill)
        return np.pad(array, widths, mode=self.padding_mode)


@dataclass(frozen=True)
class CenterCrop(Augmentation):
    """The middle part of size (H, W), or a square; nothing is drawn.

    Where an odd number of rows is cut off, one more goes at the top.

    Raises ArgumentError unless size >= 1; ShapeError for an image that is smaller.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        pair(self.size, "CenterCrop")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the crop."""
        height, width = pair(self.size, "CenterCrop")
        if shape[1] < height or shape[2] < width:
            raise ShapeError(f"CenterCrop requires {height} x {width} or more, got {shape}")
        top, left = (shape[1] - height + 1) // 2, (shape[2] - width + 1) // 2

        def cut(array: NDArray[Any]) -> NDArray[Any]:
            return array[..., top : top + height, left : left + width]

        return Change(cut, cut, lambda points: points - np.array((left, top), points.dtype))


@dataclass(frozen=True)
class RandomHorizontalFlip(Augmentation):
    """Left and right exchanged, with probability p."""

    p: float = 0.5

    def __post_init__(self) -> None:
        require_probability("RandomHorizontalFlip", self.p)

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the flip, or nothing."""
        if not draws.chance(self.p):
            return NO_CHANGE
        width = shape[2]
        return Change(
            _reversed_columns,
            _reversed_columns,
            lambda points: np.stack([width - points[:, 0], points[:, 1]], axis=1),
        )


@dataclass(frozen=True)
class RandomVerticalFlip(Augmentation):
    """Top and bottom exchanged, with probability p."""

    p: float = 0.5

    def __post_init__(self) -> None:
        require_probability("RandomVerticalFlip", self.p)

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the flip, or nothing."""
        if not draws.chance(self.p):
            return NO_CHANGE
        height = shape[1]
        return Change(
            _reversed_rows,
            _reversed_rows,
            lambda points: np.stack([points[:, 0], height - points[:, 1]], axis=1),
        )


@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
    """A part of random area and shape, resized to size (H, W) or a square.

    The area is a share of the image in `scale`, the width over the height in `ratio`, whose
    logarithm is drawn; where ten draws do not fit, the largest middle part of a fitting ratio.

    Raises ArgumentError unless size >= 1, 0 < scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1].
    Source: C. Szegedy et al., "Going deeper with convolutions", 2014; torchvision's fallback.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        pair(self.size, "RandomResizedCrop")
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < low <= high:
                raise ArgumentError(
                    f"RandomResizedCrop requires 0 < {name}[0] <= {name}[1], got {(low, high)}"
                )

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the crop of a part that is drawn."""
        size = pair(self.size, "RandomResizedCrop")
        top, left, height, width = self._part(shape[1], shape[2], draws)

        def part(array: NDArray[Any]) -> NDArray[Any]:
            return array[..., top : top + height, left : left + width]

        def moved(points: NDArray[Any]) -> NDArray[Any]:
            factors = np.array((size[1] / width, size[0] / height), points.dtype)
            return (points - np.array((left, top), points.dtype)) * factors

        return Change(
            lambda pixels: resize(part(pixels), size), lambda mask: nearest(part(mask), size), moved
        )

    def _part(self, rows: int, columns: int, draws: Draws) -> tuple[int, int, int, int]:
        for _ in range(10):
            area = rows * columns * draws.uniform(*self.scale)
            ratio = math.exp(draws.uniform(*map(math.log, self.ratio)))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= columns and 0 < height <= rows:
                top, left = draws.integer(rows - height + 1), draws.integer(columns - width + 1)
                return top, left, height, width
        ratio = min(max(columns / rows, self.ratio[0]), self.ratio[1])
        height, width = min(rows, round(columns / ratio)), min(columns, round(rows * ratio))
        return (rows - height) // 2, (columns - width) // 2, max(height, 1), max(width, 1)


@dataclass(frozen=True)
class Resize(Augmentation):
    """The whole image at size (H, W) or a square; nothing is drawn.

    Raises ArgumentError unless size >= 1.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        pair(self.size, "Resize")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the resizing."""
        size = pair(self.size, "Resize")
        factors = size[1] / shape[2], size[0] / shape[1]
        return Change(
            lambda pixels: resize(pixels, size),
            lambda mask: nearest(mask, size),
            lambda points: points * np.array(factors, points.dtype),
        )


def pair(size: int | tuple[int, int], name: str) -> tuple[int, int]:
    """Return the size as (H, W).  Raises ArgumentError unless both are at least 1."""
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ArgumentError(f"{name} requires size >= 1, got {size}")
    return height, width


def _reversed_columns(array: NDArray[Any]) -> NDArray[Any]:
    return array[..., ::-1]


def _reversed_rows(array: NDArray[Any]) -> NDArray[Any]:
    return array[..., ::-1, :]
