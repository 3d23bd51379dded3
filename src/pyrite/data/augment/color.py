"""Changes of colour, and parts that are erased: where pixels are stays as it is.

Pixels are floats in [0, 1]; each change clips to them.  Grey is 0.299 red + 0.587 green + 0.114
blue (ITU-R BT.601), as in Pillow and torchvision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.data.augment.augmentation import (
    NO_CHANGE,
    Augmentation,
    Change,
    Pixels,
    require_probability,
)
from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, DTypeError, ShapeError

GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class ColorJitter(Augmentation):
    """Brightness, contrast, saturation and hue changed by amounts, in an order, that are drawn.

    The first three are factors from (max(0, 1 - amount), 1 + amount): times black, the image's mean
    grey, and each pixel's grey.  hue turns the hue by up to that share of a circle to either side.

    Raises ArgumentError unless the amounts are at least 0 and hue is at most 0.5; DTypeError unless
    pixels are floats; ShapeError for saturation or hue of what has not three channels.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        amounts = (self.brightness, self.contrast, self.saturation, self.hue)
        if not all(0 <= amount < math.inf for amount in amounts) or self.hue > 0.5:
            raise ArgumentError(f"ColorJitter requires amounts >= 0 and hue <= 0.5, got {self}")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the changes by amounts that are drawn, in an order that is."""
        if self.saturation or self.hue:
            _require_colours(shape, "ColorJitter")
        changes: list[Callable[[Pixels], Pixels]] = []
        for blend, amount in (
            (brightened, self.brightness),
            (contrasted, self.contrast),
            (saturated, self.saturation),
        ):
            if amount:
                factor = draws.uniform(max(0.0, 1 - amount), 1 + amount)
                changes.append(partial(blend, amount=factor))
        if self.hue:
            changes.append(partial(hue_turned, amount=draws.uniform(-self.hue, self.hue)))
        ordered = [changes[i] for i in draws.permutation(len(changes))] if changes else []

        def apply(pixels: Pixels) -> Pixels:
            pixels = _floats(pixels, "ColorJitter")
            for change in ordered:
                pixels = change(pixels)
            return pixels

        return Change(apply)


@dataclass(frozen=True)
class RandomGrayscale(Augmentation):
    """Grey in all three channels, with probability p."""

    p: float = 0.1

    def __post_init__(self) -> None:
        require_probability("RandomGrayscale", self.p)

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the change to grey, or nothing."""
        _require_colours(shape, "RandomGrayscale")
        if not draws.chance(self.p):
            return NO_CHANGE
        return Change(lambda pixels: saturated(_floats(pixels, "RandomGrayscale"), 0.0))


@dataclass(frozen=True)
class Normalize(Augmentation):
    """Each channel less its mean, over its standard deviation; nothing is drawn.

    Raises ArgumentError unless there is one std > 0 for each mean; ShapeError for another number of
    channels; DTypeError unless pixels are floats.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(std > 0 for std in self.std):
            raise ArgumentError(f"Normalize requires one std > 0 for each mean, got {self}")

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the change."""
        if len(self.mean) not in (1, shape[0]):
            raise ShapeError(f"Normalize requires {len(self.mean)} channels, got {shape}")

        def normalized(pixels: Pixels) -> Pixels:
            pixels = _floats(pixels, "Normalize")
            mean, std = (np.asarray(v, pixels.dtype)[:, None, None] for v in (self.mean, self.std))
            return (pixels - mean) / std

        return Change(normalized)


