"""Movement and creation: views where Candle has them, selections of slices where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.tensor import CandleTensor, filled, joined, places, uploaded, where
from pyrite.backend.candle.window import added_back, windows
from pyrite.backend.numpy import NumPy
from pyrite.op import OPS, Constant
from pyrite.types import Array, DType, Shape, bool_


class Movement(Native):
    """The same values at other places, and values from nothing."""

    @native("reshape", given="stored")
    def reshape(self, x: CandleTensor, *, shape: Shape) -> CandleTensor:
        return x.reshape(shape)

    @native("permute_dims", given="stored")
    def permute_dims(self, x: CandleTensor, *, axes: Shape) -> CandleTensor:
        return x.permute(axes)

    @native("broadcast_to", given="stored")
    def broadcast_to(self, x: CandleTensor, *, shape: Shape) -> CandleTensor:
        return x.broadcast_to(shape)

    @native("slice", given="stored")
    def slice(
        self, x: CandleTensor, *, start: Shape, size: Shape, step: tuple[int, ...]
    ) -> CandleTensor:
        for axis, (first, count, stride) in enumerate(zip(start, size, step, strict=True)):
            if stride == 1:
                x = x.narrow(axis, first, count)
            else:
                x = x.select(axis, places(first + stride * np.arange(count)))
        return x

    @native("slice_update", given="stored")
    def slice_update(
        self,
        x: CandleTensor,
        value: CandleTensor,
        *,
        shape: Shape,
        start: Shape,
        size: Shape,
        step: tuple[int, ...],
    ) -> CandleTensor:
        x = x.broadcast_to(shape)
        if 0 in size:
            return x
        value, is_inside = value.broadcast_to(size), filled(True, (1,) * len(shape), bool_)
        for axis, (n, first, count, stride) in enumerate(
            zip(shape, start, size, step, strict=True)
        ):
            if count == n and stride == 1:
                continue
            come = np.full(n, -1)
            come[first + stride * np.arange(count)] = np.arange(count)
            along = [1] * axis + [n] + [1] * (len(shape) - axis - 1)
            is_inside = is_inside & uploaded((come >= 0).reshape(along), bool_)
            value = value.select(axis, places(np.maximum(come, 0)))
        return where(is_inside, value, x)

    @native("concat", given="stored")
    def concat(self, *parts: CandleTensor, axis: int) -> CandleTensor:
        return joined(parts, axis)

    @native("band", given="stored")
    def band(self, x: CandleTensor, *, low: int | None, high: int | None) -> CandleTensor:
        rows, columns = x.shape[-2:]
        offset = np.arange(columns) - np.arange(rows)[:, None]
        kept = np.full(offset.shape, True)
        if low is not None:
            kept &= offset >= low
        if high is not None:
            kept &= offset <= high
        return where(uploaded(kept, bool_), x, 0)

    @native("sliding_window", given="stored")
    def sliding_window(self, x: CandleTensor, *, axis: int, size: int, step: int) -> CandleTensor:
        count = (x.shape[axis] - size) // step + 1
        found = windows(x, axis, _starts(count, size, step))
        order = [a for a in range(found.ndim) if a != axis + 1]
        return found.permute((*order, axis + 1))

    @native("overlap_add")
    def overlap_add(
        self, parts: CandleTensor, *, axis: int, length: int, step: int
    ) -> CandleTensor:
        count, size = parts.shape[axis], parts.shape[-1]
        last = parts.ndim - 1
        moved = parts.permute((*range(axis + 1), last, *range(axis + 1, last)))
        return added_back(moved, axis, _starts(count, size, step), length)

    # ---- from nothing ----

    @native("full", given="untouched")
    def full(self, value: Any, *, shape: Shape, dtype: DType) -> CandleTensor:
        if isinstance(value, CandleTensor):
            return value.broadcast_to(shape)
        return filled(value.value, shape, dtype)

    @native("arange", given="untouched")
    def arange(self, start: Constant, step: Constant, *, size: int, dtype: DType) -> CandleTensor:
        """Positions, which the host knows; they are sent."""
        attrs = {"size": size, "dtype": dtype}
        (array,) = NumPy().results(OPS["arange"], (start, step), attrs, None)
        return uploaded(array.astype(dtype.numpy), dtype)


def _starts(count: int, size: int, step: int) -> Array:
    """Return the places that windows read: (count, size)."""
    return np.arange(count)[:, None] * step + np.arange(size)
