"""Metrics of images against the right ones: PSNR, SSIM and MS-SSIM.

All compute in float32 on the device whatever the images' dtype is, and keep one or two numbers per
image.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.output import Output


class PSNR(Metric):
    """The peak signal-to-noise ratio in decibels: 10 log10(data_range² / mean squared error).

    Predictions and targets are images of one shape (N, ...).
    data_range: the difference of the largest and smallest value that an image may hold: 1, 255.
    per_image: the mean of the images' ratios, instead of the ratio of the mean error of all; both
    are in use.  Infinite where all is equal.
    """

    unit = "dB"
    better = "higher"

    def __init__(
        self, data_range: float = 1.0, *, per_image: bool = False, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.data_range = _positive(type(self).__name__, data_range)
        self.per_image = per_image

    def measure(self, output: Output) -> Measured:
        """Return the mean squared error of each image, and how many values an image has."""
        predictions, targets = _images(self.name, output, least_ndim=1)
        items = predictions.shape[0]
        error = (predictions - targets).reshape(items, -1)
        return (error * error).mean(axis=1), math.prod(predictions.shape[1:])

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sum of errors or ratios, and of what they are means of."""
        errors, size = measured[0].astype(np.float64), int(measured[1])
        parts = (
            (self._ratio(errors).sum(), errors.size)
            if self.per_image
            else (errors.sum() * size, errors.size * size)
        )
        return {
            "total": np.asarray(state.get("total", 0.0) + parts[0]),
            "count": np.asarray(state.get("count", 0) + parts[1]),
        }

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the ratio in decibels."""
        if not state["count"]:
            return float("nan")
        mean = np.asarray(state["total"] / state["count"])
        return float(mean if self.per_image else self._ratio(mean))

    def _ratio(self, error: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # of equal images it is infinite
            return np.asarray(20 * math.log10(self.data_range) - 10 * np.log10(error))


class _MeanOfImages(Metric):
    """The mean over images of a number between 0 and 1, or between -1 and 1."""

    better = "higher"

    def measure(self, output: Output) -> Measured:
        """Return the similarity of each image."""
        return (self.similarity(*_images(self.name, output, least_ndim=4)),)

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sum of the similarities, and of images."""
        return {
            "total": np.asarray(state.get("total", 0.0) + measured[0].astype(np.float64).sum()),
            "count": np.asarray(state.get("count", 0) + measured[0].size),
        }

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the mean."""
        return float(state["total"] / state["count"]) if state["count"] else float("nan")

    @abstractmethod
    def similarity(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Return the similarity of each image: (N, C, H, W) -> (N,)."""


