"""Extrema over axes, and where they are.

Candle has both, and loses NaN in them: numbers are looked at without NaN, and NaN by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.reduction import holds_any, squeezed
from pyrite.backend.candle.tensor import CandleTensor, where
from pyrite.types import Shape, int32, int64, uint32


class Order(Native):
    """Extrema and their positions."""

    @native("max")
    def max(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        for a in axis:
            x = greatest(x, a)
        return squeezed(x, axis, keepdims)

    @native("max_of_numbers")
    def max_of_numbers(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        numbers = where(x == x, x, -math.inf)
        for a in axis:
            numbers = CandleTensor(numbers.data.max_keepdim(a), x.dtype)
        return squeezed(numbers, axis, keepdims)

    @native("min")
    def min(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        for a in axis:
            x = least(x, a)
        return squeezed(x, axis, keepdims)

    @native("argmax")
    def argmax(self, x: CandleTensor, *, axis: int | None, keepdims: bool) -> CandleTensor:
        return _position(x, axis, keepdims, greatest_at)

    @native("argmin")
    def argmin(self, x: CandleTensor, *, axis: int | None, keepdims: bool) -> CandleTensor:
        return _position(x, axis, keepdims, least_at)


# ---- along one axis, which keeps size 1 ----


def greatest(x: CandleTensor, axis: int) -> CandleTensor:
    """Return the maximum along an axis: NaN wins, and 0.0 is above -0.0."""
    if not x.dtype.is_float:
        return CandleTensor(x.data.max_keepdim(axis), x.dtype)
    is_nan = x != x
    found = CandleTensor(where(is_nan, -math.inf, x).data.max_keepdim(axis), x.dtype)
    # The sum of zeros is 0.0 unless all are -0.0.
    zeros = where(x == 0, x, -0.0)
    found = where(found == 0, CandleTensor(zeros.data.sum_keepdim([axis]), x.dtype), found)
    return where(holds_any(is_nan, axis), math.nan, found)


def least(x: CandleTensor, axis: int) -> CandleTensor:
    """Return the minimum along an axis: NaN wins, and -0.0 is below 0.0."""
    if not x.dtype.is_float:
        return CandleTensor(x.data.min_keepdim(axis), x.dtype)
    return -greatest(-x, axis)


def greatest_at(x: CandleTensor, axis: int) -> CandleTensor:
    """Return where the maximum is, the first NaN or else the first of equals; int64."""
    return _extreme_at(x, axis, x.data.argmax_keepdim)


def least_at(x: CandleTensor, axis: int) -> CandleTensor:
    """Return where the minimum is, the first NaN or else the first of equals; int64."""
    return _extreme_at(x, axis, x.data.argmin_keepdim)


def _extreme_at(x: CandleTensor, axis: int, find: Any) -> CandleTensor:
    found = CandleTensor(find(axis), uint32).store(int64)
    if not x.dtype.is_float:
        return found
    is_nan = x != x
    first = CandleTensor(is_nan.data.argmax_keepdim(axis), uint32).store(int64)
    return where(holds_any(is_nan, axis), first, found)


def _position(
    x: CandleTensor, axis: int | None, keepdims: bool, find: Callable[..., CandleTensor]
) -> CandleTensor:
    if axis is None:
        found = find(x.reshape((x.size,)), 0)
        return CandleTensor(found.reshape((1,) * x.ndim if keepdims else ()).data, int32)
    return CandleTensor(squeezed(find(x, axis), (axis,), keepdims).data, int32)
