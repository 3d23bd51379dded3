"""Scans: each element with all before it, along one axis, in log(n) steps of whole slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.backend.candle.native import ALGEBRA, Native, native
from pyrite.backend.candle.reduction import reduced
from pyrite.backend.candle.tensor import CandleTensor, filled, joined, places, where
from pyrite.op import OPS
from pyrite.types import DType, int32

Fold = Callable[[Any, Any], Any]
Tensors = tuple[CandleTensor, ...]


class Scan(Native):
    """Running sums, products and extrema."""

    @native("cumulative_sum")
    def cumulative_sum(self, x: CandleTensor, **attrs: Any) -> CandleTensor:
        return _accumulated(lambda x, y: x + y, 0, x, **attrs)

    @native("cumulative_prod")
    def cumulative_prod(self, x: CandleTensor, **attrs: Any) -> CandleTensor:
        return _accumulated(lambda x, y: x * y, 1, x, **attrs)

    @native("cumulative_logsumexp")
    def cumulative_logsumexp(self, x: CandleTensor, *, axis: int) -> CandleTensor:
        rule = OPS["logaddexp"].scalar
        assert rule is not None
        return _scan(lambda x, y: (rule(ALGEBRA, x[0], y[0]),), (x,), axis)[0]

    @native("cumulative_argmax")
    def cumulative_argmax(self, x: CandleTensor, *, axis: int) -> CandleTensor:
        return _running_position(x, axis, lambda earlier, later: later > earlier)

    @native("cumulative_argmin")
    def cumulative_argmin(self, x: CandleTensor, *, axis: int) -> CandleTensor:
        return _running_position(x, axis, lambda earlier, later: later < earlier)

    @native("linear_recurrence")
    def linear_recurrence(
        self, x: CandleTensor, links: CandleTensor, *, axis: int, reverse: bool
    ) -> CandleTensor:
        terms = [x.narrow(axis, i, 1) for i in range(x.shape[axis])]
        order = range(links.shape[axis])
        for i in reversed(order) if reverse else order:
            to, come = (i, i + 1) if reverse else (i + 1, i)
            terms[to] = terms[to] + links.narrow(axis, i, 1) * terms[come]
        return joined(terms, axis)


def _scan(fold: Callable[[Tensors, Tensors], Tensors], parts: Tensors, axis: int) -> Tensors:
    """Fold each element with all before it, by doubling.  Source: Hillis & Steele 1986."""
    count, step = parts[0].shape[axis], 1
    while step < count:
        earlier = tuple(p.narrow(axis, 0, count - step) for p in parts)
        later = tuple(p.narrow(axis, step, count - step) for p in parts)
        folded = fold(earlier, later)
        parts = tuple(
            joined([p.narrow(axis, 0, step), f], axis) for p, f in zip(parts, folded, strict=True)
        )
        step *= 2
    return parts


def _accumulated(
    fold: Fold,
    initial: int,
    x: CandleTensor,
    *,
    axis: int,
    dtype: DType,
    include_initial: bool,
    reverse: bool,
) -> CandleTensor:
    x = ALGEBRA.cast(x, dtype.compute)
    if reverse:
        x = flipped(x, axis)
    (found,) = _scan(lambda x, y: (fold(x[0], y[0]),), (x,), axis)
    if initial == 1 and x.dtype.is_float:
        found = _without_lost_zeros(found, x, axis)
    if include_initial:
        edge = filled(initial, reduced(x.shape, axis), x.dtype)
        found = joined([edge, found], axis)
    return flipped(found, axis) if reverse else found


def _without_lost_zeros(products: CandleTensor, x: CandleTensor, axis: int) -> CandleTensor:
    """Return running products with 0 for 0 times an infinity that no element was."""
    is_wild = ALGEBRA.isnan(x) | ALGEBRA.isinf(x)
    has_zero, has_wild = _scan(
        lambda a, b: tuple(i | j for i, j in zip(a, b, strict=True)), (x == 0, is_wild), axis
    )
    return where(ALGEBRA.isnan(products) & has_zero & ~has_wild, 0.0, products)


def _running_position(x: CandleTensor, axis: int, is_beyond: Fold) -> CandleTensor:
    """Return for each element where the extreme of all up to it is; the first of equals."""
    along = [1] * x.ndim
    along[axis] = x.shape[axis]
    at = places(np.arange(x.shape[axis]).reshape(along)).broadcast_to(x.shape)

    def fold(earlier: Tensors, later: Tensors) -> Tensors:
        is_better = is_beyond(earlier[0], later[0])
        if x.dtype.is_float:
            is_better = (is_better | ALGEBRA.isnan(later[0])) & ~ALGEBRA.isnan(earlier[0])
        return tuple(where(is_better, b, a) for a, b in zip(earlier, later, strict=True))

    return CandleTensor(_scan(fold, (x, at), axis)[1].data, int32)


def flipped(x: CandleTensor, axis: int) -> CandleTensor:
    """Return the elements in reverse along an axis."""
    return x.select(axis, places(np.arange(x.shape[axis])[::-1])) if x.size else x