class SSIM(_MeanOfImages):
    """The structural similarity of images (N, C, H, W), the mean over windows and channels.

    Windows lie within the image, as in the paper; torchmetrics also counts some that lie across its
    border, whose pixels it mirrors.
    gaussian_kernel: whether a window is a bell of standard deviation `sigma`, int(3.5 sigma + 0.5)
    pixels to each side; otherwise it is a square of `kernel_size`.

    Source: Wang, Bovik, Sheikh & Simoncelli 2004, IEEE Trans. Image Processing 13(4).
    """

    def __init__(
        self,
        data_range: float = 1.0,
        *,
        gaussian_kernel: bool = True,
        sigma: float = 1.5,
        kernel_size: int = 11,
        k1: float = 0.01,
        k2: float = 0.03,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.data_range = _positive(type(self).__name__, data_range)
        self.window = _bell(sigma) if gaussian_kernel else _square(kernel_size)
        self.constants = (k1 * data_range) ** 2, (k2 * data_range) ** 2

    def similarity(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Return the similarity of each image."""
        return self._parts(predictions, targets)[0]

    def _parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The similarity of each image (N,), and its part of contrast and structure."""
        c1, c2 = self.constants
        _require_size(self.name, x.shape, len(self.window))
        # Variances do not change with what is taken off all pixels, and lose fewer digits by it.
        centre = y.mean(axis=(2, 3), keepdims=True)
        mean_x, mean_y = self._means(x - centre), self._means(y - centre)
        variance_x = (self._means((x - centre) * (x - centre)) - mean_x * mean_x).clip(min=0)
        variance_y = (self._means((y - centre) * (y - centre)) - mean_y * mean_y).clip(min=0)
        covariance = self._means((x - centre) * (y - centre)) - mean_x * mean_y
        structure = (2 * covariance + c2) / (variance_x + variance_y + c2)
        bright_x, bright_y = mean_x + centre, mean_y + centre
        luminance = (2 * bright_x * bright_y + c1) / (
            bright_x * bright_x + bright_y * bright_y + c1
        )
        return (luminance * structure).mean(axis=(1, 2, 3)), structure.mean(axis=(1, 2, 3))

    def _means(self, x: Tensor) -> Tensor:
        """The weighted mean of each window: one pass down, one across."""
        items, channels, height, width = x.shape
        size = len(self.window)
        window = tensor(self.window.astype(np.float32), device=x.device)
        x = x.reshape(items * channels, 1, height, width)
        x = x.conv2d(window.reshape(1, 1, size, 1)).conv2d(window.reshape(1, 1, 1, size))
        return x.reshape(items, channels, *x.shape[2:])


class MultiScaleSSIM(SSIM):
    """The multi-scale structural similarity (MS-SSIM) of images (N, C, H, W).

    The product over scales of contrast and structure, each to the power of its beta, and at the
    coarsest of the whole similarity; each scale halves the one before by means of 2 × 2 pixels.
    normalize: what becomes of negative parts, whose powers are no numbers: "relu" makes them 0,
    "simple" maps -1 to 1 onto 0 to 1.

    Source: Wang, Simoncelli & Bovik 2003, Asilomar.
    """

    default_name = "MS-SSIM"

    def __init__(
        self,
        data_range: float = 1.0,
        *,
        gaussian_kernel: bool = True,
        sigma: float = 1.5,
        kernel_size: int = 11,
        k1: float = 0.01,
        k2: float = 0.03,
        betas: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
        normalize: Literal["relu", "simple"] = "relu",
        name: str | None = None,
    ) -> None:
        super().__init__(
            data_range,
            gaussian_kernel=gaussian_kernel,
            sigma=sigma,
            kernel_size=kernel_size,
            k1=k1,
            k2=k2,
            name=name,
        )
        if normalize not in ("relu", "simple") or not betas:
            raise ArgumentError(
                "MultiScaleSSIM requires a beta per scale and normalize 'relu' or 'simple', got "
                f"betas={tuple(betas)} and normalize={normalize!r}"
            )
        self.betas = tuple(betas)
        self.normalize = normalize

    def similarity(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Return the similarity of each image."""
        least = len(self.window) << (len(self.betas) - 1)
        _require_size(self.name, predictions.shape, least)
        product: Tensor | None = None
        for scale, beta in enumerate(self.betas, start=1):
            whole, structure = self._parts(predictions, targets)
            part = whole if scale == len(self.betas) else structure
            powered = self._not_negative(part) ** beta
            product = powered if product is None else product * powered
            if scale < len(self.betas):
                predictions, targets = predictions.avg_pool2d(2), targets.avg_pool2d(2)
        assert product is not None
        return product

    def _not_negative(self, part: Tensor) -> Tensor:
        return part.clip(min=0) if self.normalize == "relu" else (part + 1) / 2


def _bell(sigma: float) -> NDArray[np.float64]:
    if not sigma > 0:
        raise ArgumentError(f"SSIM requires sigma > 0, got {sigma}")
    reach = int(3.5 * sigma + 0.5)
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return np.asarray(weights / weights.sum())


def _square(kernel_size: int) -> NDArray[np.float64]:
    if kernel_size < 1:
        raise ArgumentError(f"SSIM requires kernel_size >= 1, got {kernel_size}")
    return np.full(kernel_size, 1 / kernel_size)


def _positive(metric: str, data_range: float) -> float:
    if not data_range > 0:
        raise ArgumentError(f"{metric} requires data_range > 0, got {data_range}")
    return float(data_range)


def _require_size(metric: str, shape: tuple[int, ...], least: int) -> None:
    if min(shape[2:]) < least:
        raise ShapeError(
            f"{metric} requires images of at least {least} x {least} pixels, got {shape}"
        )


def _images(metric: str, output: Output, *, least_ndim: int) -> tuple[Tensor, Tensor]:
    """Predictions and targets in float32."""
    predictions, targets = output.predictions, output.targets
    if not isinstance(predictions, Tensor) or not isinstance(targets, Tensor):
        raise ArgumentError(
            f"{metric} requires predictions and targets that are tensors, got "
            f"{type(predictions).__name__} and {type(targets).__name__}; give both to Output"
        )
    if predictions.shape != targets.shape or predictions.ndim < least_ndim:
        form = "(N, C, H, W)" if least_ndim == 4 else "(N, ...)"
        raise ShapeError(
            f"{metric} requires predictions and targets of one shape {form}, got "
            f"{predictions.shape} and {targets.shape}"
        )
    return predictions.astype("float32"), targets.astype("float32")
