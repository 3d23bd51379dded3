"""Reductions: many elements become one, over given axes.

``axis`` is an int, a tuple of ints, or None for all; ``keepdims`` keeps reduced axes with size 1.

What differs between machines is fixed here:

- ``max`` and ``min`` are folds of ``maximum`` and ``minimum``: NaN wins, and 0.0 is above -0.0;
- to ``argmax`` and ``argmin`` zeros are equal, NaN is the extreme, and the first of equals wins;
- a sum or product of narrow integers is made in 32 bits, of float16 and bfloat16 in float32; wider
  integers wrap around;
- a sum over nothing is 0, a product 1, ``any`` False, ``all`` True; an extremum is a ShapeError.

Positions are int32, the default integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.errors import DTypeError, ShapeError
from pyrite.op import (
    Attributes,
    Sample,
    Spec,
    bools,
    composite,
    distinct,
    integers,
    primitive,
    sample,
)
from pyrite.tensor.indexing import Indexing
from pyrite.types import (
    Array,
    DType,
    DTypeLike,
    Number,
    Shape,
    TensorType,
    bool_,
    default_int,
    normalize_axes,
    normalize_axis,
    uint32,
)
from pyrite.types import dtype as as_dtype

Axis = int | tuple[int, ...] | None
Axes = tuple[int, ...]


def axes_of(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of a reduction over several axes: axis=None or -1 made a tuple."""

    def canonical(x: TensorType, *, axis: Axis, **rest: Any) -> Attributes:
        return {"axis": normalize_axes(op, axis, x.ndim), **rest}

    return canonical


def axis_of(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of an op along one axis: axis=-1 made positive."""

    def canonical(x: TensorType, *, axis: int, **rest: Any) -> Attributes:
        return {"axis": normalize_axis(op, axis, x.ndim), **rest}

    return canonical


def reduced_shape(shape: Shape, axis: Axes, keepdims: bool) -> Shape:
    """Return the shape after a reduction.

    >>> reduced_shape((2, 3, 4), (1,), True)
    (2, 1, 4)
    """
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def kept(reduced: Any, x_type: TensorType, axis: Axes) -> Any:
    """Return a reduced tensor with its reduced axes at size 1, whether they were kept or not."""
    return reduced.reshape(reduced_shape(x_type.shape, axis, True))


def spread(g: Any, x_type: TensorType, axis: Axes, keepdims: bool) -> Any:
    """Return a reduced tensor stretched back over the axes that it was reduced on."""
    if not keepdims:
        g = kept(g, x_type, axis)
    return g.broadcast_to(x_type.shape)


def in_dtype(x: Any, dtype: DType) -> Any:
    """Return a tensor in a dtype, itself where it has it already."""
    return x if x.dtype is dtype else x.astype(dtype)


def count_over(x: TensorType, axis: Axes) -> int:
    """Return how many elements meet in one element of the result."""
    return math.prod(x.shape[a] for a in axis)


def span(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """Return the elements start <= i < stop along an axis, as slices count."""
    first, end, _ = slice(start, stop).indices(x.shape[axis])
    return x._along(axis, first, max(end - first, 0))


def rows_of(x: Any, axis: Axes) -> Any:
    """Return a tensor with the given axes made one, the last: the rows that a reduction reduces."""
    order = _axes_last(x.ndim, axis)
    moved = x if order == tuple(range(x.ndim)) else x.permute_dims(order)
    return moved.reshape((*reduced_shape(x.shape, axis, False), count_over(x._type, axis)))


def _axes_last(ndim: int, axis: Axes) -> Axes:
    return (*(a for a in range(ndim) if a not in axis), *axis)


# ---- sums and products ----


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
    return np.sum(x, axis=axis, dtype=dtype.compute.numpy, keepdims=keepdims)


def _prod(x: Array, *, axis: Axes, dtype: DType, keepdims: bool) -> Any:
    return np.prod(x, axis=axis, dtype=dtype.compute.numpy, keepdims=keepdims)


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
    order = _axes_last(x.ndim, axis)
    moved = (before * after).reshape(tuple(x.shape[a] for a in order))
    return moved.permute_dims(tuple(order.index(a) for a in range(x.ndim)))


def _mean_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _mean(x: Array, *, axis: Axes, keepdims: bool) -> Any:
    # Not np.mean, which warns of an empty mean instead of returning NaN in silence.
    count = x.dtype.type(math.prod(x.shape[a] for a in axis))
    return np.sum(x, axis=axis, keepdims=keepdims) / count


def _mean_vjp(g: Any, _: Any, x_type: TensorType, *, axis: Axes, keepdims: bool) -> Any:
    return spread(g / count_over(x_type, axis), x_type, axis, keepdims)


# ---- extrema ----


def require_elements(op: str, x: TensorType, axis: Axes) -> None:
    """Raise ShapeError when a reduction that is not defined over nothing has nothing to reduce."""
    if any(x.shape[a] == 0 for a in axis):
        raise ShapeError(f"{op} requires sizes >= 1 on the reduced axes {axis}, got {x.shape}")


def _extremum_type(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
        require_elements(op, x, axis)
        return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)

    return infer


def _max(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    greatest = np.asarray(np.max(x, axis=axis, keepdims=keepdims))
    if x.dtype.kind != "f" or np.all(greatest):
        return greatest
    has_plus = np.any((x == 0) & ~np.signbit(x), axis=axis, keepdims=keepdims)
    return np.where(greatest == 0, _zero(x, ~has_plus), greatest)


def _min(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    least = np.asarray(np.min(x, axis=axis, keepdims=keepdims))
    if x.dtype.kind != "f" or np.all(least):
        return least
    has_minus = np.any((x == 0) & np.signbit(x), axis=axis, keepdims=keepdims)
    return np.where(least == 0, _zero(x, has_minus), least)


def _zero(x: Array, is_negative: Any) -> Array:
    """Return zeros of a given sign: NumPy leaves open which of 0.0 and -0.0 is an extremum."""
    return np.asarray(np.where(is_negative, x.dtype.type(-0.0), x.dtype.type(0.0)))


def _extremum_vjp(g: Any, out: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Ties share the cotangent equally; it goes to the NaNs where there are any."""
    is_extreme = x.equal(kept(out, x._type, axis)).logical_or(x.not_equal(x))
    share = is_extreme.astype(g.dtype)
    return kept(g, x._type, axis) * share / share.sum(axis, keepdims=True)


def _optional_axis_of(op: str) -> Callable[..., Attributes]:
    def canonical(x: TensorType, *, axis: int | None, **rest: Any) -> Attributes:
        return {"axis": None if axis is None else normalize_axis(op, axis, x.ndim), **rest}

    return canonical


def _position_type(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int | None, keepdims: bool) -> TensorType:
        axes = tuple(range(x.ndim)) if axis is None else (axis,)
        require_elements(op, x, axes)
        return TensorType(reduced_shape(x.shape, axes, keepdims), default_int)

    return infer


def _argmax(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int32)


def _argmin(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims), np.int32)


