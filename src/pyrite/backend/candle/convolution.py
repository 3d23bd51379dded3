"""Convolutions and their gradients: windows gathered as columns, and matrix products of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.backend.candle.contraction import product
from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.tensor import CandleTensor, zeros
from pyrite.backend.candle.window import added_back, windows
from pyrite.types import Array, Shape, element_count

Pairs = tuple[tuple[int, int], ...]


class Convolution(Native):
    """Convolutions of (N, C, *sizes)."""

    @native("convolution")
    def convolution(
        self, x: CandleTensor, weight: CandleTensor, *, groups: int, **rest: Any
    ) -> CandleTensor:
        outputs, tables = weight.shape[0], _tables(x.shape[2:], weight.shape[2:], **rest)
        columns = _columns(x, tables, groups)
        rows = weight.reshape((groups, outputs // groups, element_count(weight.shape[1:])))
        counts = tuple(len(table) for table in tables)
        found = product(rows, columns).reshape((outputs, x.shape[0], *counts))
        return found.permute((1, 0, *range(2, found.ndim)))

    @native("convolution_input_gradient")
    def convolution_input_gradient(
        self, g: CandleTensor, weight: CandleTensor, *, sizes: Shape, groups: int, **rest: Any
    ) -> CandleTensor:
        (outputs, inputs, *kernel), tables = weight.shape, _tables(sizes, weight.shape[2:], **rest)
        if 0 in (g.size, weight.size):
            return zeros((g.shape[0], groups * inputs, *sizes), g.dtype)
        rows = weight.reshape((groups, outputs // groups, inputs * element_count(kernel)))
        columns = product(rows.permute((0, 2, 1)), _outputs(g, groups))
        return _folded(columns, (g.shape[0], groups * inputs), tables, sizes)

    @native("convolution_weight_gradient")
    def convolution_weight_gradient(
        self, x: CandleTensor, g: CandleTensor, *, kernel_size: Shape, groups: int, **rest: Any
    ) -> CandleTensor:
        shape = (g.shape[1], x.shape[1] // groups, *kernel_size)
        if 0 in (x.size, g.size):
            return zeros(shape, x.dtype)
        columns = _columns(x, _tables(x.shape[2:], kernel_size, **rest), groups)
        return product(_outputs(g, groups), columns.permute((0, 2, 1))).reshape(shape)

    # ---- windows as columns ----

    @native("unfold4d", given="stored")
    def unfold4d(self, x: CandleTensor, *, kernel_size: Shape, **rest: Any) -> CandleTensor:
        found = _windows(x, _tables(x.shape[2:], kernel_size, **rest))
        batch, channels, rows, height, columns, width = found.shape
        return found.permute((0, 1, 3, 5, 2, 4)).reshape(
            (batch, channels * height * width, rows * columns)
        )

    @native("fold4d")
    def fold4d(
        self, x: CandleTensor, *, output_size: Shape, kernel_size: Shape, **rest: Any
    ) -> CandleTensor:
        tables = _tables(output_size, kernel_size, **rest)
        channels = x.shape[1] // element_count(kernel_size)
        if x.size == 0:
            return zeros((x.shape[0], channels, *output_size), x.dtype)
        columns = x.permute((1, 0, 2)).reshape((1, x.shape[1], x.shape[0] * x.shape[2]))
        return _folded(columns, (x.shape[0], channels), tables, output_size)


def _tables(
    sizes: Shape, kernel_size: Shape, *, stride: Shape, padding: Pairs, dilation: Shape
) -> list[Array]:
    """Return for each axis the places that its windows read: (windows, taps), -1 in the padding."""
    tables = []
    axes = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    for n, k, s, (before, after), d in axes:
        count = (n + before + after - d * (k - 1) - 1) // s + 1
        table = np.arange(count)[:, None] * s + d * np.arange(k) - before
        tables.append(np.where((table >= 0) & (table < n), table, -1))
    return tables


def _windows(x: CandleTensor, tables: list[Array]) -> CandleTensor:
    """Return all windows: (N, C, *sizes) -> (N, C, windows, taps, windows, taps, ...)."""
    for i, table in enumerate(tables):
        x = windows(x, 2 + 2 * i, table)
    return x


def _columns(x: CandleTensor, tables: list[Array], groups: int) -> CandleTensor:
    """Return windows as columns: (N, C, *sizes) -> (groups, C/groups * taps, N * windows)."""
    found, rank = _windows(x, tables), len(tables)
    taps, counts = range(3, 3 + 2 * rank, 2), range(2, 2 + 2 * rank, 2)
    rows = x.shape[1] // groups * element_count(table.shape[1] for table in tables)
    places = x.shape[0] * element_count(len(table) for table in tables)
    return found.permute((1, *taps, 0, *counts)).reshape((groups, rows, places))


def _folded(
    columns: CandleTensor, leading: Shape, tables: list[Array], sizes: Shape
) -> CandleTensor:
    """Return the sum of columns where they came from, the transpose of `_columns`."""
    rank = len(tables)
    taps = [table.shape[1] for table in tables]
    counts = [len(table) for table in tables]
    found = columns.reshape((leading[1], *taps, leading[0], *counts))
    order = [axis for i in range(rank) for axis in (2 + rank + i, 1 + i)]
    found = found.permute((1 + rank, 0, *order))
    for i in reversed(range(rank)):
        found = added_back(found, 2 + 2 * i, tables[i], sizes[i])
    return found


def _outputs(g: CandleTensor, groups: int) -> CandleTensor:
    """Return outputs as rows of channels: (N, O, *counts) -> (groups, O/groups, N * counts)."""
    places = g.shape[0] * element_count(g.shape[2:])
    moved = g.permute((1, 0, *range(2, g.ndim)))
    return moved.reshape((groups, g.shape[1] // groups, places))
