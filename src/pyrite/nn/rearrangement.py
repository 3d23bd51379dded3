"""Layers that move elements to other places and compute nothing, or only sum."""

from __future__ import annotations

from pyrite.nn.init import positive
from pyrite.nn.module import Module
from pyrite.nn.spatial import Spatial
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.window import Explicit, Sizes


class Flatten(Module):
    """Axes from start_axis to end_axis as one: (N, C, H, W) -> (N, C H W) by default.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Flatten()(pyrite.ones((2, 3, 4, 4))).shape
    (2, 48)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis = start_axis
        self.end_axis = end_axis

    def forward(self, x: Tensor) -> Tensor:
        """Return x with fewer axes."""
        return x.flatten(self.start_axis, self.end_axis)


class PixelShuffle(Spatial):
    """Channels as pixels: (N, C r², H, W) -> (N, C, H r, W r), r the upscale_factor.

    Raises ShapeError unless the channels are a multiple of r².
    Source: Shi et al. 2016, arXiv:1609.05158.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.PixelShuffle(2)(pyrite.ones((1, 8, 3, 3))).shape
    (1, 2, 6, 6)
    """

    axes = "HW"

    def __init__(self, upscale_factor: int) -> None:
        positive("PixelShuffle", upscale_factor=upscale_factor)
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with fewer channels and more pixels."""
        return self._checked(x).pixel_shuffle(self.upscale_factor)


class PixelUnshuffle(Spatial):
    """Pixels as channels: (N, C, H r, W r) -> (N, C r², H, W), the inverse of `PixelShuffle`.

    Raises ShapeError unless height and width are multiples of r, the downscale_factor.
    """

    axes = "HW"

    def __init__(self, downscale_factor: int) -> None:
        positive("PixelUnshuffle", downscale_factor=downscale_factor)
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x with more channels and fewer pixels."""
        return self._checked(x).pixel_unshuffle(self.downscale_factor)


class Unfold(Spatial):
    """All windows of an image as columns: (N, C, H, W) -> (N, C kh kw, L), L positions in rows.

    Known as im2col, and in Burn as Unfold4d.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Unfold(2)(pyrite.ones((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    axes = "HW"

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Explicit = 0, stride: Sizes = 1
    ) -> None:
        self.kernel_size = self._per_axis("kernel_size", kernel_size)
        self.dilation = self._per_axis("dilation", dilation)
        self.padding = padding
        self.stride = self._per_axis("stride", stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the windows."""
        return self._checked(x).unfold4d(
            self.kernel_size, stride=self.stride, padding=self.padding, dilation=self.dilation
        )


class Fold(Spatial):
    """The sum of columns where `Unfold` took them: (N, C kh kw, L) -> (N, C, *output_size).

    Known as col2im, and in Burn as Fold4d.  Raises ShapeError when L is another number of windows.
    """

    axes = "HW"

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Explicit = 0,
        stride: Sizes = 1,
    ) -> None:
        self.output_size = self._per_axis("output_size", output_size)
        self.kernel_size = self._per_axis("kernel_size", kernel_size)
        self.dilation = self._per_axis("dilation", dilation)
        self.padding = padding
        self.stride = self._per_axis("stride", stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the image."""
        return x.fold4d(
            self.output_size, self.kernel_size, stride=self.stride, padding=self.padding,
            dilation=self.dilation,
        )  # fmt: skip
