"""Reading an axis at other places: each new element a weighted sum of some old ones.

Interpolation and adaptive pooling differ only in the tables of places and weights, which the host
computes from sizes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.unfolding import Unfolding
from pyrite.types import Array, TensorType, default_int
from pyrite.types import dtype as as_dtype


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What the elements of a new axis are made of: (out, taps) places on the old one, and weights.

    No weights means one tap, copied.
    """

    places: Array
    weights: Array | None = None


class Resampling(Unfolding):
    """Weighted sums of elements along an axis."""

    __slots__ = ()

    def _resampled(self, taps_of_axis: dict[int, Taps]) -> Self:
        """Return x read anew along each of the axes: (..., in, ...) -> (..., out, ...).

        float16 and bfloat16 are computed in float32 and rounded at the end.  A tap of weight 0 is
        not read, so NaN and infinity stay where they are.
        """
        x = widened(self) if any(t.weights is not None for t in taps_of_axis.values()) else self
        for axis, taps in taps_of_axis.items():
            x = x._resampled_along(axis, taps)
        return in_dtype(x, self.dtype)

    def _resampled_along(self, axis: int, taps: Taps) -> Self:
        count, width = taps.places.shape
        read = self.take(self._table(taps.places.ravel().astype(default_int.numpy)), axis=axis)
        if taps.weights is None:
            return read
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        read = read.reshape((*before, count, width, *after))
        weights = taps.weights.reshape(count, width, *(1 for _ in after))
        weighted = read * self._table(weights.astype(self.dtype.numpy))
        if np.any(weights == 0):
            weighted = self._table(weights != 0)._where(weighted, 0)
        return weighted.sum(axis + 1)

    def _table(self, array: Array) -> Self:
        """Return an array of the host as a tensor beside this one."""
        handle = self._backend.upload(array)
        return self._wrap(handle, TensorType(array.shape, as_dtype(array.dtype)), self._backend)