# ---- truth ----


def _truth_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), bool_)


def _samples(make: Callable[[Shape], Any]) -> tuple[Sample, ...]:
    return (
        sample(make((2, 3))),
        sample(make((2, 3, 4)), axis=(0, 2)),
        sample(make((2, 3)), axis=-1, keepdims=True),
        sample(make((2, 3)), axis=()),
        sample(make(())),
    )


def _over_nothing(make: Callable[[Shape], Any]) -> tuple[Sample, ...]:
    return (sample(make((2, 0)), axis=1), sample(make((0, 2)), axis=1))


def _same(shape: Shape) -> Shape:
    return shape


def _unlike_in_size(shape: Shape) -> Spec:
    return distinct(shape, -1.0, 2.0)


_POSITIONS = (
    sample(distinct((2, 3))),
    sample(distinct((2, 3, 4)), axis=1),
    sample(integers((3, 4), 0, 3), axis=-1, keepdims=True),
    sample(distinct(())),
)


class Reduction(Indexing):
    """Sums, products, extrema and truth over axes."""

    __slots__ = ()

    # ---- sums and products ----

    @primitive(
        reference=_sum,
        canonical=_accumulating("sum"),
        infer=_accumulated,
        vjp=(_sum_vjp,),
        accepts="any",
        samples=(*_samples(_same), *_over_nothing(_same), sample(bools((2, 3)), axis=0)),
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
        reference=_prod,
        canonical=_accumulating("prod"),
        infer=_accumulated,
        vjp=(_prod_vjp,),
        accepts="any",
        samples=(*_samples(_same), *_over_nothing(_same), sample(integers((2, 3), -3, 4))),
    )
    def prod(
        self, /, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> Self:
        """Product over axes; 1 over none.  Shapes: (...) -> the shape without the reduced axes.

        ``dtype`` as in `sum`.  Its derivatives hold also where elements are zero.
        """
        ...

    @primitive(
        reference=_mean,
        canonical=axes_of("mean"),
        infer=_mean_type,
        vjp=(_mean_vjp,),
        accepts="float",
        promotes=(0,),
        samples=_samples(_same),
    )
    def mean(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Arithmetic mean over axes, in floating point; NaN over none.

        float16 and bfloat16 are summed and divided in float32, so the sum cannot overflow.
        """
        ...

    # ---- extrema ----

    @primitive(
        reference=_max,
        canonical=axes_of("max"),
        infer=_extremum_type("max"),
        vjp=(_extremum_vjp,),
        accepts="any",
        samples=_samples(distinct),
    )
    def max(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Greatest element over axes; NaN if any is NaN.

        Ties share the gradient equally, as in JAX and torch.amax; `max_with_indices` gives it to
        the first.  Raises ShapeError over an axis of size 0.

        >>> import pyrite
        >>> pyrite.tensor([[1.0, 5.0], [7.0, 2.0]]).max(1).tolist()
        [5.0, 7.0]
        """
        ...

    amax = max

    @primitive(
        reference=_min,
        canonical=axes_of("min"),
        infer=_extremum_type("min"),
        vjp=(_extremum_vjp,),
        accepts="any",
        samples=_samples(distinct),
    )
    def min(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Least element over axes; NaN if any is NaN.  Ties share the gradient as in `max`."""
        ...

    amin = min

    @primitive(
        reference=_argmax,
        canonical=_optional_axis_of("argmax"),
        infer=_position_type("argmax"),
        vjp=(None,),
        accepts="any",
        samples=_POSITIONS,
    )
    def argmax(self, /, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Position of the greatest element along an axis, int32; of the first, where several are.

        NaN counts as greatest.  ``axis=None`` gives the position in row-major order.  Raises
        ShapeError over an axis of size 0.

        >>> import pyrite
        >>> pyrite.tensor([[1.0, 5.0], [7.0, 7.0]]).argmax(1).tolist()
        [1, 0]
        """
        ...

    @primitive(
        reference=_argmin,
        canonical=_optional_axis_of("argmin"),
        infer=_position_type("argmin"),
        vjp=(None,),
        accepts="any",
        samples=_POSITIONS,
    )
    def argmin(self, /, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """Position of the least element along an axis, int32; of the first, where several are.

        NaN counts as least.  Raises ShapeError over an axis of size 0.
        """
        ...

    @composite(canonical=axis_of("max_with_indices"), samples=_POSITIONS[1:3])
    def max_with_indices(self, /, axis: int, *, keepdims: bool = False) -> tuple[Self, Self]:
        """Greatest elements along an axis and their positions, int32; of the first, among equals.

        The gradient goes to the positions, so it is not shared among ties.

        >>> import pyrite
        >>> values, indices = pyrite.tensor([[1.0, 5.0], [7.0, 2.0]]).max_with_indices(1)
        >>> values.tolist(), indices.tolist()
        ([5.0, 7.0], [1, 0])
        """
        return self._at_positions(self.argmax(axis, keepdims=True), axis, keepdims)

    max_dim_with_indices = max_with_indices

    @composite(canonical=axis_of("min_with_indices"), samples=_POSITIONS[1:3])
    def min_with_indices(self, /, axis: int, *, keepdims: bool = False) -> tuple[Self, Self]:
        """Least elements along an axis and their positions, int32; see `max_with_indices`."""
        return self._at_positions(self.argmin(axis, keepdims=True), axis, keepdims)

    min_dim_with_indices = min_with_indices

    @composite(canonical=axes_of("max_abs"), samples=_samples(_unlike_in_size))
    def max_abs(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Greatest absolute value over axes."""
        return self.abs().max(axis, keepdims=keepdims)

    def _at_positions(self, indices: Self, axis: int, keepdims: bool) -> tuple[Self, Self]:
        values = self.take_along_axis(indices, axis)
        if keepdims:
            return values, indices
        shape = reduced_shape(self.shape, (axis,), False)
        return values.reshape(shape), indices.reshape(shape)

    # ---- truth ----

    @primitive(
        reference=lambda x, *, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims),
        canonical=axes_of("any"),
        infer=_truth_type,
        vjp=(None,),
        accepts="any",
        samples=(*_samples(bools), *_over_nothing(bools), sample((2, 3), axis=0)),
    )
    def any(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether any element over axes is not zero, as bool; False over none.  NaN is not zero."""
        ...

    @primitive(
        reference=lambda x, *, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims),
        canonical=axes_of("all"),
        infer=_truth_type,
        vjp=(None,),
        accepts="any",
        samples=(*_samples(bools), *_over_nothing(bools), sample((2, 3), axis=0)),
    )
    def all(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether every element over axes is not zero, as bool; True over none."""
        ...

    @composite(canonical=axes_of("count_nonzero"), vjp=(None,), samples=_samples(bools))
    def count_nonzero(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """How many elements over axes are not zero, int32.  NaN is not zero."""
        return self.astype("bool").sum(axis, keepdims=keepdims)

    @composite(vjp=(None,), samples=(sample((2, 3)), sample(())))
    def contains_nan(self, /) -> Self:
        """Whether any element is NaN, a bool of shape ()."""
        return self.not_equal(self).any()

    @composite(vjp=(None, None), promotes=(0, 1), samples=(sample((2, 3), (3,)),))
    def allclose(
        self,
        other: Self | Number,
        /,
        *,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Self:
        """Whether all elements are close, as `isclose` says, a bool of shape ()."""
        return self.isclose(other, rtol=rtol, atol=atol, equal_nan=equal_nan).all()

    all_close = allclose
