"""Pools of (N, C, *sizes): windows are read by tables of places, and reduced."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.backend.candle.gather import MOST_COMPARISONS
from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.order import greatest_at
from pyrite.backend.candle.reduction import total
from pyrite.backend.candle.tensor import CandleTensor, Lacking, places, uploaded, where
from pyrite.backend.candle.window import added_back, windows
from pyrite.types import Array, Shape, element_count, int32, int64

Pairs = tuple[tuple[int, int], ...]
#: The kernel_size, stride, padding and dilation of a pool.
Windows = tuple[Shape, Shape, Pairs, Shape]


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
        return _maximum(
            x, [_adaptive(*pair) for pair in zip(x.shape[2:], output_size, strict=True)]
        )

    @native("max_pool_backward")
    def max_pool_backward(
        self, g: CandleTensor, indices: CandleTensor, *, sizes: Shape, windows: Windows | None
    ) -> CandleTensor:
        images, count, size = (element_count(s) for s in (g.shape[:2], g.shape[2:], sizes))
        if windows is not None:
            table = _flat(_inside(_reading(*windows, g.shape[2:]), sizes), sizes)
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
    flat = _flat(tables, x.shape[2:])
    images = x.reshape((x.shape[0] * x.shape[1], element_count(x.shape[2:])))
    taps = windows(images, 1, flat)
    chosen = greatest_at(taps, 2)
    values = CandleTensor(taps.data.contiguous().gather(chosen.data.contiguous(), 2), x.dtype)
    begins = places(np.arange(len(flat))[:, None] * flat.shape[1])
    entries = (chosen + begins).reshape((chosen.size,))
    indices = places(flat.reshape(-1)).select(0, entries)
    shape = (*x.shape[:2], *(len(table) for table in tables))
    return values.reshape(shape), CandleTensor(indices.reshape(shape).data, int32)


def _flat(tables: list[Array], sizes: Shape) -> Array:
    """Return tables of all axes as one of flat places, -1 where one is: (windows, taps)."""
    flat: Array = np.zeros((1, 1), np.int64)
    for table, size in zip(tables, sizes, strict=True):
        rows, columns = flat[:, None, :, None], table[None, :, None, :]
        both = np.where((rows < 0) | (columns < 0), -1, rows * size + columns)
        flat = both.reshape(len(flat) * len(table), flat.shape[1] * table.shape[1])
    return flat


def _count(size: int, kernel: int, stride: int, pair: tuple[int, int], ceil_mode: bool) -> int:
    """Return the number of windows; ceil_mode adds the one that the end of the input cuts off."""
    room = size + sum(pair) - kernel
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    return count - (ceil_mode and (count - 1) * stride >= size + pair[0])


def _tables(
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    ceil_mode: bool,
) -> list[Array]:
    """Return for each axis the places that its windows read: (windows, taps).

    A tap outside reads the window's first element instead: that changes no maximum.
    """
    axes = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    counts = tuple(_count(n, d * (k - 1) + 1, s, pair, ceil_mode) for n, k, s, pair, d in axes)
    tables = _reading(kernel_size, stride, padding, dilation, counts)
    return [
        np.where(inside >= 0, inside, np.where(inside >= 0, inside, n).min(1, keepdims=True))
        for inside, n in zip(_inside(tables, sizes), sizes, strict=True)
    ]


def _reading(
    kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, counts: Shape
) -> list[Array]:
    """Return for each axis where the taps of its windows lie, also outside: (windows, taps)."""
    axes = zip(kernel_size, stride, padding, dilation, counts, strict=True)
    return [
        np.arange(count)[:, None] * s - before + d * np.arange(k)
        for k, s, (before, _), d, count in axes
    ]


def _inside(tables: list[Array], sizes: Shape) -> list[Array]:
    """Return the places of tables that are inside, -1 for the others."""
    return [
        np.where((table >= 0) & (table < n), table, -1)
        for table, n in zip(tables, sizes, strict=True)
    ]


def _adaptive(size: int, count: int) -> Array:
    """Return the table of windows that cover an axis; short ones read their end twice."""
    i = np.arange(count)[:, None]
    starts, ends = i * size // count, -(-(i + 1) * size // count)
    return np.asarray(np.minimum(starts + np.arange((ends - starts).max()), ends - 1))


def _averaged(
    sizes: Shape,
    *,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> tuple[list[Array], Array]:
    """Return the tables of the axes, -1 in the padding, and how many elements a mean is over.

    What ceil_mode lets run past the padding is never counted.
    """
    tables, lengths = [], []
    for n, k, s, (before, after) in zip(sizes, kernel_size, stride, padding, strict=True):
        count = _count(n, k, s, (before, after), ceil_mode)
        table = np.arange(count)[:, None] * s - before + np.arange(k)
        (inside,) = _inside([table], (n,))
        is_counted = table < n + after if count_include_pad else inside >= 0
        tables.append(inside)
        lengths.append(is_counted.sum(1))
    divisor: Any = np.ones((), np.int64)
    for length in lengths:
        divisor = divisor[..., None] * length
    return tables, divisor
