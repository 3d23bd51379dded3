"""What convolutions mean: one matrix product per group, for the whole batch.

Padding is no element: what is not finite reaches only results whose windows it meets in x.  Zeros
times what is finite are 0, so then they are multiplied, and all taps are one product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.tensor.window import fold_windows, meetings, unfold_windows, window_counts
from pyrite.types import Array, Shape, element_count


def convolution(x: Array, weight: Array, *, groups: int, **windows: Any) -> Array:
    if not np.isfinite(weight).all():
        return _by_taps(x, weight, groups, **windows)
    outputs, channels, *kernel_size = weight.shape
    columns = unfold_windows(x, tuple(kernel_size), **windows)
    positions = columns.shape[1 + len(kernel_size) :]
    taps, count = channels * element_count(kernel_size), element_count(positions)
    rows = weight.reshape(groups, outputs // groups, taps)
    product = np.matmul(rows, columns.reshape(groups, taps, count))
    return np.ascontiguousarray(np.moveaxis(product.reshape(outputs, *positions), -1, 0))


def input_gradient(g: Array, weight: Array, *, sizes: Shape, groups: int, **windows: Any) -> Array:
    outputs, channels, *kernel_size = weight.shape
    positions = (*g.shape[2:], g.shape[0])
    taps, count = channels * element_count(kernel_size), element_count(positions)
    rows = weight.reshape(groups, outputs // groups, taps).swapaxes(1, 2)
    columns = np.matmul(rows, _batch_last(g).reshape(groups, outputs // groups, count))
    shape = (channels * groups, *kernel_size, *positions)
    return fold_windows(columns.reshape(shape), sizes, **windows)


def weight_gradient(
    x: Array, g: Array, *, kernel_size: Shape, groups: int, **windows: Any
) -> Array:
    if not np.isfinite(g).all():
        return _gradient_by_taps(x, g, kernel_size, groups, **windows)
    outputs, channels = g.shape[1], x.shape[1] // groups
    count = element_count((*g.shape[2:], g.shape[0]))
    taps = channels * element_count(kernel_size)
    columns = unfold_windows(x, kernel_size, **windows).reshape(groups, taps, count)
    rows = _batch_last(g).reshape(groups, outputs // groups, count)
    product: Array = np.matmul(rows, columns.swapaxes(1, 2))
    return product.reshape(outputs, channels, *kernel_size)


# ---- of what is not finite: a product for each tap, with the elements of x that it meets ----


def _by_taps(x: Array, weight: Array, groups: int, **windows: Any) -> Array:
    (outputs, channels, *kernel_size), sizes = weight.shape, x.shape[2:]
    counts = window_counts("convolution", sizes, tuple(kernel_size), **windows)
    x, rows = _batch_last(x), weight.reshape(groups, outputs // groups, channels, *kernel_size)
    total: Array = np.zeros((outputs, *counts, x.shape[-1]), x.dtype)
    for offset, at, places in meetings(sizes, tuple(kernel_size), **windows):
        part = x[:, *places]
        columns = part.reshape(groups, channels, element_count(part.shape[1:]))
        product = np.matmul(rows[:, :, :, *offset], columns)
        total[:, *at] += product.reshape(outputs, *part.shape[1:])
    return np.ascontiguousarray(np.moveaxis(total, -1, 0))


def _gradient_by_taps(x: Array, g: Array, kernel_size: Shape, groups: int, **windows: Any) -> Array:
    outputs, channels, sizes = g.shape[1], x.shape[1] // groups, x.shape[2:]
    x, g = _batch_last(x), _batch_last(g)
    total: Array = np.zeros((groups, outputs // groups, channels, *kernel_size), x.dtype)
    for offset, at, places in meetings(sizes, kernel_size, **windows):
        part = x[:, *places]
        count = element_count(part.shape[1:])
        rows = g[:, *at].reshape(groups, outputs // groups, count)
        columns = part.reshape(groups, channels, count)
        total[:, :, :, *offset] = np.matmul(rows, columns.swapaxes(1, 2))
    return total.reshape(outputs, channels, *kernel_size)


def _batch_last(array: Array) -> Array:
    return np.moveaxis(array, 0, -1)
