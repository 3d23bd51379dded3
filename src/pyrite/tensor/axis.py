"""Axes: which ones an op goes over, and what becomes of a shape and of values along them.

``axis`` is an int, a tuple of ints, or None for all, as a user writes it; ``Axes`` is what ops get:
a tuple of ints that count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyrite.errors import ShapeError
from pyrite.op import Attributes
from pyrite.types import Shape, TensorType, normalize_axes, normalize_axis

Axis = int | tuple[int, ...] | None
Axes = tuple[int, ...]


def axes_of(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of a reduction over several axes: axis=None or -1 made a tuple."""

    def canonical(x: TensorType, *, axis: Axis, **rest: Any) -> Attributes:
        return {"axis": normalize_axes(op, axis, x.ndim), **rest}

    return canonical


def axis_of(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of an op along one axis: axis=-1 made positive."""

    def canonical(x: TensorType, *_: TensorType, axis: int, **rest: Any) -> Attributes:
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


def count_over(x: TensorType, axis: Axes) -> int:
    """Return how many elements meet in one element of the result."""
    return math.prod(x.shape[a] for a in axis)


def require_elements(op: str, x: TensorType, axis: Axes) -> None:
    """Raise ShapeError when a reduction that is not defined over nothing has nothing to reduce."""
    if any(x.shape[a] == 0 for a in axis):
        raise ShapeError(f"{op} requires sizes >= 1 on the reduced axes {axis}, got {x.shape}")


def span(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """Return the elements start <= i < stop along an axis, as slices count."""
    first, end, _ = slice(start, stop).indices(x.shape[axis])
    return x._along(axis, first, max(end - first, 0))


def rows_of(x: Any, axis: Axes) -> Any:
    """Return a tensor with the given axes made one, the last: the rows that a reduction reduces."""
    order = axes_last(x.ndim, axis)
    moved = x if order == tuple(range(x.ndim)) else x.permute_dims(order)
    return moved.reshape((*reduced_shape(x.shape, axis, False), count_over(x._type, axis)))


def axes_last(ndim: int, axis: Axes) -> Axes:
    """Return all axes, the given ones after the others."""
    return (*(a for a in range(ndim) if a not in axis), *axis)
