"""Windows as columns, and back: im2col and col2im, each the other's gradient."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import Attributes, TensorBase, primitive, sample
from pyrite.op.index import Bound, IndexMap, coordinates
from pyrite.op.rule import Adjoint, Map, Piece
from pyrite.tensor.convolution import windows_of
from pyrite.tensor.window import (
    Explicit,
    Pairs,
    Sizes,
    fold_windows,
    sizes_per_axis,
    unfold_windows,
    window_counts,
)
from pyrite.types import Array, Shape, TensorType, element_count


def _column_windows(op: str, sizes: Shape, kernel_size: Any, rest: Attributes) -> Attributes:
    kernel = sizes_per_axis(op, "kernel_size", kernel_size, 2)
    windows = windows_of(op, sizes, kernel, rest["stride"], rest["padding"], rest["dilation"], 1)
    return {"kernel_size": kernel, **{name: windows[name] for name in rest}}


def _unfold4d_attributes(x: TensorType, *, kernel_size: Any, **rest: Any) -> Attributes:
    if x.ndim != 4:
        raise ShapeError(f"unfold4d requires x of shape (N, C, H, W), got {x.shape}")
    return _column_windows("unfold4d", x.shape[2:], kernel_size, rest)


def _unfold4d_type(x: TensorType, *, kernel_size: Shape, **windows: Any) -> TensorType:
    batch, channels, *sizes = x.shape
    counts = window_counts("unfold4d", tuple(sizes), kernel_size, **windows)
    taps = channels * element_count(kernel_size)
    return TensorType((batch, taps, element_count(counts)), x.dtype)


def _unfold4d(x: Array, *, kernel_size: Shape, **windows: Any) -> Array:
    columns = np.moveaxis(unfold_windows(x, kernel_size, **windows), -1, 0)
    batch, channels, *taps, height, width = columns.shape
    return columns.reshape(batch, channels * element_count(taps), height * width)


def _columns(
    x: Shape, *, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> list[Piece]:
    """Return the elements under each tap of each window: (N, C, kh, kw, positions of windows)."""
    sizes = x[2:]
    counts = window_counts("unfold4d", sizes, kernel_size, stride, padding, dilation)
    at = coordinates(6)
    places = [
        at[4 + a] * stride[a] + at[2 + a] * dilation[a] - padding[a][0] for a in range(len(sizes))
    ]
    bounds = (Bound(place, 0, size) for place, size in zip(places, sizes, strict=True))
    shape = (*x[:2], *kernel_size, *counts)
    return [Piece(IndexMap(shape, x, (*at[:2], *places), tuple(bounds)))]


COLUMNS = Map(_columns)


def _fold4d_attributes(
    x: TensorType, *, output_size: Any, kernel_size: Any, **rest: Any
) -> Attributes:
    sizes = sizes_per_axis("fold4d", "output_size", output_size, 2)
    return {"output_size": sizes, **_column_windows("fold4d", sizes, kernel_size, rest)}


def _fold4d_type(
    x: TensorType, *, output_size: Shape, kernel_size: Shape, **windows: Any
) -> TensorType:
    taps = element_count(kernel_size)
    count = element_count(window_counts("fold4d", output_size, kernel_size, **windows))
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != count:
        raise ShapeError(
            f"fold4d requires x of shape (N, C * {taps}, {count}) for output_size {output_size}, "
            f"got {x.shape}"
        )
    return TensorType((x.shape[0], x.shape[1] // taps, *output_size), x.dtype)


def _fold4d(x: Array, *, output_size: Shape, kernel_size: Shape, **windows: Any) -> Array:
    counts = window_counts("fold4d", output_size, kernel_size, **windows)
    channels = x.shape[1] // element_count(kernel_size)
    columns = x.reshape(x.shape[0], channels, *kernel_size, *counts)
    return fold_windows(np.moveaxis(columns, 0, -1), output_size, **windows)


class Unfolding(TensorBase):
    """All windows of an image side by side, and their sum put back."""

    __slots__ = ()

    @primitive(
        rule=COLUMNS,
        reference=_unfold4d,
        infer=_unfold4d_type,
        canonical=_unfold4d_attributes,
        vjp=(lambda g, _, x_type, **windows: g.fold4d(output_size=x_type.shape[2:], **windows),),
        samples=(
            sample((2, 2, 4, 3), kernel_size=2),
            sample((1, 1, 5, 4), kernel_size=(3, 2), stride=2, padding=1, dilation=(1, 2)),
        ),
    )
    def unfold4d(
        self,
        /,
        kernel_size: Sizes,
        *,
        stride: Sizes = 1,
        padding: Explicit = 0,
        dilation: Sizes = 1,
    ) -> Self:
        """All windows of an image as columns: (N, C, H, W) -> (N, C kh kw, L), L positions in rows.

        Known as im2col; `fold4d` is its transpose.
        """
        ...

    @primitive(
        rule=Adjoint(COLUMNS, lambda _, *, output_size, **windows: windows),
        reference=_fold4d,
        accumulates=True,
        infer=_fold4d_type,
        canonical=_fold4d_attributes,
        vjp=(lambda g, *_, output_size, **windows: g.unfold4d(**windows),),
        samples=(
            sample((2, 8, 6), output_size=(4, 3), kernel_size=2),
            sample((1, 4, 6), output_size=(4, 5), kernel_size=2, stride=2, padding=(0, 1)),
        ),
    )
    def fold4d(
        self,
        /,
        output_size: Sizes,
        kernel_size: Sizes,
        *,
        stride: Sizes = 1,
        padding: Explicit = 0,
        dilation: Sizes = 1,
    ) -> Self:
        """The sum of columns where `unfold4d` took them: (N, C kh kw, L) -> (N, C, H, W).

        ``output_size`` is (H, W).  Known as col2im.
        """
        ...
