"""Mixup and CutMix: batches whose images are mixed with others of the batch, and so their labels.

They take a collated batch of pixels (N, C, H, W) and labels (N,), and give labels as shares of each
class (N, classes), which `cross_entropy` takes.  Tensors are mixed on their device, where gradients
go through; only labels are read, to see that they are classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyrite.data.collate import item_fields
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.tensor.tensor import Tensor
from pyrite.types import float32

Batch = TypeVar("Batch", NDArray[Any], Tensor)
"""Pixels, or shares of classes, of a batch."""


@dataclass(frozen=True)
class Mixup:
    """Images and labels times a share, plus another image of the batch times the rest.

    One share is drawn for the batch, from Beta(alpha, alpha).  A batch is a tuple, NamedTuple,
    dataclass or dict whose first two fields are pixels (N, ...), floats, and labels (N,), integers;
    each an array or a tensor, which it stays.

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
        other, share = draws.permutation(pixels.shape[0]), draws.beta(self.alpha)
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
        other, side = draws.permutation(pixels.shape[0]), math.sqrt(1 - draws.beta(self.alpha))
        height, width = pixels.shape[2:]
        rows, columns = _span(height, side, draws), _span(width, side, draws)
        mixed = _with_part(pixels, pixels[other], (..., rows, columns))
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        share = 1 - area / (height * width)
        return rebuild(mixed, _blend(shares, shares[other], share))


def _span(length: int, side: float, draws: Draws) -> slice:
    half, middle = round(length * side) / 2, draws.integer(length)
    return slice(max(0, math.floor(middle - half)), min(length, math.floor(middle + half)))


def _blend(first: Batch, second: Batch, share: float) -> Batch:
    if isinstance(first, Tensor):
        return first * share + second * (1 - share)
    kind = first.dtype.type
    return first * kind(share) + second * kind(1 - share)


def _with_part(first: Batch, second: Batch, part: tuple[Any, ...]) -> Batch:
    if isinstance(first, Tensor):
        return first.at[part].set(second[part])
    mixed = first.copy()
    mixed[part] = second[part]
    return mixed


def _parts(batch: Any, classes: int, name: str) -> tuple[Any, Any, Any]:
    """Return pixels, labels as shares of classes, and how to put both back into the batch."""
    names, values, rebuild = item_fields(batch)
    if len(names) < 2:
        raise DTypeError(f"{name} requires a batch of pixels and labels, got fields {names}")
    pixels, labels = (_array_or_tensor(values[field]) for field in names[:2])
    numbers = labels.numpy() if isinstance(labels, Tensor) else labels
    if not _holds_floats(pixels) or numbers.dtype.kind not in "iu":
        raise DTypeError(
            f"{name} requires pixels as floats and labels as integers, "
            f"got {pixels.dtype} and {labels.dtype}"
        )
    if labels.shape != pixels.shape[:1]:
        raise ShapeError(
            f"{name} requires one label for each image, got {pixels.shape} and {labels.shape}"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < classes:
        raise IndexRangeError(
            f"{name} requires labels from 0 to {classes - 1}, "
            f"got {numbers.min()} to {numbers.max()}; pass classes="
        )
    rest = [values[field] for field in names[2:]]
    return (
        pixels,
        _shares(labels, classes),
        lambda mixed, mixed_shares: rebuild([mixed, mixed_shares, *rest]),
    )


def _array_or_tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else np.asarray(value)


def _holds_floats(values: NDArray[Any] | Tensor) -> bool:
    return values.dtype.kind == ("float" if isinstance(values, Tensor) else "f")


def _shares(labels: NDArray[Any] | Tensor, classes: int) -> NDArray[np.float32] | Tensor:
    """Return labels as shares of each class, one of which has all: (N,) -> float32 (N, classes)."""
    if isinstance(labels, Tensor):
        return labels.one_hot(classes).astype(float32)
    shares = np.zeros((len(labels), classes), np.float32)
    shares[np.arange(len(labels)), labels] = 1
    return shares


def _check(alpha: float, classes: int, name: str) -> None:
    if not 0 < alpha < math.inf or classes < 1:
        raise ArgumentError(
            f"{name} requires 0 < alpha < inf and classes >= 1, got {alpha} and {classes}"
        )
