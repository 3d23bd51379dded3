"""Sums, products and truth over axes.

Candle sums float32 one by one, so long sums are made in float64.  Products, which it lacks, are
made in log(n) steps, one half of an axis with the other.
"""

from __future__ import annotations

from pyrite.backend.candle.native import ALGEBRA, Native, native
from pyrite.backend.candle.tensor import CandleTensor, filled, joined, where
from pyrite.types import DType, Shape, bool_, element_count, float32, float64, int32, int64

#: From how many terms on a sum of float32 is made in float64.
_LONG = 256


class Reduction(Native):
    """Sums, products and truth."""

    @native("sum")
    def sum(self, x: CandleTensor, *, axis: Shape, dtype: DType, keepdims: bool) -> CandleTensor:
        return squeezed(total(ALGEBRA.cast(x, dtype.compute), axis), axis, keepdims)

    @native("mean")
    def mean(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        count = element_count(x.shape[a] for a in axis)
        return squeezed(total(x, axis) / count, axis, keepdims)

    @native("prod")
    def prod(self, x: CandleTensor, *, axis: Shape, dtype: DType, keepdims: bool) -> CandleTensor:
        found = ALGEBRA.cast(x, dtype.compute)
        for a in axis:
            found = product_along(found, a)
        if dtype.is_float:
            found = _without_lost_zeros(found, x, axis)
        return squeezed(found, axis, keepdims)

    @native("any")
    def any(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        found = x != 0
        for a in axis:
            found = holds_any(found, a)
        return squeezed(found, axis, keepdims)

    @native("all")
    def all(self, x: CandleTensor, *, axis: Shape, keepdims: bool) -> CandleTensor:
        return ~self.any(x == 0, axis=axis, keepdims=keepdims)


# ---- along axes, which keep size 1 ----


def total(x: CandleTensor, axis: Shape) -> CandleTensor:
    """Return the sum over axes, which keep size 1."""
    if not axis:
        return x
    is_long = x.dtype is float32 and element_count(x.shape[a] for a in axis) >= _LONG
    wide = x.store(float64) if is_long else x
    found = CandleTensor(wide.data.sum_keepdim(list(axis)), wide.dtype)
    if x.dtype is int32:
        found = CandleTensor(found.data, int64).store(int32)
    return found.store(x.dtype)


def product_along(x: CandleTensor, axis: int) -> CandleTensor:
    """Return the product along an axis."""
    count = x.shape[axis]
    if x.size == 0:
        return filled(1, reduced(x.shape, axis), x.dtype)
    while count > 1:
        half = count // 2
        both = x.narrow(axis, 0, half) * x.narrow(axis, half, half)
        x = joined([both, x.narrow(axis, 2 * half, 1)], axis) if count % 2 else both
        count -= half
    return x


def _without_lost_zeros(product: CandleTensor, x: CandleTensor, axis: Shape) -> CandleTensor:
    """Return products with 0 for 0 times an infinity that no element was."""
    is_zero, is_wild = x == 0, ALGEBRA.isnan(x) | ALGEBRA.isinf(x)
    for a in axis:
        is_zero, is_wild = holds_any(is_zero, a), holds_any(is_wild, a)
    return where(ALGEBRA.isnan(product) & is_zero & ~is_wild, 0.0, product)


def holds_any(x: CandleTensor, axis: int) -> CandleTensor:
    """Return whether any bool along an axis is true."""
    if x.size == 0:
        return filled(False, reduced(x.shape, axis), bool_)
    return CandleTensor(x.data.max_keepdim(axis), bool_)


def reduced(shape: Shape, axis: int) -> Shape:
    """Return a shape with one axis at size 1."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def squeezed(x: CandleTensor, axis: Shape, keepdims: bool) -> CandleTensor:
    """Return what was reduced on axes, without them unless they are kept."""
    if keepdims or not axis:
        return x
    return x.reshape([n for a, n in enumerate(x.shape) if a not in axis])
