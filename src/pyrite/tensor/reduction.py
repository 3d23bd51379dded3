"""Reductions: many elements become one, over given axes.

``axis`` is an int, a tuple of ints, or None for all axes; ``keepdims`` keeps reduced axes with size 1.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.op import Attributes, primitive, sample
from pyrite.tensor.indexing import Indexing
from pyrite.types import DType, Shape, TensorType, default_int, normalize_axes, uint32

Axis = int | tuple[int, ...] | None


def axes_of(op: str) -> Any:
    """Return the canonical rule of a reduction over several axes: axis=None or -1 made a tuple."""

    def canonical(x: TensorType, *, axis: Axis, **rest: Any) -> Attributes:
        return {"axis": normalize_axes(op, axis, x.ndim), **rest}

    return canonical


def reduced_shape(shape: Shape, axis: tuple[int, ...], keepdims: bool) -> Shape:
    """Return the shape after a reduction.

    >>> reduced_shape((2, 3, 4), (1,), True)
    (2, 1, 4)
    """
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def spread(g: Any, x_type: TensorType, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return a reduced tensor stretched back over the axes that it was reduced on."""
    if not keepdims:
        g = g.reshape(reduced_shape(x_type.shape, axis, True))
    return g.broadcast_to(x_type.shape)


def sum_dtype(x: DType) -> DType:
    """Return the dtype of a sum: integers at least as wide as the default, as the standard says."""
    if x.is_float or x.itemsize >= default_int.itemsize:
        return x
    return uint32 if x.kind == "uint" else default_int


def _sum_type(x: TensorType, *, axis: tuple[int, ...], keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), sum_dtype(x.dtype))


def _sum(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    kind = {"b": np.int32, "i": np.int32, "u": np.uint32}.get(x.dtype.kind)
    dtype = kind if kind and x.dtype.itemsize < 4 else x.dtype
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=dtype)


class Reduction(Indexing):
    """Sums, extrema and what is made of them."""

    __slots__ = ()

    @primitive(
        reference=_sum,
        canonical=axes_of("sum"),
        infer=_sum_type,
        vjp=(lambda g, _, x_type, *, axis, keepdims: spread(g, x_type, axis, keepdims),),
        accepts="any",
        samples=(
            sample((2, 3)),
            sample((2, 3, 4), axis=(0, 2)),
            sample((2, 3), axis=-1, keepdims=True),
        ),
    )
    def sum(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Sum over axes; 0 over none.  Integers narrower than int32 and bools are summed in int32."""
        ...
