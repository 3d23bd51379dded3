"""Convolutions and their gradients; windows as columns.

PyTorch pads both sides of an axis alike, so other paddings are made before and cut off after.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from pyrite.backend.torch import layout
from pyrite.backend.torch.contraction import exact_product
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.precision import convolution_settings, is_coarser
from pyrite.types import Shape, element_count

Pairs = tuple[tuple[int, int], ...]

_CONVOLUTIONS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}


class Convolution(Native):
    """Convolutions of (N, C, *sizes)."""

    @native("convolution", narrow="cuda")
    def convolution(self, x: torch.Tensor, weight: torch.Tensor, **windows: Any) -> torch.Tensor:
        return self.convolved(x, weight, None, **windows)

    @native("conv1d", "conv2d", "conv3d", narrow="cuda")
    def convolved(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        *,
        padding: Pairs,
        **windows: Any,
    ) -> torch.Tensor:
        if not (x.numel() and weight.numel()):
            stride, dilation = windows["stride"], windows["dilation"]
            counts = _counts(x.shape[2:], weight.shape[2:], stride, padding, dilation)
            zeros = x.new_zeros((x.shape[0], weight.shape[0], *counts))
            return zeros if bias is None else zeros + _by_channel(bias, x.ndim)
        x, even = padded_evenly(x, padding)
        convolve = _CONVOLUTIONS[x.ndim - 2]
        if x.is_floating_point():
            settings = self._settings(x)
            if settings is not None:
                return _told(x, weight, bias, even, settings, **windows)
            return convolve(x, weight, bias, padding=even, **windows)
        product = exact_product(
            lambda x, y: convolve(x, y, None, padding=even, **windows),
            x,
            weight,
            element_count(weight.shape[1:]),
        )
        return product if bias is None else product + _by_channel(bias, x.ndim)

    @native("convolution_input_gradient", narrow="cuda")
    def convolution_input_gradient(
        self, g: torch.Tensor, weight: torch.Tensor, *, sizes: Shape, padding: Pairs, **windows: Any
    ) -> torch.Tensor:
        channels = weight.shape[1] * windows["groups"]
        if not (g.numel() and weight.numel()) or 0 in sizes:
            return g.new_zeros((g.shape[0], channels, *sizes))
        even, extra = _evened(padding)
        shape = (g.shape[0], channels, *_padded(sizes, extra))

        def transposed(g: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            settings = self._settings(g)
            if settings is not None:
                return _told_transposed(g, weight, even, settings, shape[2:], **windows)
            # Only the shape of the input is looked at.
            like = g.new_empty(1).expand(shape)
            return _backward(g, like, weight, even, (True, False), **windows)[0]

        if g.is_floating_point():
            found = transposed(g, weight)
        else:
            terms = weight.shape[0] * element_count(weight.shape[2:])
            found = exact_product(transposed, g, weight, terms)
        return cut(found, sizes, extra)

    @native("convolution_weight_gradient", narrow="cuda")
    def convolution_weight_gradient(
        self,
        x: torch.Tensor,
        g: torch.Tensor,
        *,
        kernel_size: Shape,
        padding: Pairs,
        **windows: Any,
    ) -> torch.Tensor:
        shape = (g.shape[1], x.shape[1] // windows["groups"], *kernel_size)
        if not (x.numel() and g.numel()):
            return x.new_zeros(shape)
        x, even = padded_evenly(x, padding)

        def transposed(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
            # No call can be told otherwise: with TF32 where none was asked for, by products.
            if self._settings(x) is not None and is_coarser(self.device.type, "conv"):
                self.note_products(x)
                return weight_gradient_by_taps(pad(x, _both(even)), g, shape, **windows)
            like = g.new_empty(1).expand(shape)
            return _backward(g, x, like, even, (False, True), **windows)[1]

        if x.is_floating_point():
            return transposed(x, g)
        return exact_product(transposed, x, g, g.shape[0] * element_count(g.shape[2:]))

    def _settings(self, x: torch.Tensor) -> tuple[bool, ...] | None:
        """Return what a float32 convolution on CUDA has to be told of its precision, if anything.

        On the host none can be told: warns where it is coarser than was asked for.
        """
        if x.dtype is torch.float32 and self.device.type == "cuda":
            return convolution_settings()
        self.note_products(x, "conv")
        return None

    # ---- windows as columns ----

    @native("unfold4d", carrier="bits", narrow="everywhere")
    def unfold4d(
        self,
        x: torch.Tensor,
        *,
        kernel_size: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
    ) -> torch.Tensor:
        windows = pad(x, padding)
        for axis, (k, s, d) in enumerate(zip(kernel_size, stride, dilation, strict=True), start=2):
            windows = windows.unfold(axis, d * (k - 1) + 1, s)[..., ::d]
        columns = windows.permute(0, 1, 4, 5, 2, 3)
        batch, channels, *taps, rows, width = columns.shape
        return columns.reshape(batch, channels * element_count(taps), rows * width)

    @native("fold4d")
    def fold4d(
        self,
        x: torch.Tensor,
        *,
        output_size: Shape,
        kernel_size: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
    ) -> torch.Tensor:
        padded = _padded(output_size, padding)
        counts = _counts(output_size, kernel_size, stride, padding, dilation)
        batch, channels = x.shape[0], x.shape[1] // element_count(kernel_size)
        columns = x.reshape(batch, channels, *kernel_size, *counts)
        total = x.new_zeros((batch, channels, *padded))
        for i in range(kernel_size[0]):
            for j in range(kernel_size[1]):
                rows, places = (
                    slice(o * d, o * d + s * (n - 1) + 1, s)
                    for o, d, s, n in zip((i, j), dilation, stride, counts, strict=True)
                )
                total[:, :, rows, places] += columns[:, :, i, j]
        return cut(total, output_size, padding)


def _backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    padding: list[int],
    mask: tuple[bool, bool],
    *,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> Any:
    return layout.convolution_backward(
        g, x, weight, None, stride, padding, dilation, False, [0] * len(padding), groups,
        [*mask, False],
    )  # fmt: skip


def _told(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    settings: tuple[bool, ...],
    *,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> torch.Tensor:
    """Return a convolution by the call of PyTorch's that takes cuDNN's settings."""
    none = [0] * len(padding)
    return layout.convolution(
        x, weight, bias, stride, padding, dilation, False, none, groups, *settings
    )


def _told_transposed(
    g: torch.Tensor,
    weight: torch.Tensor,
    padding: list[int],
    settings: tuple[bool, ...],
    sizes: Shape,
    *,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> torch.Tensor:
    """Return the input gradient of a convolution by the same call."""
    axes = zip(sizes, g.shape[2:], weight.shape[2:], padding, stride, dilation, strict=True)
    # What the last window leaves over.
    rest = [n + 2 * p - (s * (count - 1) + d * (k - 1) + 1) for n, count, k, p, s, d in axes]
    return layout.convolution(
        g, weight, None, stride, padding, dilation, True, rest, groups, *settings
    )


def weight_gradient_by_taps(
    x: torch.Tensor, g: torch.Tensor, shape: Shape, *, stride: Shape, dilation: Shape, groups: int
) -> torch.Tensor:
    """Return the weight gradient of a convolution of a padded x, a matrix product for each tap."""
    out = x.new_empty(shape)
    rows = g.movedim(1, 0).reshape(groups, shape[0] // groups, -1)
    for tap in itertools.product(*map(range, shape[2:])):
        places = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, dilation, stride, g.shape[2:], strict=True)
        )
        window = x[(slice(None), slice(None), *places)]
        columns = window.movedim(1, 0).reshape(groups, shape[1], -1)
        out[(slice(None), slice(None), *tap)] = (rows @ columns.mT).reshape(shape[:2])
    return out


def _both(padding: list[int]) -> Pairs:
    return tuple((width, width) for width in padding)


def _by_channel(bias: torch.Tensor, ndim: int) -> torch.Tensor:
    """Return a bias that broadcasts against (N, C, *sizes): (C,) -> (C, 1, ...)."""
    return bias.reshape(bias.numel(), *(1,) * (ndim - 2))


def _padded(sizes: Shape, padding: Pairs) -> Shape:
    return tuple(n + b + a for n, (b, a) in zip(sizes, padding, strict=True))


def _counts(
    sizes: Shape, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Shape:
    """Return the number of windows along each axis."""
    axes = zip(_padded(sizes, padding), kernel_size, stride, dilation, strict=True)
    return tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in axes)


def _evened(padding: Pairs) -> tuple[list[int], Pairs]:
    """Return what PyTorch may pad itself, and what is to be padded before: one or the other."""
    if all(before == after for before, after in padding):
        return [before for before, _ in padding], ((0, 0),) * len(padding)
    return [0] * len(padding), padding


def padded_evenly(x: torch.Tensor, padding: Pairs) -> tuple[torch.Tensor, list[int]]:
    """Return x padded where its sides differ, and the padding that is left to PyTorch."""
    even, extra = _evened(padding)
    return pad(x, extra), even


def pad(x: torch.Tensor, padding: Pairs, value: float = 0) -> torch.Tensor:
    """Return x with elements added around its last axes, x itself where there are none."""
    if not any(map(any, padding)):
        return x
    flat = [width for pair in reversed(padding) for width in pair]
    return functional.pad(x, flat, value=value)


def cut(x: torch.Tensor, sizes: Shape, padding: Pairs) -> torch.Tensor:
    """Return x without its padding: the transpose of `pad`."""
    for axis, (n, (before, _)) in enumerate(zip(sizes, padding, strict=True), start=2):
        x = x.narrow(axis, before, n)
    return x
