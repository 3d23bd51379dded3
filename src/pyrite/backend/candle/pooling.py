"""Pools of (N, C, *sizes): windows are read by tables of places, and reduced."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.backend import window
from pyrite.backend.candle.gather import MOST_COMPARISONS
from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.order import greatest_at
from pyrite.backend.candle.reduction import total
from pyrite.backend.candle.tensor import CandleTensor, Lacking, places, uploaded, where
from pyrite.backend.candle.window import added_back, windows
from pyrite.backend.window import Pairs, Windows
from pyrite.types import Array, Shape, element_count, int32, int64


class Pooling(Native):
    """Means and maxima of windows."""

    @native("avg_pool")
    def avg_pool(self, x: CandleTensor, **attrs: Any) -> CandleTensor:
        tables, divisor = _averaged(x.shape[2:], **attrs)
        for i, table in enumerate(tables):
            x = total(windows(x, 2 + i, table), (3 + i,))
            x = x.reshape((*x.shape[: 3 + i], *x.shape[4 + i :]))
        return x / uploaded(divisor.astype(x.dtype.numpy), x.dtype)

    @native("avg_pool_backward")
    def avg_pool_backward(self, g: CandleTensor, *, sizes: Shape, **attrs: Any) -> CandleTensor:
        tables, divisor = _averaged(sizes, **attrs)
        share = g / uploaded(divisor.astype(g.dtype.numpy), g.dtype)
        for i, table in enumerate(tables):
            stretched = (*share.shape[: 3 + i], table.shape[1], *share.shape[3 + i :])
            taps = share.reshape((*share.shape[: 3 + i], 1, *share.shape[3 + i :]))
            share = added_back(taps.broadcast_to(stretched), 2 + i, table, sizes[i])
        return share

    @native("max_pool_with_indices")
    def max_pool_with_indices(
        self, x: CandleTensor, **attrs: Any
    ) -> tuple[CandleTensor, CandleTensor]:
        return _maximum(x, _tables(x.shape[2:], **attrs))

    @native("adaptive_max_pool_with_indices")
    def adaptive_max_pool_with_indices(
        self, x: CandleTensor, *, output_size: Shape
    ) -> tuple[CandleTensor, CandleTensor]:
        return _maximum(x, list(map(window.adaptive, x.shape[2:], output_size)))

    @native("max_pool_backward")
    def max_pool_backward(
        self, g: CandleTensor, indices: CandleTensor, *, sizes: Shape, windows: Windows | None
    ) -> CandleTensor:
        images, count, size = (element_count(s) for s in (g.shape[:2], g.shape[2:], sizes))
        if windows is not None:
            table = _read(sizes, g.shape[2:], *windows)
        elif images * count * size <= MOST_COMPARISONS:
            table = np.broadcast_to(np.arange(size), (count, size))
        else:
            raise Lacking("writes by index of such a size")
        at = indices.store(int64).reshape((images, count, 1))
        share = where(at == places(table), g.reshape((images, count, 1)), 0)
        if windows is not None:
            found = added_back(share, 1, table, size)
        else:
            found = total(share, (1,))
        return found.reshape((*g.shape[:2], *sizes))


def _maximum(x: CandleTensor, tables: list[Array]) -> tuple[CandleTensor, CandleTensor]:
    """Return the maximum of each window, and its flat place: the first of equals, or NaN."""
    flat = window.flat(tables, x.shape[2:]).T
    images = x.reshape((x.shape[0] * x.shape[1], element_count(x.shape[2:])))
    taps = windows(images, 1, flat)
    chosen = greatest_at(taps, 2)
    values = CandleTensor(taps.data.contiguous().gather(chosen.data.contiguous(), 2), x.dtype)
    begins = places(np.arange(len(flat))[:, None] * flat.shape[1])
    entries = (chosen + begins).reshape((chosen.size,))
    indices = places(flat.reshape(-1)).select(0, entries)
    shape = (*x.shape[:2], *(table.shape[1] for table in tables))
    return values.reshape(shape), CandleTensor(indices.reshape(shape).data, int32)


def _tables(sizes: Shape, *, kernel_size: Shape, dilation: Shape, **rest: Any) -> list[Array]:
    """Return for each axis the places that its windows read, none of them outside."""
    starts = window.starts(sizes, kernel_size, dilation=dilation, **rest)
    return [window.filled(table) for table in window.tables(starts, sizes, kernel_size, dilation)]


def _read(
    sizes: Shape, counts: Shape, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Array:
    """Return the flat places that windows read, -1 for those outside: (windows, taps)."""
    axes = zip(counts, stride, padding, strict=True)
    starts = [np.arange(count) * s - before for count, s, (before, _) in axes]
    return window.flat(window.tables(starts, sizes, kernel_size, dilation), sizes).T


def _averaged(
    sizes: Shape,
    *,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> tuple[list[Array], Array]:
    """Return the tables of the axes, (windows, taps), and how many elements a mean is over."""
    undilated = (1,) * len(sizes)
    starts = window.starts(sizes, kernel_size, stride, padding, undilated, ceil_mode)
    divisor: Any = np.ones((), np.int64)
    for length in window.lengths(starts, sizes, kernel_size, padding, count_include_pad):
        divisor = divisor[..., None] * length
    return [table.T for table in window.tables(starts, sizes, kernel_size, undilated)], divisor
