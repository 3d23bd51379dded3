"""Rotations and other affine maps of an image, by bilinear interpolation.

An element of the result is looked up where it comes from: four neighbours, weighted; what lies
outside of the image is `fill`.  Centres of pixels are at half numbers, and the image turns about
its middle, so a quarter of a turn of a square takes centres to centres and is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.data.augment.augmentation import IGNORED, Augmentation, Change
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class RandomRotation(Augmentation):
    """The image turned about its middle by degrees drawn from (low, high), or from (-d, d).

    Positive degrees turn counterclockwise.  fill is what comes in from outside; a mask gets
    IGNORED.

    Raises ArgumentError unless low <= high and both are finite.
    """

    degrees: float | tuple[float, float]
    fill: float = 0.0

    def __post_init__(self) -> None:
        interval(self.degrees, "RandomRotation", "degrees")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the rotation by an angle that is drawn."""
        angle = draws.uniform(*interval(self.degrees, "RandomRotation", "degrees"))
        return affine(shape, rotation(angle), (0.0, 0.0), self.fill)


@dataclass(frozen=True)
class RandomAffine(Augmentation):
    """The image turned, scaled, sheared and moved by amounts that are drawn.

    degrees and shear (of columns, in degrees) are drawn from (low, high) or (-d, d), scale from
    (low, high), and the move from at most translate = (a, b) of the width and height to either
    side.  First it is sheared, then scaled, turned about its middle, and moved.

    Raises ArgumentError unless low <= high, 0 <= translate <= 1, 0 < scale, |shear| < 90.
    """

    degrees: float | tuple[float, float] = 0.0
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: float | tuple[float, float] = 0.0
    fill: float = 0.0

    def __post_init__(self) -> None:
        interval(self.degrees, "RandomAffine", "degrees")
        low, high = interval(self.shear, "RandomAffine", "shear")
        if not -90 < low <= high < 90:
            raise ArgumentError(f"RandomAffine requires -90 < shear < 90, got {self.shear}")
        if not all(0 <= share <= 1 for share in self.translate):
            raise ArgumentError(f"RandomAffine requires 0 <= translate <= 1, got {self.translate}")
        if not 0 < self.scale[0] <= self.scale[1] < math.inf:
            raise ArgumentError(f"RandomAffine requires 0 < scale low <= high, got {self.scale}")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the map by amounts that are drawn."""
        angle = draws.uniform(*interval(self.degrees, "RandomAffine", "degrees"))
        sheared = math.tan(math.radians(draws.uniform(*interval(self.shear, "", "shear"))))
        scale = draws.uniform(*self.scale)
        moves = (
            round(draws.uniform(-share, share) * size)
            for share, size in zip(self.translate, (shape[2], shape[1]), strict=True)
        )
        linear = rotation(angle) @ (scale * np.array([[1.0, sheared], [0.0, 1.0]]))
        x, y = moves
        return affine(shape, linear, (x, y), self.fill)


def affine(
    shape: tuple[int, ...], linear: Matrix, move: tuple[float, float], fill: float
) -> Change:
    """Return the map of x and y by linear (2, 2) about the middle of (C, H, W), then by move."""
    middle = np.array((shape[2], shape[1])) / 2
    offset = middle + np.array(move, np.float64)
    inverse = np.linalg.inv(linear)
    if np.abs(linear).max() == 1 and np.count_nonzero(linear) == 2:
        inverse = linear.T.copy()  # a quarter of a turn, exactly

    def sources() -> tuple[Matrix, Matrix]:
        rows, columns = np.mgrid[: shape[1], : shape[2]]
        centres = np.stack([columns, rows]).reshape(2, -1) + 0.5
        places = inverse @ (centres - offset[:, None]) + middle[:, None] - 0.5
        x, y = places.reshape(2, *shape[1:])
        return x, y

    return Change(
        lambda pixels: interpolate(pixels, *sources(), fill),
        lambda mask: _nearest(mask, *sources()),
        lambda points: ((points - middle) @ linear.T + offset).astype(points.dtype),
    )


def rotation(degrees: float) -> Matrix:
    """Return the matrix of a counterclockwise turn of (x, y) where y points down: (2, 2).

    It is exact for multiples of 90 degrees, where cos and sin of radians are not.
    """
    quarters, rest = divmod(degrees, 90.0)
    cos, sin = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters % 4)):
        cos, sin = -sin, cos
    return np.array([[cos, sin], [-sin, cos]])


def interpolate(pixels: NDArray[Any], x: Matrix, y: Matrix, fill: float) -> NDArray[Any]:
    """Return pixels (C, H, W) at columns x and rows y, both (H', W'): (C, H', W').

    Bilinear in float32 (float64 for float64); elements outside of the image are fill.
    """
    work = np.float64 if pixels.dtype == np.float64 else np.float32
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right_share: NDArray[Any] = (x - left).astype(work)
    bottom_share: NDArray[Any] = (y - top).astype(work)
    result: NDArray[Any] = np.zeros((*pixels.shape[:-2], *x.shape), work)
    for row, row_share in ((top, 1 - bottom_share), (top + 1, bottom_share)):
        for column, column_share in ((left, 1 - right_share), (left + 1, right_share)):
            result += row_share * column_share * _looked_up(pixels, row, column, fill)
    if pixels.dtype.kind != "f":
        result = np.clip(np.rint(result), 0, np.iinfo(pixels.dtype).max)
    return result.astype(pixels.dtype, copy=False)


def _nearest(mask: NDArray[Any], x: Matrix, y: Matrix) -> NDArray[Any]:
    return _looked_up(mask, np.rint(y).astype(np.int64), np.rint(x).astype(np.int64), IGNORED)


def _looked_up(
    array: NDArray[Any], row: NDArray[np.int64], column: NDArray[np.int64], fill: float
) -> NDArray[Any]:
    height, width = array.shape[-2:]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    found = array[..., row.clip(0, height - 1), column.clip(0, width - 1)]
    return np.where(inside, found, np.asarray(fill, array.dtype))


def interval(value: float | tuple[float, float], name: str, what: str) -> tuple[float, float]:
    """Return (low, high), or (-d, d) of a number d.

    Raises ArgumentError unless low <= high and both are finite.
    """
    low, high = value if isinstance(value, tuple) else (-value, value)
    if not -math.inf < low <= high < math.inf:
        raise ArgumentError(f"{name} requires {what} low <= high, or one number >= 0, got {value}")
    return low, high
