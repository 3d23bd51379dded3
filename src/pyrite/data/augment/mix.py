"""Mixup and CutMix: batches whose images are mixed with others of the batch, and so their labels.

They take a collated batch of pixels (N, C, H, W) and labels (N,), and give labels as shares of each
class (N, classes), which `cross_entropy` takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.data.collate import item_fields
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError


@dataclass(frozen=True)
class Mixup:
    """Images and labels times a share, plus another image of the batch times the rest.

    One share is drawn for the batch, from Beta(alpha, alpha).  A batch is a tuple, NamedTuple,
    dataclass or dict whose first two fields are pixels (N, ...), floats, and labels (N,), integers.

    Raises ArgumentError unless alpha > 0 and classes >= 1; ShapeError, DTypeError or
    IndexRangeError for pixels and labels that are not so.
    Source: H. Zhang et al., "mixup: beyond empirical risk minimization", 2017.
    """

    alpha: float
    classes: int

    def __post_init__(self) -> None:
        _check(self.alpha, self.classes, "Mixup")

    def __call__(self, batch: Any, draws: Draws, /) -> Any:
        """Return the mixed batch."""
        pixels, shares, rebuild = _parts(batch, self.classes, "Mixup")
        other, share = draws.permutation(len(pixels)), draws.beta(self.alpha)
        return rebuild(_blend(pixels, pixels[other], share), _blend(shares, shares[other], share))


@dataclass(frozen=True)
class CutMix:
    """Images with a rectangle of another image of the batch, and labels by the areas.

    The rectangle has a share 1 - s of the area, s from Beta(alpha, alpha), and a random middle;
    what is outside the image is cut off, and labels follow the area that is left.

    Raises as Mixup; ShapeError unless pixels are (N, C, H, W).
    Source: S. Yun et al., "CutMix: regularization strategy to train strong classifiers", 2019.
    """

    alpha: float
    classes: int

    def __post_init__(self) -> None:
        _check(self.alpha, self.classes, "CutMix")

    def __call__(self, batch: Any, draws: Draws, /) -> Any:
        """Return the mixed batch."""
        pixels, shares, rebuild = _parts(batch, self.classes, "CutMix")
        if pixels.ndim != 4:
            raise ShapeError(f"CutMix requires pixels (N, C, H, W), got shape {pixels.shape}")
        other, side = draws.permutation(len(pixels)), math.sqrt(1 - draws.beta(self.alpha))
        height, width = pixels.shape[2:]
        rows, columns = _span(height, side, draws), _span(width, side, draws)
        mixed = pixels.copy()
        mixed[:, :, rows, columns] = pixels[other][:, :, rows, columns]
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        share = 1 - area / (height * width)
        return rebuild(mixed, _blend(shares, shares[other], share))


def _span(length: int, side: float, draws: Draws) -> slice:
    half, middle = round(length * side) / 2, draws.integer(length)
    return slice(max(0, math.floor(middle - half)), min(length, math.floor(middle + half)))


def _blend(first: NDArray[Any], second: NDArray[Any], share: float) -> NDArray[Any]:
    kind = first.dtype.type
    return first * kind(share) + second * kind(1 - share)


def _parts(batch: Any, classes: int, name: str) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return pixels, labels as shares of classes, and how to put both back into the batch."""
    names, values, rebuild = item_fields(batch)
    if len(names) < 2:
        raise DTypeError(f"{name} requires a batch of pixels and labels, got fields {names}")
    pixels, labels = (np.asarray(values[field]) for field in names[:2])
    if pixels.dtype.kind != "f" or labels.dtype.kind not in "iu":
        raise DTypeError(
            f"{name} requires pixels as floats and labels as integers, "
            f"got {pixels.dtype} and {labels.dtype}"
        )
    if labels.shape != pixels.shape[:1]:
        raise ShapeError(
            f"{name} requires one label for each image, got {pixels.shape} and {labels.shape}"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise IndexRangeError(
            f"{name} requires labels from 0 to {classes - 1}, "
            f"got {labels.min()} to {labels.max()}; pass classes="
        )
    shares = np.zeros((len(labels), classes), np.float32)
    shares[np.arange(len(labels)), labels] = 1
    rest = [values[field] for field in names[2:]]
    return pixels, shares, lambda mixed, mixed_shares: rebuild([mixed, mixed_shares, *rest])


def _check(alpha: float, classes: int, name: str) -> None:
    if not 0 < alpha < math.inf or classes < 1:
        raise ArgumentError(
            f"{name} requires 0 < alpha < inf and classes >= 1, got {alpha} and {classes}"
        )
