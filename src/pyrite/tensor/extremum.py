"""Extrema: the greatest and the least element over axes, and where they are.

What differs between machines is fixed here:

- ``max`` and ``min`` are folds of ``maximum`` and ``minimum``: NaN wins, and 0.0 is above -0.0;
- to ``argmax`` and ``argmin`` zeros are equal, NaN is the extreme, and the first of equals wins;
- an extremum of nothing is a ShapeError.

Positions are int32, the default integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.op import Attributes, Spec, composite, distinct, integers, primitive, sample
from pyrite.op.rule import folds
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import Axes, Axis, axes_of, axis_of, kept, reduced_shape, require_elements
from pyrite.tensor.gathering import Gathering
from pyrite.tensor.reduction import samples_over
from pyrite.types import Array, Shape, TensorType, default_int, normalize_axis


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


def _max_of_numbers(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    lowest = x.dtype.type(-math.inf)
    return np.asarray(np.fmax.reduce(x, axis=axis, keepdims=keepdims, initial=lowest))


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
    return _shared(g, x, is_extreme, axis)


def _max_of_numbers_vjp(g: Any, out: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    return _shared(g, x, x.equal(kept(out, x._type, axis)), axis)


def _shared(g: Any, x: Any, is_extreme: Any, axis: Axes) -> Any:
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


def _extremum_and_position_type(op: str) -> Callable[..., tuple[TensorType, TensorType]]:
    def infer(x: TensorType, *, axis: int, keepdims: bool) -> tuple[TensorType, TensorType]:
        require_elements(op, x, (axis,))
        shape = reduced_shape(x.shape, (axis,), keepdims)
        return TensorType(shape, x.dtype), TensorType(shape, default_int)

    return infer


def _argmax(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int32)


def _argmin(x: Array, *, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims), np.int32)


def _unlike_in_size(shape: Shape) -> Spec:
    return distinct(shape, -1.0, 2.0)


_POSITIONS = (
    sample(distinct((2, 3))),
    sample(distinct((2, 3, 4)), axis=1),
    sample(integers((3, 4), 0, 3), axis=-1, keepdims=True),
    sample(distinct(())),
)


class Extremum(Gathering, Arithmetic):
    """Extrema over axes, and their positions."""

    __slots__ = ()

    @primitive(
        rule=folds.MAX,
        reference=_max,
        canonical=axes_of("max"),
        infer=_extremum_type("max"),
        vjp=(_extremum_vjp,),
        accepts="any",
        samples=samples_over(distinct),
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

    @primitive(
        rule=folds.MAX_OF_NUMBERS,
        reference=_max_of_numbers,
        canonical=axes_of("max_of_numbers"),
        infer=_extremum_type("max_of_numbers"),
        vjp=(_max_of_numbers_vjp,),
        accepts="float",
        promotes="all",
        samples=samples_over(distinct),
    )
    def _max_of_numbers(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Greatest element over axes but for NaN; -inf where there is no other.

        It is for what meets the NaN again, as a sum of exponentials does.
        """
        ...

    @primitive(
        rule=folds.MIN,
        reference=_min,
        canonical=axes_of("min"),
        infer=_extremum_type("min"),
        vjp=(_extremum_vjp,),
        accepts="any",
        samples=samples_over(distinct),
    )
    def min(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Least element over axes; NaN if any is NaN.  Ties share the gradient as in `max`."""
        ...

    @primitive(
        rule=folds.ARGMAX,
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
        rule=folds.ARGMIN,
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

    @composite(
        rule=folds.MAX_AND_POSITION,
        infer=_extremum_and_position_type("max_with_indices"),
        canonical=axis_of("max_with_indices"),
        samples=_POSITIONS[1:3],
    )
    def max_with_indices(self, /, axis: int, *, keepdims: bool = False) -> tuple[Self, Self]:
        """Greatest elements along an axis and their positions, int32; of the first, among equals.

        The gradient goes to the positions, so it is not shared among ties.

        >>> import pyrite
        >>> values, indices = pyrite.tensor([[1.0, 5.0], [7.0, 2.0]]).max_with_indices(1)
        >>> values.tolist(), indices.tolist()
        ([5.0, 7.0], [1, 0])
        """
        return self._at_positions(self.argmax(axis, keepdims=True), axis, keepdims)

    @composite(
        rule=folds.MIN_AND_POSITION,
        infer=_extremum_and_position_type("min_with_indices"),
        canonical=axis_of("min_with_indices"),
        samples=_POSITIONS[1:3],
    )
    def min_with_indices(self, /, axis: int, *, keepdims: bool = False) -> tuple[Self, Self]:
        """Least elements along an axis and their positions, int32; see `max_with_indices`."""
        return self._at_positions(self.argmin(axis, keepdims=True), axis, keepdims)

    @composite(
        rule=folds.MAX_ABS,
        infer=_extremum_type("max_abs"),
        canonical=axes_of("max_abs"),
        accepts="number",
        promotes=(0,),
        samples=samples_over(_unlike_in_size),
    )
    def max_abs(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Greatest absolute value over axes."""
        return self.abs().max(axis, keepdims=keepdims)

    def _at_positions(self, indices: Self, axis: int, keepdims: bool) -> tuple[Self, Self]:
        values = self.take_along_axis(indices, axis)
        if keepdims:
            return values, indices
        shape = reduced_shape(self.shape, (axis,), False)
        return values.reshape(shape), indices.reshape(shape)
