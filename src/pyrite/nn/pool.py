"""Pooling layers over one to three axes: maxima and means of windows.

``kernel_size``, ``stride`` (the kernel size unless given) and ``dilation`` are one int, or one per
axis; ``padding`` is an int, one per axis, one (before, after) pair per axis, "valid" or "same".
"""

from __future__ import annotations

from pyrite.nn.spatial import Spatial
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.window import Padding, Sizes


class MaxPool(Spatial):
    """The greatest element of every window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = self._per_axis("kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else self._per_axis("stride", stride)
        self.padding = self._checked_padding(padding)
        self.dilation = self._per_axis("dilation", dilation)
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima."""
        return self._checked(x).max_pool(
            self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode
        )


class MaxPool1d(MaxPool):
    """The greatest element of every window: (N, C, W) -> (N, C, W').

    ``ceil_mode`` keeps the last window also where x ends inside it.
    """

    axes = "W"


class MaxPool2d(MaxPool):
    """The greatest element of every window: (N, C, H, W) -> (N, C, H', W').

    ``ceil_mode`` keeps the last window also where x ends inside it.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.MaxPool2d(2)(pyrite.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    axes = "HW"


class MaxPool3d(MaxPool):
    """The greatest element of every window: (N, C, D, H, W) -> (N, C, D', H', W').

    ``ceil_mode`` keeps the last window also where x ends inside it.
    """

    axes = "DHW"


class AvgPool(Spatial):
    """The mean of every window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = self._per_axis("kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else self._per_axis("stride", stride)
        self.padding = self._checked_padding(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """Return the means."""
        return self._checked(x).avg_pool(
            self.kernel_size, self.stride, self.padding, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )  # fmt: skip


class AvgPool1d(AvgPool):
    """The mean of every window: (N, C, W) -> (N, C, W').

    Padding counts as zeros with ``count_include_pad``, and not at all without.
    """

    axes = "W"


class AvgPool2d(AvgPool):
    """The mean of every window: (N, C, H, W) -> (N, C, H', W').

    Padding counts as zeros with ``count_include_pad``, and not at all without.
    """

    axes = "HW"


class AvgPool3d(AvgPool):
    """The mean of every window: (N, C, D, H, W) -> (N, C, D', H', W').

    Padding counts as zeros with ``count_include_pad``, and not at all without.
    """

    axes = "DHW"


class AdaptivePool(Spatial):
    """Pooling to a given size: window i of n reaches from floor(i S / n) to ceil((i + 1) S / n)."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = self._per_axis("output_size", output_size)


class AdaptiveAvgPool(AdaptivePool):
    """The means of as many windows as asked for."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means."""
        return self._checked(x).adaptive_avg_pool(self.output_size)


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """The means of ``output_size`` windows: (N, C, W) -> (N, C, output_size)."""

    axes = "W"


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """The means of windows, as many as asked for: (N, C, H, W) -> (N, C, *output_size).

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.AdaptiveAvgPool2d(1)(pyrite.ones((1, 3, 7, 5))).shape
    (1, 3, 1, 1)
    """

    axes = "HW"


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """The means of windows, as many as asked for: (N, C, D, H, W) -> (N, C, *output_size)."""

    axes = "DHW"


class AdaptiveMaxPool(AdaptivePool):
    """The maxima of as many windows as asked for."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima."""
        return self._checked(x).adaptive_max_pool(self.output_size)


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """The maxima of ``output_size`` windows: (N, C, W) -> (N, C, output_size)."""

    axes = "W"


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """The maxima of windows, as many as asked for: (N, C, H, W) -> (N, C, *output_size)."""

    axes = "HW"


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """The maxima of windows, as many as asked for: (N, C, D, H, W) -> (N, C, *output_size)."""

    axes = "DHW"
