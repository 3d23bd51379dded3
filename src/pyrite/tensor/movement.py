"""Movement ops: the same values at other places.  Shapes change, arithmetic does not happen.

Six primitives carry all of movement: ``reshape``, ``permute_dims``, ``broadcast_to``, ``slice``
with its transpose ``slice_update``, and ``concat``.  A slice is (start, size, step) on every axis:
element i of an axis is element ``start + i * step`` of the input, with ``start >= 0`` and any
``step != 0``.  `rearrangement` builds further ops from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, TensorBase, primitive, public, sample
from pyrite.tensor.mathematics import Mathematics
from pyrite.types import (
    Number,
    Shape,
    TensorType,
    broadcast,
    element_count,
    normalize_axes,
    normalize_axis,
    normalize_shape,
)

T = TypeVar("T", bound="Movement")


def _one_sequence(given: tuple[int | Sequence[int], ...]) -> Sequence[int]:
    """Return sizes or axes that were given as one sequence, or as arguments of their own."""
    if len(given) == 1 and not isinstance(given[0], int):
        return given[0]
    return given  # type: ignore[return-value]


def _complete_shape(x: TensorType, *, shape: Any) -> Attributes:
    """Replace the one -1 of a reshape by the size that is left."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    known = element_count(s for s in sizes if s != -1)
    if len(unknown) > 1:
        raise ShapeError(f"reshape requires at most one size of -1, got shape {sizes}")
    if unknown:
        if known == 0 or x.size % known:
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


def _joined_axis(*xs: TensorType, axis: int) -> Attributes:
    return {"axis": normalize_axis("concat", axis, xs[0].ndim)}


def _joined(*xs: TensorType, axis: int) -> TensorType:
    def others(x: TensorType) -> Shape:
        return x.shape[:axis] + x.shape[axis + 1 :]

    first = xs[0]
    for x in xs:
        if x.ndim != first.ndim or others(x) != others(first):
            raise ShapeError(
                f"concat requires shapes that are equal but for axis {axis}, got {first.shape} "
                f"and {x.shape}"
            )
    total = sum(x.shape[axis] for x in xs)
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _parted(g: Any, _: None, *x_types: TensorType, axis: int) -> tuple[Any, ...]:
    return tuple(g.split(tuple(x.shape[axis] for x in x_types), axis))


