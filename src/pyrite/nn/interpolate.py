"""Resizing of signals, images and volumes, as modules."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.errors import ArgumentError
from pyrite.nn.spatial import Spatial
from pyrite.tensor.interpolation import Mode
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.window import Sizes
from pyrite.types import Number, Shape


class Interpolate(Spatial):
    """Resizing of the spatial axes to ``size``, or by ``scale_factor``."""

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Number | Sequence[Number] | None = None,
        mode: Mode = "nearest",
        align_corners: bool = False,
    ) -> None:
        if (size is None) == (scale_factor is None):
            raise ArgumentError(
                f"{type(self).__name__} requires either size or scale_factor, got {size} and "
                f"{scale_factor}"
            )
        self.size: Shape | None = None if size is None else self._per_axis("size", size)
        self.scale_factor = scale_factor
        self.mode: Mode = mode
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        """Return x, resized."""
        return self._checked(x).interpolate(
            self.size, scale_factor=self.scale_factor, mode=self.mode,
            align_corners=self.align_corners,
        )  # fmt: skip


class Interpolate1d(Interpolate):
    """Resize signals: (N, C, W) -> (N, C, W'), W' the size, or floor(W scale_factor).

    ``mode`` is "nearest", "nearest_exact", "linear", "cubic" or "lanczos3"; ``align_corners`` keeps
    the first and last elements in their places.
    """

    axes = "W"


class Interpolate2d(Interpolate):
    """Resize images: (N, C, H, W) -> (N, C, H', W'), the size, or floor(H scale_factor) and so on.

    ``mode`` is as of `Interpolate1d`, or PyTorch's "bilinear" and "bicubic".

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Interpolate2d(scale_factor=2, mode="bilinear")(pyrite.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    axes = "HW"


class Interpolate3d(Interpolate):
    """Resize volumes: (N, C, D, H, W) -> (N, C, D', H', W'); arguments as of `Interpolate2d`."""

    axes = "DHW"
