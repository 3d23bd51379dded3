"""Reductions: many elements become one, over given axes; here those that add and multiply.

``axis`` is an int, a tuple of ints, or None for all; ``keepdims`` keeps reduced axes with size 1.

A sum or product of narrow integers is made in 32 bits, of float16 and bfloat16 in float32; wider
integers wrap around.  A sum over nothing is 0, a product 1, a mean NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.errors import DTypeError
from pyrite.op import Attributes, Sample, TensorBase, bools, integers, primitive, sample
from pyrite.op.rule import folds
from pyrite.tensor.axis import (
    Axes,
    Axis,
    axes_last,
    axes_of,
    count_over,
    reduced_shape,
    rows_of,
    span,
    spread,
)
from pyrite.tensor.gradient import in_dtype
from pyrite.types import Array, DType, DTypeLike, Shape, TensorType, default_int, uint32
from pyrite.types import dtype as as_dtype


def sum_dtype(x: DType) -> DType:
    """Return the dtype of a sum: integers at least as wide as the default, as the standard says."""
    if x.is_float or x.itemsize >= default_int.itemsize:
        return x
    return uint32 if x.kind == "uint" else default_int


def accumulation_dtype(op: str, x: DType, asked: DTypeLike | None) -> DType:
    """Return the dtype in which an op accumulates: the one asked for, or `sum_dtype`.

    Raises DTypeError when floats would be accumulated in integers.
    """
    if asked is None:
        return sum_dtype(x)
    found = as_dtype(asked)
    if found.is_bool or (x.is_float and not found.is_float):
        raise DTypeError(
            f"{op} requires a dtype to accumulate {x.name} in, got dtype={found.name}; "
            f"cast first: x.astype({found.name})"
        )
    return found


def _accumulating(op: str) -> Callable[..., Attributes]:
    axes = axes_of(op)

    def canonical(x: TensorType, *, dtype: DTypeLike | None, **rest: Any) -> Attributes:
        return {**axes(x, **rest), "dtype": accumulation_dtype(op, x.dtype, dtype)}

    return canonical


def _accumulated(x: TensorType, *, axis: Axes, dtype: DType, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), dtype)


def _sum(x: Array, *, axis: Axes, dtype: DType, keepdims: bool) -> Any:
    return _summed(x, axis, keepdims, running_dtype(dtype))


def _prod(x: Array, *, axis: Axes, dtype: DType, keepdims: bool) -> Any:
    found = np.asarray(np.prod(x, axis=axis, dtype=running_dtype(dtype), keepdims=keepdims))
    if found.dtype.kind != "f" or not np.isnan(found).any():
        return found
    is_zero = np.any(x == 0, axis=axis, keepdims=keepdims)
    is_finite = np.all(np.isfinite(x), axis=axis, keepdims=keepdims)
    return np.where(np.isnan(found) & is_zero & is_finite, 0.0, found)


def running_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the dtype in which a reference adds up or multiplies to results of a dtype."""
    return np.dtype(np.float64) if dtype.is_float else dtype.numpy


def _summed(x: Array, axis: Axes, keepdims: bool, dtype: np.dtype[Any]) -> Array:
    """Return sums over axes, added in pairs: NumPy does so along the last axis of memory only."""
    kept = reduced_shape(x.shape, axis, False)
    rows = np.ascontiguousarray(x.transpose(axes_last(x.ndim, axis)))
    rows = rows.reshape((*kept, math.prod(x.shape[a] for a in axis)))
    sums: Array = rows.sum(-1, dtype=dtype)
    return sums.reshape(reduced_shape(x.shape, axis, keepdims))


def _sum_vjp(g: Any, _: Any, x_type: TensorType, *, axis: Axes, keepdims: bool) -> Any:
    return in_dtype(spread(g, x_type, axis, keepdims), x_type.dtype)