class Movement(Mathematics):
    """Views, slices, and joining and parting of tensors."""

    __slots__ = ()

    # ---- the primitives ----

    @primitive(
        reference=lambda x, *, shape: np.reshape(x, shape),
        canonical=_complete_shape,
        infer=_reshaped,
        vjp=(lambda g, _, x_type: g.reshape(x_type.shape),),
        accepts="any",
        view=True,
        samples=(sample((2, 6), shape=(3, 4)), sample((2, 3), shape=(-1,)), sample((), shape=(1,))),
    )
    def _reshape(self, /, shape: int | Sequence[int]) -> Self:
        """The elements in row-major order as another shape, one size of which may be -1."""
        ...

    @public
    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the elements in row-major order as another shape, one size of which may be -1.

        The sizes are one tuple, or arguments of their own.  Raises ShapeError when the number of
        elements differs.

        >>> import pyrite
        >>> pyrite.arange(6).reshape(2, -1).shape
        (2, 3)
        """
        return self._reshape(_one_sequence(shape))

    @primitive(
        reference=lambda x, *, axes: np.transpose(x, axes),
        canonical=_all_axes,
        infer=_permuted,
        vjp=(lambda g, *_, axes: g.permute_dims(tuple(np.argsort(axes).tolist())),),
        accepts="any",
        view=True,
        samples=(
            sample((2, 3, 4), axes=(2, 0, 1)),
            sample((2, 0), axes=(-1, 0)),
            sample((), axes=()),
        ),
    )
    def permute_dims(self, /, axes: Sequence[int]) -> Self:
        """The axes in another order: axis i of the result is axis axes[i] of x."""
        ...

    @public
    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Return the axes in another order, as `permute_dims`: one tuple, or arguments.

        >>> import pyrite
        >>> pyrite.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return self.permute_dims(_one_sequence(axes))

    @primitive(
        reference=lambda x, *, shape: np.broadcast_to(x, shape),
        canonical=_broadcast_shape,
        infer=lambda x, *, shape: TensorType(shape, x.dtype),
        vjp=(lambda g, *_: g,),
        accepts="any",
        view=True,
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
        """Return x stretched to a shape, as `broadcast_to`: one tuple, or arguments.

        >>> import pyrite
        >>> pyrite.zeros((3, 1)).expand(3, 4).shape
        (3, 4)
        """
        return self.broadcast_to(_one_sequence(shape))

    @primitive(
        reference=lambda x, *, start, size, step: x[_subscript(start, size, step)],
        infer=_sliced,
        vjp=(
            lambda g, _, x_type, *, start, size, step: type(g)._slice_update(
                0, g, shape=x_type.shape, start=start, size=size, step=step
            ),
        ),
        accepts="any",
        view=True,
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

    @primitive(
        reference=lambda *xs, axis: np.concatenate(xs, axis),
        canonical=_joined_axis,
        infer=_joined,
        vjp=_parted,
        accepts="any",
        promotes="all",
        samples=(
            sample((2, 3), (2, 1), axis=1),
            sample((2, 3), (0, 3), (1, 3), axis=-2),
            sample((2,), axis=0),
        ),
    )
    def _concat(*tensors: Any, axis: int) -> Any:
        """Tensors one after the other along an axis."""
        ...

    # ---- axes ----

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
        middle = element_count(self.shape[first : last + 1])
        return self.reshape((*self.shape[:first], middle, *self.shape[last + 1 :]))

    @public
    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return it without the given axes, which have size 1; None means every axis of size 1."""
        if axis is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        axes = normalize_axes("squeeze", axis, self.ndim)
        if wide := [a for a in axes if self.shape[a] != 1]:
            raise ShapeError(f"squeeze requires size 1 on axis {wide[0]}, got shape {self.shape}")
        return self.reshape(tuple(n for a, n in enumerate(self.shape) if a not in axes))

    @public
    def expand_dims(self, axis: int | Sequence[int] = 0) -> Self:
        """Return it with axes of size 1 at the given places of the result.

        >>> import pyrite
        >>> pyrite.zeros((2, 3)).expand_dims((0, -1)).shape
        (1, 2, 3, 1)
        """
        ndim = self.ndim + (len(axis) if isinstance(axis, Sequence) else 1)
        axes = normalize_axes("expand_dims", axis, ndim)
        sizes = iter(self.shape)
        return self.reshape(tuple(1 if a in axes else next(sizes) for a in range(ndim)))

    unsqueeze = expand_dims

    @public
    def swap_axes(self, axis1: int, axis2: int) -> Self:
        """Return it with two axes swapped."""
        first = normalize_axis("swap_axes", axis1, self.ndim)
        second = normalize_axis("swap_axes", axis2, self.ndim)
        axes = list(range(self.ndim))
        axes[first], axes[second] = second, first
        return self.permute_dims(axes)

    swap_dims = swapaxes = swap_axes

    @public
    def transpose(self, axis1: int = -2, axis2: int = -1) -> Self:
        """Return it with two axes swapped: the last two, unless others are named."""
        return self.swap_axes(axis1, axis2)

    @property
    @public
    def mT(self) -> Self:
        """Each matrix transposed: (..., M, N) -> (..., N, M)."""
        if self.ndim < 2:
            raise ShapeError(f"mT requires at least 2 axes, got shape {self.shape}")
        return self.swap_axes(-2, -1)

    @public
    def matrix_transpose(self) -> Self:
        """Return each matrix transposed, as ``mT``: (..., M, N) -> (..., N, M)."""
        return self.mT

    @property
    @public
    def T(self) -> Self:
        """The transpose of a matrix: (M, N) -> (N, M)."""
        if self.ndim != 2:
            raise ShapeError(f"T requires 2 axes, got shape {self.shape}; use mT")
        return self.permute_dims((1, 0))

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
        return self.permute_dims(order)

    movedim = moveaxis

    # ---- parts ----

    @public
    def flip(self, axis: int | Sequence[int] | None = None) -> Self:
        """Return it with the order along axes reversed; None means all axes."""
        axes = normalize_axes("flip", axis, self.ndim)
        start = tuple(n - 1 if a in axes and n else 0 for a, n in enumerate(self.shape))
        step = tuple(-1 if a in axes else 1 for a in range(self.ndim))
        return self._slice(start, self.shape, step)

    @public
    def narrow(self, axis: int, start: int, length: int) -> Self:
        """Return ``length`` elements along an axis, from ``start`` on."""
        return self._along(normalize_axis("narrow", axis, self.ndim), start, length)

    def _along(self, axis: int, start: int, size: int, step: int = 1) -> Self:
        """Return a slice of one axis."""
        before, after = axis, self.ndim - axis - 1
        return self._slice(
            (0,) * before + (start,) + (0,) * after,
            (*self.shape[:axis], size, *self.shape[axis + 1 :]),
            (1,) * before + (step,) + (1,) * after,
        )

    @public
    def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Self, ...]:
        """Return consecutive parts along an axis: of one size, or of the sizes given.

        With one size the last part may be smaller.  Raises ShapeError when the sizes do not add up.

        >>> import pyrite
        >>> [part.shape for part in pyrite.zeros((5, 2)).split(2)]
        [(2, 2), (2, 2), (1, 2)]
        """
        along = normalize_axis("split", axis, self.ndim)
        total = self.shape[along]
        if isinstance(sizes, int):
            if sizes < 1:
                raise ArgumentError(f"split requires a size >= 1, got {sizes}")
            parts = [min(sizes, total - i) for i in range(0, total, sizes)] or [0]
        else:
            parts = list(sizes)
        if sum(parts) != total or min(parts, default=0) < 0:
            raise ShapeError(
                f"split requires sizes >= 0 that add up to {total}, got {tuple(parts)}"
            )
        starts = [sum(parts[:i]) for i in range(len(parts))]
        return tuple(self._along(along, a, n) for a, n in zip(starts, parts, strict=True))

    @public
    def chunk(self, chunks: int, axis: int = 0) -> tuple[Self, ...]:
        """Return at most ``chunks`` consecutive parts of one size; the last may be smaller."""
        if chunks < 1:
            raise ArgumentError(f"chunk requires chunks >= 1, got {chunks}")
        total = self.shape[normalize_axis("chunk", axis, self.ndim)]
        return self.split(max(1, -(-total // chunks)), axis)

    @public
    def unstack(self, axis: int = 0) -> tuple[Self, ...]:
        """Return the n slices along an axis of size n, each without that axis."""
        along = normalize_axis("unstack", axis, self.ndim)
        return tuple(self._along(along, i, 1).squeeze(along) for i in range(self.shape[along]))

    iter_dim = unstack


@public
def concat(tensors: Sequence[T], axis: int | None = 0) -> T:
    """Return tensors one after the other along an axis; with None each is flattened first.

    Raises ShapeError when sizes of other axes differ.

    >>> import pyrite
    >>> concat([pyrite.zeros((2, 3)), pyrite.ones((1, 3))]).shape
    (3, 3)
    """
    given = _tensors("concat", tensors)
    if axis is None:
        return concat([t.flatten() for t in given])
    return given[0]._concat(*given[1:], axis=axis)  # type: ignore[no-any-return]


cat = concat


@public
def stack(tensors: Sequence[T], axis: int = 0) -> T:
    """Return tensors of one shape side by side along a new axis of the result.

    >>> import pyrite
    >>> stack([pyrite.zeros((2,)), pyrite.ones((2,))], axis=1).shape
    (2, 2)
    """
    given = _tensors("stack", tensors)
    if different := [t.shape for t in given if t.shape != given[0].shape]:
        raise ShapeError(
            f"stack requires tensors of one shape, got {given[0].shape} and {different[0]}"
        )
    along = normalize_axis("stack", axis, given[0].ndim + 1)
    return concat([t.expand_dims(along) for t in given], along)


def _tensors(op: str, tensors: Sequence[T]) -> list[T]:
    found = list(tensors)
    if not found:
        raise ArgumentError(f"{op} requires at least one tensor, got none")
    if wrong := [t for t in found if not isinstance(t, TensorBase)]:
        raise DTypeError(
            f"{op} requires tensors, got {type(wrong[0]).__name__}; convert it: pyrite.tensor(...)"
        )
    return found


def _given_axes(op: str, axes: int | Sequence[int], ndim: int) -> list[int]:
    """Return axes as 0 <= axis < ndim in the order in which they were given."""
    given = tuple(axes) if isinstance(axes, Sequence) else (axes,)
    normalize_axes(op, given, ndim)
    return [normalize_axis(op, a, ndim) for a in given]
