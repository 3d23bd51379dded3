"""Views made of movement: axes joined, dropped, added, swapped, moved and reversed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, located, public
from pyrite.op.calls import with_attributes, written_as
from pyrite.tensor.movement import Movement
from pyrite.types import TensorType, element_count, normalize_axes, normalize_axis


def _squeezed(x: TensorType, axis: int | Sequence[int] | None = None) -> Attributes:
    if axis is None:
        return {"shape": tuple([n for n in x.shape if n != 1])}
    axes = normalize_axes("squeeze", axis, x.ndim)
    if wide := [a for a in axes if x.shape[a] != 1]:
        raise ShapeError(f"squeeze requires size 1 on axis {wide[0]}, got shape {x.shape}")
    return {"shape": tuple([n for a, n in enumerate(x.shape) if a not in axes])}


def _with_new_axes(x: TensorType, axis: int | Sequence[int] = 0) -> Attributes:
    ndim = x.ndim + (len(axis) if isinstance(axis, Sequence) else 1)
    axes = normalize_axes("expand_dims", axis, ndim)
    sizes = iter(x.shape)
    return {"shape": tuple([1 if a in axes else next(sizes) for a in range(ndim)])}


def _swapped(x: TensorType, axis1: int, axis2: int) -> Attributes:
    first = normalize_axis("swap_axes", axis1, x.ndim)
    second = normalize_axis("swap_axes", axis2, x.ndim)
    axes = [*range(x.ndim)]
    axes[first], axes[second] = second, first
    return {"axes": tuple(axes)}


def _transposed(x: TensorType, axis1: int = -2, axis2: int = -1) -> Attributes:
    """Return the axes with two swapped, the last two unless others are named."""
    return _swapped(x, axis1, axis2)


class View(Movement):
    """Tensors with other axes."""

    __slots__ = ()

    @public
    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """Return the axes from start to end, both included, as one; a zero-d tensor gets one axis.

        >>> import pyrite
        >>> pyrite.zeros((2, 3, 4)).flatten(1).shape
        (2, 12)
        """
        if self.ndim == 0:
            return self.reshape(1)
        first = normalize_axis("flatten", start_axis, self.ndim)
        last = normalize_axis("flatten", end_axis, self.ndim)
        if first > last:
            raise ArgumentError(f"flatten requires start_axis <= end_axis, got {first} and {last}")
        if first == last:
            return self
        middle = element_count(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], middle, *self.shape[last + 1 :]))

    @written_as(Movement._reshape, _squeezed, of_type=True)
    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return it without the given axes, which have size 1; None means every axis of size 1."""
        ...

    @written_as(Movement._reshape, _with_new_axes, of_type=True)
    def expand_dims(self, axis: int | Sequence[int] = 0) -> Self:
        """Return it with axes of size 1 at the given places of the result.

        >>> import pyrite
        >>> pyrite.zeros((2, 3)).expand_dims((0, -1)).shape
        (1, 2, 3, 1)
        """
        ...

    @written_as(Movement.permute_dims, _swapped, of_type=True)
    def swap_axes(self, axis1: int, axis2: int) -> Self:
        """Return it with two axes swapped."""
        ...

    @written_as(Movement.permute_dims, _transposed, of_type=True)
    def transpose(self, axis1: int = -2, axis2: int = -1) -> Self:
        """Return it with two axes swapped: the last two, unless others are named."""
        ...

    # Of every linear layer that is written out: without what `swap_axes` and methods ask.
    @property
    def mT(self) -> Self:
        """Each matrix transposed: (..., M, N) -> (..., N, M)."""
        count = len(self._type.shape)
        if count < 2:
            raise located(ShapeError(f"mT requires at least 2 axes, got shape {self.shape}"))
        return _swapping(count)(self)  # type: ignore[no-any-return]

    @public
    def matrix_transpose(self) -> Self:
        """Return each matrix transposed, as ``mT``: (..., M, N) -> (..., N, M)."""
        return self.mT

    @property
    def T(self) -> Self:
        """The transpose of a matrix: (M, N) -> (N, M)."""
        if len(self._type.shape) != 2:
            raise located(ShapeError(f"T requires 2 axes, got shape {self.shape}; use mT"))
        return _turned(self)  # type: ignore[no-any-return]

    @public
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Return it with axes moved to other places, the rest in their order.

        >>> import pyrite
        >>> pyrite.zeros((2, 3, 4)).moveaxis(0, -1).shape
        (3, 4, 2)
        """
        froms = _given_axes("moveaxis", source, self.ndim)
        tos = _given_axes("moveaxis", destination, self.ndim)
        if len(froms) != len(tos):
            raise ArgumentError(
                f"moveaxis requires as many sources as destinations, got {source} and {destination}"
            )
        order = [a for a in range(self.ndim) if a not in froms]
        for to, axis in sorted(zip(tos, froms, strict=True)):
            order.insert(to, axis)
        return self.permute_dims(tuple(order))

    @public
    def flip(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return it with the order along axes reversed; None means all axes."""
        axes = normalize_axes("flip", axis, self.ndim)
        start = tuple(n - 1 if a in axes and n else 0 for a, n in enumerate(self.shape))
        step = tuple(-1 if a in axes else 1 for a in range(self.ndim))
        return self._slice(start, self.shape, step)


@cache
def _swapping(count: int) -> Callable[[Any], Any]:
    """Return what swaps the last two of so many axes."""
    return with_attributes(Movement.permute_dims, (*range(count - 2), count - 1, count - 2))


#: As a name of the module, which is looked up sooner than one that is kept.
_turned = _swapping(2)


def _given_axes(op: str, axes: int | Sequence[int], ndim: int) -> list[int]:
    """Return axes as 0 <= axis < ndim in the order in which they were given."""
    given = tuple(axes) if isinstance(axes, Sequence) else (axes,)
    normalize_axes(op, given, ndim)
    return [normalize_axis(op, a, ndim) for a in given]
