"""What the windows of a pool read, as tables of places: for backends that gather them.

The windows of an axis are known by where they start.  A table is (taps, windows); a place outside
the input is -1, or what `filled` puts there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.types import Array, Shape

#: The padding of each axis, before and after it.
Pairs = tuple[tuple[int, int], ...]

#: The kernel_size, stride, padding and dilation of a pool.
Windows = tuple[Shape, Shape, Pairs, Shape]


def starts(
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    ceil_mode: bool,
) -> list[Array]:
    """Return where the windows of each axis start.

    ceil_mode adds the window that the end cuts off, if it begins before that end.
    """
    found = []
    axes = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    for n, k, s, (before, after), d in axes:
        room = n + before + after - d * (k - 1) - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        count -= ceil_mode and (count - 1) * s >= n + before
        found.append(np.arange(count) * s - before)
    return found


def tables(
    firsts: Sequence[Array], sizes: Shape, kernel_size: Shape, dilation: Shape
) -> list[Array]:
    """Return for each axis the places that its windows read, -1 for those outside."""
    found = []
    for first, n, k, d in zip(firsts, sizes, kernel_size, dilation, strict=True):
        places = first + d * np.arange(k)[:, None]
        found.append(np.where((places >= 0) & (places < n), places, -1))
    return found


def filled(table: Array) -> Array:
    """Return a table that reads the first element of a window for those outside.

    A second time that element changes no maximum.

    >>> filled(np.array([[-1, 1], [0, 2], [1, -1]])).tolist()
    [[0, 1], [0, 2], [1, 1]]
    """
    beyond = table.max(initial=0) + 1
    first = np.where(table < 0, beyond, table).min(0, initial=beyond)
    return np.where(table < 0, first, table)


def adaptive(size: int, count: int) -> Array:
    """Return the table of ``count`` windows that cover an axis; short ones read their end twice.

    >>> adaptive(5, 2).tolist()
    [[0, 2], [1, 3], [2, 4]]
    """
    i = np.arange(count)
    first, end = i * size // count, -(-(i + 1) * size // count)
    taps = np.arange((end - first).max(initial=1))[:, None]
    return np.minimum(first + taps, end - 1)


def flat(tables: Sequence[Array], sizes: Shape) -> Array:
    """Return tables of all axes as one of flat places: both of its axes are row-major."""
    found: Array = np.zeros((1, 1), np.int64)
    for table, size in zip(tables, sizes, strict=True):
        rows, columns = found[:, None, :, None], table[None, :, None, :]
        both = np.where((rows < 0) | (columns < 0), -1, rows * size + columns)
        found = both.reshape(len(found) * len(table), found.shape[1] * table.shape[1])
    return found


def lengths(
    firsts: Sequence[Array],
    sizes: Shape,
    kernel_size: Shape,
    padding: Pairs,
    count_include_pad: bool,
) -> list[Array]:
    """Return for each axis over how many elements of each window a mean is.

    What ceil_mode lets run past the padding is never counted.
    """
    found = []
    for first, n, k, (before, after) in zip(firsts, sizes, kernel_size, padding, strict=True):
        low, high = (-before, n + after) if count_include_pad else (0, n)
        found.append(np.minimum(first + k, high) - np.maximum(first, low))
    return found
