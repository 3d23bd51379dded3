"""Tensors side by side along a certain axis, as NumPy and PyTorch name it."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.op import public
from pyrite.tensor.joining import concat
from pyrite.tensor.tensor import Tensor


@public
def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least one axis; one of one, a tuple of several."""
    return _each(tensors, 1)


@public
def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least two axes: () -> (1, 1), (N,) -> (1, N)."""
    return _each(tensors, 2)


@public
def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least three axes: (N,) -> (1, N, 1), (M, N) -> (M, N, 1)."""
    return _each(tensors, 3)


@public
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors side by side: along axis 1, vectors along their one axis.

    >>> import pyrite
    >>> hstack([pyrite.zeros((2, 1)), pyrite.ones((2, 2))]).shape
    (2, 3)
    """
    given = [_with_axes(t, 1) for t in tensors]
    return concat(given, 0 if given and given[0].ndim == 1 else 1)


@public
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one below the other: along axis 0, vectors as rows."""
    return concat([_with_axes(t, 2) for t in tensors], 0)


@public
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Return tensors one behind the other: along axis 2; see `atleast_3d`."""
    return concat([_with_axes(t, 3) for t in tensors], 2)


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return vectors as the columns of a matrix, and matrices side by side."""
    return concat([t.reshape((t.size, 1)) if t.ndim < 2 else t for t in tensors], 1)


def _each(tensors: tuple[Tensor, ...], rank: int) -> Tensor | tuple[Tensor, ...]:
    made = tuple(_with_axes(t, rank) for t in tensors)
    return made[0] if len(made) == 1 else made


def _with_axes(t: Tensor, rank: int) -> Tensor:
    """Return it with so many axes at least; NumPy's third one comes last."""
    if t.ndim >= rank:
        return t
    shapes = {1: (t.size,), 2: (1, t.size), 3: (1, t.size, 1)}
    return t.expand_dims(-1) if (t.ndim, rank) == (2, 3) else t.reshape(shapes[rank])
