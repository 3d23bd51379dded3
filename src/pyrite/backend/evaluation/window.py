"""Folds through maps on arrays: tap after tap of all windows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.op import Attributes
from pyrite.op.index import Windows
from pyrite.op.rule import WindowFold
from pyrite.op.rule.fold import BoundFold, State
from pyrite.op.rule.window import count_dtype
from pyrite.types import Array, TensorType, int32


@evaluates(WindowFold)
def fold_windows(
    arrays: Arrays, rule: WindowFold, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the results of the windows of an input."""
    (x,) = inputs
    windows = rule.windows(tuple(x.shape), **attrs)
    fold = rule.fold.of(arrays.type_of(x).dtype, [t.dtype for t in out], {**attrs, "first": 0}, 0)
    taps = _Taps(arrays, windows, x)
    state = taps.folded(fold)
    results = fold.ending(count=taps.count(), first=taps.first()).end(arrays.algebra, state)
    return [
        arrays.reshape(arrays.broadcast_to(r, windows.shape), t.shape)
        for r, t in zip(results, out, strict=True)
    ]


class _Taps:
    """The taps of all windows of an array."""

    def __init__(self, arrays: Arrays, windows: Windows, x: Any) -> None:
        self.arrays, self.windows, self.x = arrays, windows, x
        self.own = list(np.indices(windows.shape, np.int64, sparse=True))

    def folded(self, fold: BoundFold) -> State:
        """Return the states of all taps that are elements, one after the other."""
        arrays, windows = self.arrays, self.windows
        shape = windows.shape
        state = tuple(arrays.full(shape, number, dtype, self.x) for number, dtype in fold.start)
        flat = arrays.reshape(self.x, (-1,))
        for taps in np.ndindex(windows.sizes):
            places = np.where(self.holds(taps), windows.index.numbered().at([*self.own, *taps]), 0)
            x = arrays.take(flat, arrays.asarray(np.broadcast_to(places, shape), self.x))
            position = arrays.asarray(self.positions(taps), self.x)
            joined = fold.join(arrays.algebra, state, fold.take(arrays.algebra, x, position))
            mask = arrays.asarray(self.holds(taps), self.x)
            state = tuple(
                arrays.algebra.where(mask, t, s) for s, t in zip(state, joined, strict=True)
            )
        return state

    def holds(self, taps: Sequence[int]) -> Array:
        """Return whether a tap of each window is an element."""
        found = self.windows.index.valid([*self.own, *taps])
        return np.broadcast_to(np.asarray(found), self.windows.shape)

    def positions(self, taps: Sequence[int]) -> Array:
        """Return the position of a tap of each window."""
        found = self.windows.place.at([*self.own, *taps])
        return np.broadcast_to(np.asarray(found, int32.numpy), self.windows.shape)

    def first(self) -> Any:
        """Return the position of the first element of each window."""
        found = np.full(self.windows.shape, -1, int32.numpy)
        for taps in np.ndindex(self.windows.sizes):
            found = np.where((found < 0) & self.holds(taps), self.positions(taps), found)
        return self.arrays.asarray(found, self.x)

    def count(self) -> Any:
        """Return how many taps count in each window, as a float or in the dtype of the array."""
        if self.windows.common_count is not None:
            return float(self.windows.common_count)
        dtype = count_dtype(self.arrays.type_of(self.x).dtype)
        return self.arrays.asarray(self.windows.counts.astype(dtype.numpy), self.x)
