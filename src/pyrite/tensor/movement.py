"""Movement ops: the same values at other places.  Shapes change, arithmetic does not happen."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import Attributes, primitive, sample
from pyrite.tensor.mathematics import Mathematics
from pyrite.types import TensorType, broadcast, element_count, normalize_axis, normalize_shape


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


def _reshaped(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
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


class Movement(Mathematics):
    """Views and rearrangements."""

    __slots__ = ()

    @primitive(
        reference=lambda x, *, shape: np.reshape(x, shape),
        canonical=_complete_shape,
        infer=_reshaped,
        vjp=(lambda g, _, x_type: g.reshape(x_type.shape),),
        view=True,
        samples=(sample((2, 6), shape=(3, 4)), sample((2, 3), shape=(-1,)), sample((), shape=(1,))),
    )
    def reshape(self, /, shape: int | tuple[int, ...]) -> Self:
        """The elements in row-major order as another shape, one size of which may be -1."""
        ...

    @primitive(
        reference=lambda x, *, axes: np.transpose(x, axes),
        canonical=_all_axes,
        infer=_permuted,
        vjp=(lambda g, *_, axes: g.permute_dims(tuple(np.argsort(axes).tolist())),),
        view=True,
        samples=(sample((2, 3, 4), axes=(2, 0, 1)),),
    )
    def permute_dims(self, /, axes: tuple[int, ...]) -> Self:
        """The axes in another order: axis i of the result is axis axes[i] of x."""
        ...

    @primitive(
        reference=lambda x, *, shape: np.broadcast_to(x, shape),
        canonical=_broadcast_shape,
        infer=lambda x, *, shape: TensorType(shape, x.dtype),
        vjp=(lambda g, *_: g,),
        view=True,
        samples=(sample((3, 1), shape=(2, 3, 4)),),
    )
    def broadcast_to(self, /, shape: tuple[int, ...]) -> Self:
        """Stretched to a shape to which it broadcasts."""
        ...