@dataclass(frozen=True)
class RandomErasing(Augmentation):
    """A rectangle of random area and shape set to value, with probability p; "random" is noise.

    The area is a share of the image in `scale`, its height over its width in `ratio`; where ten
    draws do not fit, nothing is erased.  Masks and boxes stay.

    Raises ArgumentError unless 0 <= p <= 1, 0 < scale low <= high <= 1 and 0 < ratio low <= high.
    Source: Z. Zhong et al., "Random erasing data augmentation", 2017.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | Literal["random"] = 0.0

    def __post_init__(self) -> None:
        require_probability("RandomErasing", self.p)
        if not (0 < self.scale[0] <= self.scale[1] <= 1 and 0 < self.ratio[0] <= self.ratio[1]):
            raise ArgumentError(
                "RandomErasing requires 0 < scale low <= high <= 1 and 0 < ratio low <= high, "
                f"got scale={self.scale}, ratio={self.ratio}"
            )

    def change(self, shape: tuple[int, ...], draws: Draws) -> Change:
        """Return the erasing of a rectangle that is drawn, or nothing."""
        part = self._part(shape, draws) if draws.chance(self.p) else None
        if part is None:
            return NO_CHANGE
        top, left, height, width = part
        noise = draws.normal(shape[0], height, width) if self.value == "random" else None

        def erased(pixels: Pixels) -> Pixels:
            result = pixels.copy()
            inside = self.value if noise is None else _floats(noise, "RandomErasing")
            result[:, top : top + height, left : left + width] = inside
            return result

        return Change(erased)

    def _part(self, shape: tuple[int, ...], draws: Draws) -> tuple[int, int, int, int] | None:
        for _ in range(10):
            area = shape[1] * shape[2] * draws.uniform(*self.scale)
            ratio = math.exp(draws.uniform(*map(math.log, self.ratio)))
            height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < height < shape[1] and 0 < width < shape[2]:
                top = draws.integer(shape[1] - height + 1)
                return top, draws.integer(shape[2] - width + 1), height, width
        return None


def brightened(pixels: Pixels, amount: float) -> Pixels:
    """Return amount times the pixels, clipped."""
    return _clipped(pixels * pixels.dtype.type(amount))


def contrasted(pixels: Pixels, amount: float) -> Pixels:
    """Return the pixels, away from the mean of their grey by amount, clipped."""
    mean = grey(pixels).mean(dtype=np.float64).astype(pixels.dtype)
    return _clipped(mean + (pixels - mean) * pixels.dtype.type(amount))


def saturated(pixels: Pixels, amount: float) -> Pixels:
    """Return the pixels, away from their own grey by amount, clipped."""
    middle = grey(pixels)
    return _clipped(middle + (pixels - middle) * pixels.dtype.type(amount))


def hue_turned(pixels: Pixels, amount: float) -> Pixels:
    """Return the pixels with their hue turned by a share of a circle; value and chroma stay.

    Source: A. R. Smith, "Color gamut transform pairs", 1978 (HSV), in the form that has no cases:
    f(n) = v - c max(0, min(k, 4 - k, 1)), k = (n + 6 h) mod 6, for n = 5, 3, 1.
    """
    value = pixels.max(axis=0)
    chroma = value - pixels.min(axis=0)
    sixths = (_hue(pixels, value, chroma) + 6 * amount) % 6
    channels = []
    for n in (5, 3, 1):
        k = (n + sixths) % 6
        channels.append(value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1))
    return np.stack(channels).astype(pixels.dtype, copy=False)


def grey(pixels: Pixels) -> Pixels:
    """Return the grey of the pixels: (3, H, W) or (1, H, W) -> (1, H, W)."""
    if pixels.shape[0] == 1:
        return pixels
    weights = np.array(GREY, pixels.dtype)
    return np.tensordot(weights, pixels, axes=1)[None]


def _hue(pixels: Pixels, value: NDArray[Any], chroma: NDArray[Any]) -> NDArray[Any]:
    """Return the hue in sixths of a circle, 0 for grey: (H, W)."""
    red, green, blue = pixels
    safe = np.where(chroma == 0, 1, chroma)
    return np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )


def _clipped(pixels: Pixels) -> Pixels:
    return np.clip(pixels, 0, 1)


def _floats(pixels: Pixels, name: str) -> Pixels:
    if pixels.dtype.kind != "f":
        raise DTypeError(
            f"{name} requires pixels as floats in [0, 1], got {pixels.dtype}; divide them by 255"
        )
    return pixels


def _require_colours(shape: tuple[int, ...], name: str) -> None:
    if shape[0] != 3:
        raise ShapeError(f"{name} requires three channels, got pixels of shape {shape}")
