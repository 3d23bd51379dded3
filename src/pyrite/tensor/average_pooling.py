"""Average pooling: the mean of every window of (N, C, *sizes), and of windows for a given size."""

from __future__ import annotations

import itertools
from typing import Any, Self

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import Attributes, composite, primitive, sample
from pyrite.op.index import Windows, sliding_windows
from pyrite.op.rule import AVERAGE, Adjoint, WindowFold, zero
from pyrite.tensor.max_pooling import MaxPooling
from pyrite.tensor.resampling import Resampling, Tables, Taps, kept
from pyrite.tensor.spatial_rank import of_rank
from pyrite.tensor.window import (
    Padding,
    Pairs,
    Sizes,
    adaptive_attributes,
    adaptive_type,
    adaptive_windows,
    pool_attributes,
    pool_counts,
    pool_name,
    tap,
)
from pyrite.types import Array, Shape, TensorType


def _mean_attributes(x: TensorType, **attrs: Any) -> Attributes:
    found = pool_attributes(pool_name("avg_pool", x), x, dilation=1, **attrs)
    del found["dilation"]
    return found


def _mean_type(x: TensorType, *, count_include_pad: bool, **windows: Any) -> TensorType:
    undilated = (1,) * (x.ndim - 2)
    op = pool_name("avg_pool", x)
    counts = pool_counts(op, x.shape[2:], dilation=undilated, **windows)
    return TensorType((*x.shape[:2], *counts), x.dtype)


def _shared_type(g: TensorType, *, sizes: Shape, **windows: Any) -> TensorType:
    x = TensorType((*g.shape[:2], *sizes), g.dtype)
    expected = _mean_type(x, **windows)
    if g.shape != expected.shape:
        raise ShapeError(
            f"avg_pool_backward requires g of shape {expected.shape} for x {x.shape}, got {g.shape}"
        )
    return x


def _mean(x: Array, *, kernel_size: Shape, stride: Shape, **rest: Any) -> Array:
    divisor, padding = _divisor(x.shape[2:], kernel_size, stride, **rest)
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    total: Array = np.zeros(x.shape[:2] + divisor.shape, x.dtype)
    for index in _taps(kernel_size, divisor.shape, stride):
        total += padded[..., *index]
    mean: Array = total / divisor.astype(x.dtype)
    return mean


def _shared(g: Array, *, sizes: Shape, kernel_size: Shape, stride: Shape, **rest: Any) -> Array:
    divisor, padding = _divisor(sizes, kernel_size, stride, **rest)
    padded = tuple(n + sum(pair) for n, pair in zip(sizes, padding, strict=True))
    total: Array = np.zeros(g.shape[:2] + padded, g.dtype)
    share = g / divisor.astype(g.dtype)
    for index in _taps(kernel_size, divisor.shape, stride):
        total[..., *index] += share
    inside: Any = (slice(b, b + n) for n, (b, _) in zip(sizes, padding, strict=True))
    return np.ascontiguousarray(total[..., *inside])


def _taps(kernel_size: Shape, counts: Shape, stride: Shape) -> list[Any]:
    """Return one spatial index per element of a window: that element of all windows."""
    undilated = (1,) * len(stride)
    offsets = itertools.product(*map(range, kernel_size))
    return [tap(offset, counts, stride, undilated) for offset in offsets]


