"""Movement ops: the same values at other places.  Shapes change, arithmetic does not happen.

Five primitives, and ``concat`` of `joining`, carry all of movement: ``reshape``, ``permute_dims``,
``broadcast_to``, and ``slice`` with its transpose ``slice_update``.  `view` and `rearrangement`
build further ops from these.

A slice is (start, size, step) on every axis: element i of an axis is element ``start + i * step``
of the input, with ``start >= 0`` and any ``step != 0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, TensorBase, primitive, public, sample
from pyrite.op.calls import written_as
from pyrite.op.index import Bound, IndexMap, coordinates, permuted, reshaped, sliced
from pyrite.op.index import broadcast as broadcast_index
from pyrite.op.rule import Map, Piece, View
from pyrite.types import (
    Number,
    Shape,
    TensorType,
    broadcast,
    element_count,
    normalize_axis,
    normalize_shape,
)


def _one_sequence(given: tuple[int | Sequence[int], ...]) -> Sequence[int]:
    """Return sizes or axes that were given as one sequence, or as arguments of their own."""
    if len(given) == 1 and not isinstance(given[0], int):
        return given[0]
    return given  # type: ignore[return-value]


def _shape_given(
    *sizes: int | Sequence[int], shape: int | Sequence[int] | None = None, copy: bool | None = None
) -> Attributes:
    """Return the shape of a reshape, by its name or as arguments."""
    if shape is None:
        return {"shape": _one_sequence(sizes)}
    if sizes:
        raise ArgumentError(f"reshape requires one shape, got {sizes} and shape={shape}")
    return {"shape": shape}


def slice_along(
    shape: Shape, axis: int, start: int, size: int, step: int = 1
) -> tuple[tuple[int, ...], Shape, tuple[int, ...]]:
    """Return start, size and step of a slice of one axis."""
    before, after = axis, len(shape) - axis - 1
    starts = (0,) * before + (start,) + (0,) * after
    return starts, (*shape[:axis], size, *shape[axis + 1 :]), (1,) * before + (step,) + (1,) * after


def _complete_shape(x: TensorType, *, shape: Any) -> Attributes:
    """Replace the one -1 of a reshape by the size that is left."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    known = element_count(s for s in sizes if s != -1)
    if len(unknown) > 1:
        raise ShapeError(f"reshape requires at most one size of -1, got shape {sizes}")
    if unknown:
        if known == 0:
            raise ShapeError(
                f"reshape requires sizes >= 1 beside a -1, which could be any, got shape {sizes} "
                f"for {x.shape}; write that size, or use flatten"
            )
        if x.size % known:
            raise ShapeError(
                f"reshape requires a size that {known} divides, got {x.shape} = {x.size} "
                f"elements for shape {sizes}"
            )
        sizes = tuple(x.size // known if s == -1 else s for s in sizes)
    return {"shape": normalize_shape("reshape", sizes)}


def _reshaped(x: TensorType, *, shape: Shape) -> TensorType:
    if element_count(shape) != x.size:
        raise ShapeError(
            f"reshape requires the same number of elements, got {x.shape} = {x.size} and "
            f"{shape} = {element_count(shape)}"
        )
    return TensorType(shape, x.dtype)


def _all_axes(x: TensorType, *, axes: Any) -> Attributes:
    found = tuple(normalize_axis("permute_dims", a, x.ndim) for a in axes)
    if sorted(found) != list(range(x.ndim)):
        raise ShapeError(
            f"permute_dims requires each of {x.ndim} axes once, got axes={tuple(axes)}"
        )
    return {"axes": found}


def _permuted(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    return TensorType(tuple(x.shape[a] for a in axes), x.dtype)


def _broadcast_shape(x: TensorType, *, shape: Any) -> Attributes:
    wanted = normalize_shape("broadcast_to", shape)
    if broadcast("broadcast_to", x.shape, wanted) != wanted:
        raise ShapeError(f"broadcast_to requires sizes of 1 to stretch, got {x.shape} to {wanted}")
    return {"shape": wanted}


def _sliced(x: TensorType, *, start: Shape, size: Shape, step: tuple[int, ...]) -> TensorType:
    _require_inside("slice", x.shape, start, size, step)
    return TensorType(size, x.dtype)


def _updated(
    x: TensorType,
    value: TensorType,
    *,
    shape: Shape,
    start: Shape,
    size: Shape,
    step: tuple[int, ...],
) -> TensorType:
    if broadcast("slice_update", x.shape, shape) != shape:
        raise ShapeError(f"slice_update requires x to broadcast to {shape}, got {x.shape}")
    if broadcast("slice_update", value.shape, size) != size:
        raise ShapeError(f"slice_update requires a value for {size}, got {value.shape}")
    _require_inside("slice_update", shape, start, size, step)
    return TensorType(shape, value.dtype)


def _require_inside(op: str, shape: Shape, start: Shape, size: Shape, step: Shape) -> None:
    if not len(shape) == len(start) == len(size) == len(step):
        raise ShapeError(
            f"{op} requires start, size and step for {len(shape)} axes, got {start}, {size}, {step}"
        )
    for axis, (n, first, count, stride) in enumerate(zip(shape, start, size, step, strict=True)):
        last = first + (count - 1) * stride
        if stride == 0 or count < 0 or (count and not (0 <= first < n and 0 <= last < n)):
            raise ShapeError(
                f"{op} requires elements between 0 and {n} on axis {axis}, got start {first}, "
                f"size {count}, step {stride}"
            )


def _subscript(start: Shape, size: Shape, step: tuple[int, ...]) -> tuple[slice, ...]:
    """Return Python's slices of the same elements; a stop below 0 is spelled None there."""
    return tuple(
        slice(0, 0) if count == 0
        else slice(first, stop if (stop := first + count * stride) >= 0 else None, stride)
        for first, count, stride in zip(start, size, step, strict=True)
    )  # fmt: skip


def _update(
    x: Any, value: Any, *, shape: Shape, start: Shape, size: Shape, step: tuple[int, ...]
) -> Any:
    out = np.array(np.broadcast_to(x, shape))
    out[_subscript(start, size, step)] = value
    return out


def _update_pieces(
    x: Shape, value: Shape, *, shape: Shape, start: Shape, size: Shape, step: tuple[int, ...]
) -> list[Piece]:
    """Return the value where its slice is, and x elsewhere."""
    axes = zip(coordinates(len(shape)), start, size, step, strict=True)
    places, bounds = [], []
    for i, first, count, stride in axes:
        distance = i - first if stride > 0 else first - i
        places.append(distance // abs(stride))
        bounds += [Bound(distance % abs(stride), 0, 1), Bound(places[-1], 0, count)]
    slot = IndexMap(shape, size, tuple(places), tuple(bounds))
    updated = slot.compose(broadcast_index(value, size))
    return [Piece(updated, 1), Piece(broadcast_index(x, shape))]


class Movement(TensorBase):
    """Views and slices."""

    __slots__ = ()

    @primitive(
        rule=View(reshaped),
        reference=lambda x, *, shape: np.reshape(x, shape),
        canonical=_complete_shape,
        infer=_reshaped,
        vjp=(lambda g, _, x_type: g.reshape(x_type.shape),),
        accepts="any",
        samples=(sample((2, 6), shape=(3, 4)), sample((2, 3), shape=(-1,)), sample((), shape=(1,))),
    )
    def _reshape(self, /, shape: int | Sequence[int]) -> Self:
        """The elements in row-major order as another shape, one size of which may be -1."""
        ...

    @written_as(_reshape, _shape_given)
    def reshape(
        self,
        *sizes: int | Sequence[int],
        shape: int | Sequence[int] | None = None,
        copy: bool | None = None,
    ) -> Self:
        """Return the elements in row-major order as another shape, one size of which may be -1.

        The sizes are one tuple, also by the name ``shape``, or arguments of their own.  ``copy`` is
        the array API's and changes nothing: whether memory is shared cannot be seen.  Raises
        ShapeError when the number of elements differs.

        >>> import pyrite
        >>> pyrite.arange(6).reshape(2, -1).shape
        (2, 3)
        """
        ...

    @primitive(
        rule=View(permuted),
        reference=lambda x, *, axes: np.transpose(x, axes),
        canonical=_all_axes,
        infer=_permuted,
        vjp=(lambda g, *_, axes: g.permute_dims(tuple(np.argsort(axes).tolist())),),
        accepts="any",
        samples=(
            sample((2, 3, 4), axes=(2, 0, 1)),
            sample((2, 0), axes=(-1, 0)),
            sample((), axes=()),
        ),
    )
    def permute_dims(self, /, axes: Sequence[int]) -> Self:
        """The axes in another order: axis i of the result is axis axes[i] of x."""
        ...

    @written_as(permute_dims, lambda *axes: {"axes": _one_sequence(axes)})
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Return the axes in another order, as `permute_dims`: one tuple, or arguments.

        >>> import pyrite
        >>> pyrite.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        ...

    @primitive(
        rule=View(broadcast_index),
        reference=lambda x, *, shape: np.broadcast_to(x, shape),
        canonical=_broadcast_shape,
        infer=lambda x, *, shape: TensorType(shape, x.dtype),
        vjp=(lambda g, *_: g,),
        accepts="any",
        samples=(
            sample((3, 1), shape=(2, 3, 4)),
            sample((), shape=(2,)),
            sample((1, 2), shape=(0, 2)),
        ),
    )
    def broadcast_to(self, /, shape: Sequence[int]) -> Self:
        """Stretched to a shape to which it broadcasts."""
        ...

    @public
    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return x stretched to a shape, one tuple or arguments; -1 keeps the size of an axis.

        >>> import pyrite
        >>> pyrite.zeros((3, 1)).expand(2, -1, 4).shape
        (2, 3, 4)
        """
        sizes = _one_sequence(shape)
        if -1 in sizes:
            new = len(sizes) - self.ndim
            sizes = [
                self.shape[axis - new] if size == -1 and axis >= new else size
                for axis, size in enumerate(sizes)
            ]
        return self.broadcast_to(sizes)

    @primitive(
        rule=View(sliced),
        reference=lambda x, *, start, size, step: x[_subscript(start, size, step)],
        infer=_sliced,
        vjp=(
            lambda g, _, x_type, *, start, size, step: type(g)._slice_update(
                0, g, shape=x_type.shape, start=start, size=size, step=step
            ),
        ),
        accepts="any",
        samples=(
            sample((5, 4), start=(1, 3), size=(2, 4), step=(3, -1)),
            sample((6,), start=(0,), size=(0,), step=(1,)),
            sample((), start=(), size=(), step=()),
        ),
    )
    def _slice(self, /, start: Shape, size: Shape, step: tuple[int, ...]) -> Self:
        """The elements start + i * step of each axis, 0 <= i < size."""
        ...

    @primitive(
        rule=Map(_update_pieces),
        reference=_update,
        infer=_updated,
        vjp=(
            lambda g, *_, shape, start, size, step: g._slice_update(
                0, shape=shape, start=start, size=size, step=step
            ),
            lambda g, *_, start, size, step: g._slice(start, size, step),
        ),
        accepts="any",
        promotes="all",
        samples=(
            sample((5, 4), (2, 4), shape=(5, 4), start=(1, 3), size=(2, 4), step=(3, -1)),
            sample(0, (2, 1), shape=(3, 4), start=(0, 1), size=(2, 3), step=(2, 1)),
            sample((3,), 1.5, shape=(2, 3), start=(0, 2), size=(2, 2), step=(1, -2)),
        ),
    )
    def _slice_update(
        self,
        value: Self | Number,
        /,
        shape: Shape,
        start: Shape,
        size: Shape,
        step: tuple[int, ...],
    ) -> Self:
        """x, broadcast to a shape, with the elements of a slice replaced by a value.

        With x = 0 it is the transpose of ``slice``: the value at its places among zeros.
        """
        ...

    @public
    def narrow(self, axis: int, start: int, length: int) -> Self:
        """Return ``length`` elements along an axis, from ``start`` on."""
        return self._along(normalize_axis("narrow", axis, self.ndim), start, length)

    def _along(self, axis: int, start: int, size: int, step: int = 1) -> Self:
        """Return a slice of one axis."""
        return self._slice(*slice_along(self.shape, axis, start, size, step))