def _prod_vjp(g: Any, _: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    others = _product_of_others(in_dtype(x, g.dtype), axis)
    return in_dtype(spread(g, x._type, axis, keepdims) * others, x.dtype)


def _product_of_others(x: Any, axis: Axes) -> Any:
    """Return for each element the product of the others that it meets.

    Without division, hence right where some are zero.
    """
    rows = rows_of(x, axis)
    last = rows.ndim - 1
    before = span(rows.cumulative_prod(last, include_initial=True), last, None, -1)
    after = span(rows.cumulative_prod(last, include_initial=True, reverse=True), last, 1, None)
    order = axes_last(x.ndim, axis)
    is_finite = rows.isfinite().all(last, keepdims=True)
    moved = times_zero(before, after, is_finite).reshape(tuple(x.shape[a] for a in order))
    return moved.permute_dims(tuple(order.index(a) for a in range(x.ndim)))


def times_zero(x: Any, y: Any, is_finite: Any) -> Any:
    """Return x * y of two products: 0 of 0 and what overflowed, where all factors are finite."""
    found = x * y
    is_lost = found.isnan() & ~x.isnan() & ~y.isnan() & is_finite
    return is_lost._where(0.0, found)


def _mean_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _mean(x: Array, *, axis: Axes, keepdims: bool) -> Any:
    # Not np.mean, which warns of an empty mean instead of returning NaN in silence.
    count = x.dtype.type(math.prod(x.shape[a] for a in axis))
    return _summed(x, axis, keepdims, x.dtype) / count


def _mean_vjp(g: Any, _: Any, x_type: TensorType, *, axis: Axes, keepdims: bool) -> Any:
    return spread(g / count_over(x_type, axis), x_type, axis, keepdims)


def samples_over(make: Callable[[Shape], Any]) -> tuple[Sample, ...]:
    """Return samples of a reduction, of inputs that are made of shapes."""
    return (
        sample(make((2, 3))),
        sample(make((2, 3, 4)), axis=(0, 2)),
        sample(make((2, 3)), axis=-1, keepdims=True),
        sample(make((2, 3)), axis=()),
        sample(make(())),
    )


def empty_samples(make: Callable[[Shape], Any]) -> tuple[Sample, ...]:
    """Return samples of a reduction over an axis of size 0, and of none of its elements."""
    return (sample(make((2, 0)), axis=1), sample(make((0, 2)), axis=1))


def _same(shape: Shape) -> Shape:
    return shape


class Reduction(TensorBase):
    """Sums, products and means over axes."""

    __slots__ = ()

    @primitive(
        rule=folds.SUM,
        reference=_sum,
        accumulates=True,
        canonical=_accumulating("sum"),
        infer=_accumulated,
        vjp=(_sum_vjp,),
        accepts="any",
        samples=(*samples_over(_same), *empty_samples(_same), sample(bools((2, 3)), axis=0)),
    )
    def sum(
        self, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Self:
        """Sum over axes; 0 over none.  Shapes: (...) -> the shape without the reduced axes.

        Without ``dtype``, bools and integers narrower than int32 are summed in int32 (unsigned ones
        in uint32) and all others in their own.  Raises DTypeError for floats summed in integers.

        >>> import pyrite
        >>> pyrite.tensor([[1, 2], [3, 4]]).sum(0).tolist()
        [4, 6]
        """
        ...

    @primitive(
        rule=folds.PRODUCT,
        reference=_prod,
        accumulates=True,
        canonical=_accumulating("prod"),
        infer=_accumulated,
        vjp=(_prod_vjp,),
        accepts="any",
        samples=(
            *samples_over(_same),
            *empty_samples(_same),
            sample(integers((2, 3), -3, 4)),
        ),
    )
    def prod(
        self, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Self:
        """Product over axes; 1 over none.  Shapes: (...) -> the shape without the reduced axes.

        ``dtype`` as in `sum`.  Finite floats with a zero give 0, also where the others overflow.
        Its derivatives hold also where elements are zero.
        """
        ...

    @primitive(
        rule=folds.MEAN,
        reference=_mean,
        accumulates=True,
        canonical=axes_of("mean"),
        infer=_mean_type,
        vjp=(_mean_vjp,),
        accepts="float",
        promotes=(0,),
        samples=samples_over(_same),
    )
    def mean(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Arithmetic mean over axes, in floating point; NaN over none.

        float16 and bfloat16 are summed and divided in float32, so the sum cannot overflow.
        """
        ...
