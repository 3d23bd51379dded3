"""Windows along one axis, as a table of the places that they read, and the sum of them back.

Both are selections of slices: of windows by the table, of sums by its transpose, in which each
place lists the windows that read it.  A place of -1 reads 0.
"""

from __future__ import annotations

import numpy as np

from pyrite.backend.candle.reduction import total
from pyrite.backend.candle.tensor import CandleTensor, filled, joined, places
from pyrite.types import Array, Number


def windows(x: CandleTensor, axis: int, table: Array, beyond: Number = 0) -> CandleTensor:
    """Return the elements that windows read: (..., n, ...) -> (..., windows, taps, ...).

    Where the table says -1, they read ``beyond``.
    """
    return _selected(x, axis, table.reshape(-1), beyond).reshape(
        (*x.shape[:axis], *table.shape, *x.shape[axis + 1 :])
    )


def added_back(x: CandleTensor, axis: int, table: Array, length: int) -> CandleTensor:
    """Return the sums of what windows hold: (..., windows, taps, ...) -> (..., length, ...)."""
    flat = x.reshape((*x.shape[:axis], table.size, *x.shape[axis + 2 :]))
    readers = _readers(table, length)
    found = _selected(flat, axis, readers.reshape(-1), 0)
    shape = (*x.shape[:axis], *readers.shape, *x.shape[axis + 2 :])
    return total(found.reshape(shape), (axis,)).reshape(
        (*x.shape[:axis], length, *x.shape[axis + 2 :])
    )


def _readers(table: Array, length: int) -> Array:
    """Return the numbers of the entries of a table that name each place: (most, length)."""
    named = table.reshape(-1)
    lists: list[list[int]] = [[] for _ in range(length)]
    for entry, place in enumerate(named.tolist()):
        if place >= 0:
            lists[place].append(entry)
    most = max(map(len, lists), default=0) or 1
    rows = [entries + [-1] * (most - len(entries)) for entries in lists]
    return np.array(rows, np.int64).reshape(length, most).T


def _selected(x: CandleTensor, axis: int, wanted: Array, beyond: Number) -> CandleTensor:
    if (wanted < 0).any():
        edge = filled(beyond, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        wanted = np.where(wanted < 0, x.shape[axis], wanted)
        x = joined([x, edge], axis)
    return x.select(axis, places(wanted))