def _divisor(
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> tuple[Array, Pairs]:
    """Return the number of elements of each window, and the padding that windows really reach.

    The part of a window that ceil_mode lets run past the padding is never counted.
    """
    undilated = (1,) * len(sizes)
    counts = pool_counts("avg_pool", sizes, kernel_size, stride, padding, undilated, ceil_mode)
    divisor: Array = np.ones((), np.int64)
    reached = []
    axes = zip(sizes, kernel_size, stride, padding, counts, strict=True)
    for n, k, s, (before, after), count in axes:
        starts = np.arange(count) * s - before
        low, high = (-before, n + after) if count_include_pad else (0, n)
        lengths = np.minimum(starts + k, high) - np.maximum(starts, low)
        divisor = divisor[..., None] * lengths
        reached.append((before, max((count - 1) * s + k - before - n, 0)))
    return divisor, tuple(reached)


def _windows(
    x: Shape,
    *,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Windows:
    sizes, once = x[2:], (1,) * (len(x) - 2)
    counts = pool_counts("avg_pool", sizes, kernel_size, stride, padding, once, ceil_mode)
    return sliding_windows(
        x, counts, kernel_size, stride, padding, once, counts_padding=count_include_pad
    )


AVERAGES = WindowFold(AVERAGE, _windows, neutral=zero)


def _adaptive_shared_type(g: TensorType, *, sizes: Shape) -> TensorType:
    if g.ndim != len(sizes) + 2 or 0 in (*g.shape[2:], *sizes):
        raise ShapeError(
            f"adaptive_avg_pool_backward requires {len(sizes)} spatial sizes >= 1, got g {g.shape} "
            f"for sizes {sizes}"
        )
    return TensorType((*g.shape[:2], *sizes), g.dtype)


@kept
def _adaptive_tables(sizes: Shape, counts: Shape, *, is_transposed: bool = False) -> Tables:
    """Return how the means of windows read axes of the sizes, or, transposed, are read by them."""
    axes = enumerate(zip(sizes, counts, strict=True), start=2)
    taps = {axis: _adaptive_taps(n, count) for axis, (n, count) in axes}
    if is_transposed:
        taps = {axis: found.transposed(sizes[axis - 2]) for axis, found in taps.items()}
    return Tables.of(taps)


def _adaptive_taps(size: int, count: int) -> Taps:
    starts, ends = adaptive_windows(size, count)
    steps = np.arange((ends - starts).max())[:, None]
    lengths = ends - starts
    return Taps(np.minimum(starts + steps, size - 1), (steps < lengths) / lengths)


def _equal_windows(sizes: Shape, counts: Shape) -> Attributes | None:
    """Return the windows of a pool as `avg_pool` has them, None where they are not of one size."""
    if any(n % count for n, count in zip(sizes, counts, strict=True)):
        return None
    kernel = tuple(n // count for n, count in zip(sizes, counts, strict=True))
    padding = ((0, 0),) * len(sizes)
    return {"kernel_size": kernel, "stride": kernel, "padding": padding}


class AveragePooling(MaxPooling, Resampling):
    """Average pooling of (N, C, *sizes) over one to three axes; arguments as in `MaxPooling`."""

    __slots__ = ()

    @primitive(
        rule=AVERAGES,
        reference=_mean,
        accumulates=True,
        infer=_mean_type,
        canonical=_mean_attributes,
        vjp=(
            lambda g, _, x_type, **windows: g._avg_pool_backward(sizes=x_type.shape[2:], **windows),
        ),
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 2, 5), kernel_size=2),
            sample((1, 2, 5, 4), kernel_size=3, stride=2, padding=1, ceil_mode=True),
            sample((1, 1, 3, 4, 3), kernel_size=2, padding=1, count_include_pad=False),
            sample((0, 2, 4), kernel_size=2),
        ),
    )
    def avg_pool(
        self,
        /,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of every window: (N, C, *S) -> (N, C, *S'), S' as in `max_pool`.

        ``count_include_pad`` says whether the zeros of the padding count as elements.
        """
        ...

    @primitive(
        rule=Adjoint(AVERAGES, lambda _, *, sizes, **windows: windows),
        reference=_shared,
        accumulates=True,
        infer=_shared_type,
        vjp=(lambda c, *_, sizes, **windows: c.avg_pool(**windows),),
        accepts="float",
        promotes="all",
        samples=(
            sample(
                (1, 2, 3, 2), sizes=(5, 4), kernel_size=(3, 2), stride=(2, 2),
                padding=((1, 1), (0, 0)), ceil_mode=False, count_include_pad=False,
            ),
        ),
    )  # fmt: skip
    def _avg_pool_backward(
        self,
        /,
        *,
        sizes: Shape,
        kernel_size: Shape,
        stride: Shape,
        padding: Pairs,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Self:
        """The transpose of `avg_pool`, g shared out over windows: (N, C, *S') -> (N, C, *sizes)."""
        ...

    # ---- to a given size ----

    @composite(
        infer=adaptive_type,
        canonical=adaptive_attributes,
        vjp=(lambda g, _, x_type, **_sizes: g._adaptive_avg_pool_backward(sizes=x_type.shape[2:]),),
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 2, 5), output_size=2),
            sample((1, 2, 3, 4), output_size=(2, 5)),
            sample((1, 1, 2, 4, 3), output_size=1),
        ),
    )
    def adaptive_avg_pool(self, /, output_size: Sizes) -> Self:
        """The means of as many windows as asked for: (N, C, *S) -> (N, C, *output_size).

        Window i of an axis reaches from floor(i S / output) to ceil((i + 1) S / output); windows
        overlap where the sizes do not divide.
        """
        counts: Any = output_size
        windows = _equal_windows(self.shape[2:], counts)
        if windows is not None:
            return self.avg_pool(**windows)
        return self._resampled(_adaptive_tables(self.shape[2:], counts))

    @composite(
        infer=_adaptive_shared_type,
        vjp=(lambda c, _, g_type, **_sizes: c.adaptive_avg_pool(g_type.shape[2:]),),
        accepts="float",
        promotes="all",
        samples=(sample((2, 2, 2), sizes=(5,)), sample((1, 2, 2, 4), sizes=(6, 4))),
    )
    def _adaptive_avg_pool_backward(self, /, *, sizes: Shape) -> Self:
        """The transpose of `adaptive_avg_pool`: (N, C, *output_size) -> (N, C, *sizes)."""
        counts = self.shape[2:]
        windows = _equal_windows(sizes, counts)
        if windows is not None:
            return self._avg_pool_backward(
                sizes=sizes, **windows, ceil_mode=False, count_include_pad=True
            )
        return self._resampled(_adaptive_tables(sizes, counts, is_transposed=True))

    # ---- by the number of axes ----

    avg_pool1d = of_rank(1, avg_pool)
    avg_pool2d = of_rank(2, avg_pool)
    avg_pool3d = of_rank(3, avg_pool)
    adaptive_avg_pool1d = of_rank(1, adaptive_avg_pool)
    adaptive_avg_pool2d = of_rank(2, adaptive_avg_pool)
    adaptive_avg_pool3d = of_rank(3, adaptive_avg_pool)
