"""Convolution layers over one to three axes, and transposed ones.

Weights are laid out and drawn as in PyTorch: a kernel's fan_in is the product of all axes but the
first, and weight and bias start uniform in ±1/sqrt(fan_in).
"""

from __future__ import annotations

from typing import Literal

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.nn.init import Initializer, KaimingUniform, fans, optional, positive
from pyrite.nn.spatial import Spatial
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.rearrangement import PadMode
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.window import Explicit, Padding, Sizes, padding_pairs
from pyrite.types import DTypeLike, Shape

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

#: By PyTorch's name, the mode of `Tensor.pad`; None for the zeros that a convolution adds itself.
_MODES: dict[str, PadMode | None] = {
    "zeros": None, "reflect": "reflect", "replicate": "edge", "circular": "circular",
}  # fmt: skip


class Kernel(Spatial):
    """A layer whose weight is a kernel that slides over the spatial axes of (N, C, *sizes)."""

    in_channels: int
    out_channels: int
    kernel_size: Shape
    weight: Parameter
    bias: Parameter | None

    def _declare(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, groups: int
    ) -> None:
        name = type(self).__name__
        positive(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name} requires in_channels and out_channels to be multiples of groups, got "
                f"{in_channels} and {out_channels} for groups={groups}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._per_axis("kernel_size", kernel_size)

    def _draw(
        self,
        channels: tuple[int, int],
        bias: bool,
        initializer: Initializer | None,
        dtype: DTypeLike | None,
        device: DeviceLike,
    ) -> None:
        shape = (*channels, *self.kernel_size)
        draw = initializer or KaimingUniform()
        self.weight = draw.parameter(shape, dtype=dtype, device=device)
        self.bias = optional(
            bias, KaimingUniform(), (self.out_channels,), fan_in=fans(shape)[0], dtype=dtype,
            device=device,
        )  # fmt: skip


class Convolution(Kernel):
    """The layers that convolve.  weight: (O, C / groups, *kernel_size); bias: (O,) or None.

    padding_mode: what stands in the padding: "zeros", or what `Tensor.pad` puts there: "reflect",
    "replicate" (the outermost element) or "circular".
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        self._declare(in_channels, out_channels, kernel_size, groups)
        self.stride = self._per_axis("stride", stride)
        self.padding = self._checked_padding(padding)
        self.dilation = self._per_axis("dilation", dilation)
        self.groups = groups
        if padding_mode not in _MODES:
            raise ArgumentError(
                f"{type(self).__name__} requires padding_mode of {', '.join(_MODES)}, got "
                f"{padding_mode!r}"
            )
        self.padding_mode: PaddingMode = padding_mode
        self._draw((out_channels, in_channels // groups), bias, initializer, dtype, device)

    def _padded(self, x: Tensor) -> tuple[Tensor, Padding]:
        """Return x, checked, with what is put around it, and the zeros that are still to be."""
        x = self._checked(x, self.in_channels)
        mode = _MODES[self.padding_mode]
        if mode is None:
            return x, self.padding
        pairs = padding_pairs(
            type(self).__name__, self.padding, x.shape[2:], self.kernel_size, self.stride,
            self.dilation,
        )  # fmt: skip
        return x.pad(pairs, mode=mode), 0


class Conv1d(Convolution):
    """Convolution over one axis: (N, C, W) -> (N, O, W').

    ``padding`` counts zeros: an int, a (before, after) pair in a tuple, "valid" for none, or "same"
    for as many as make W' = ceil(W / stride), the odd one after.

    Raises ShapeError when x is not (N, in_channels, W).

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Conv1d(3, 8, kernel_size=4, padding="same")(pyrite.ones((2, 3, 10))).shape
    (2, 8, 10)
    """

    axes = "W"

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        x, padding = self._padded(x)
        return x.conv1d(
            self.weight, self.bias, stride=self.stride, padding=padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip


class Conv2d(Convolution):
    """Convolution over two axes: (N, C, H, W) -> (N, O, H', W').

    Arguments per axis are one int, or (for H, for W).  ``padding`` as of `Conv1d`: an int, two of
    them, two (before, after) pairs, "valid" or "same".

    Raises ShapeError when x is not (N, in_channels, H, W).

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1)(pyrite.ones((1, 3, 8, 8))).shape
    (1, 8, 4, 4)
    """

    axes = "HW"

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        x, padding = self._padded(x)
        return x.conv2d(
            self.weight, self.bias, stride=self.stride, padding=padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip


class Conv3d(Convolution):
    """Convolution over three axes: (N, C, D, H, W) -> (N, O, D', H', W').

    Arguments as of `Conv2d`, for D, H and W.  Raises ShapeError when x is not
    (N, in_channels, D, H, W).
    """

    axes = "DHW"

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        x, padding = self._padded(x)
        return x.conv3d(
            self.weight, self.bias, stride=self.stride, padding=padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip


class TransposedConvolution(Kernel):
    """The transposed layers.  weight: (C, O / groups, *kernel_size); bias: (O,) or None."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Explicit = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        if isinstance(padding, str):
            raise ArgumentError(
                f"{type(self).__name__} requires padding in elements, got {padding!r}"
            )
        self._declare(in_channels, out_channels, kernel_size, groups)
        self.stride = self._per_axis("stride", stride)
        self.padding = self._checked_padding(padding)
        self.output_padding = self._per_axis("output_padding", output_padding, least=0)
        self.dilation = self._per_axis("dilation", dilation)
        self.groups = groups
        self._draw((in_channels, out_channels // groups), bias, initializer, dtype, device)


class ConvTranspose1d(TransposedConvolution):
    """Transposed convolution over one axis: (N, C, W) -> (N, O, W').

    W' = (W - 1) stride - before - after + dilation (kernel_size - 1) + 1 + output_padding, where
    ``padding`` says before and after: an int, or a pair in a tuple.

    Raises ShapeError when x is not (N, in_channels, W).
    """

    axes = "W"

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x."""
        return self._checked(x, self.in_channels).conv_transpose1d(
            self.weight, self.bias, stride=self.stride, padding=self.padding,
            output_padding=self.output_padding, dilation=self.dilation, groups=self.groups,
        )  # fmt: skip


class ConvTranspose2d(TransposedConvolution):
    """Transposed convolution over two axes: (N, C, H, W) -> (N, O, H', W').

    H' and W' as W' of `ConvTranspose1d`.  Raises ShapeError when x is not (N, in_channels, H, W).

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(pyrite.ones((1, 8, 4, 4))).shape
    (1, 3, 8, 8)
    """

    axes = "HW"

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x."""
        return self._checked(x, self.in_channels).conv_transpose2d(
            self.weight, self.bias, stride=self.stride, padding=self.padding,
            output_padding=self.output_padding, dilation=self.dilation, groups=self.groups,
        )  # fmt: skip


class ConvTranspose3d(TransposedConvolution):
    """Transposed convolution over three axes: (N, C, D, H, W) -> (N, O, D', H', W').

    D', H' and W' as W' of `ConvTranspose1d`.  Raises ShapeError when x is not
    (N, in_channels, D, H, W).
    """

    axes = "DHW"

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x."""
        return self._checked(x, self.in_channels).conv_transpose3d(
            self.weight, self.bias, stride=self.stride, padding=self.padding,
            output_padding=self.output_padding, dilation=self.dilation, groups=self.groups,
        )  # fmt: skip
