"""Reading elements by index tensors: take_along_axis, gather_nd, take, embedding, masked_select.

Reads come in two forms, each with the write that is its transpose in `scattering`.
``take_along_axis`` has an index per element along one axis; ``gather_nd`` has a vector of indices
per element, for the leading axes.  An index runs from -n to n - 1; one outside raises
IndexRangeError, on a device that cannot stop midway when the result is next read.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.errors import DTypeError, IndexRangeError, ShapeError
from pyrite.op import Attributes, integers, primitive, public, sample
from pyrite.op.rule import ADD, Gather, Scatter
from pyrite.synchronization import asked_by, awaited
from pyrite.tensor.rearrangement import Rearrangement
from pyrite.types import Array, Number, Shape, TensorType, broadcast, normalize_axis

# ---- types ----


def require_integers(op: str, indices: TensorType) -> None:
    """Raise DTypeError unless the indices are integers."""
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"{op} requires integer indices, got {indices.dtype.name}; cast them with astype"
        )


def without(shape: Shape, axis: int) -> Shape:
    """Return a shape without one axis."""
    return shape[:axis] + shape[axis + 1 :]


def selected_along(op: str, shape: Shape, indices: TensorType, axis: int) -> Shape:
    """Return the shape of the elements that one index each selects along an axis."""
    require_integers(op, indices)
    if indices.ndim != len(shape):
        raise ShapeError(
            f"{op} requires indices with {len(shape)} axes, got {indices.shape} for {shape}"
        )
    rest = broadcast(op, without(shape, axis), without(indices.shape, axis))
    return (*rest[:axis], indices.shape[axis], *rest[axis:])


def selected_leading(op: str, shape: Shape, indices: TensorType) -> Shape:
    """Return the shape of the elements that a vector of indices each selects."""
    require_integers(op, indices)
    if indices.ndim == 0 or not 1 <= indices.shape[-1] <= len(shape):
        raise ShapeError(
            f"{op} requires 1 <= indices.shape[-1] <= {len(shape)}, got indices {indices.shape} "
            f"for {shape}"
        )
    return indices.shape[:-1] + shape[indices.shape[-1] :]


def _embedded(weight: TensorType, indices: TensorType) -> TensorType:
    require_integers("embedding", indices)
    if weight.ndim != 2:
        raise ShapeError(f"embedding requires a weight (rows, features), got {weight.shape}")
    return TensorType((*indices.shape, weight.shape[1]), weight.dtype)


def _embedding_gradient_type(indices: TensorType, g: TensorType, *, rows: int) -> TensorType:
    if g.shape[:-1] != indices.shape:
        raise ShapeError(
            f"embedding_backward requires g (..., features) with a row for each index, got "
            f"{g.shape} for indices {indices.shape}"
        )
    return TensorType((rows, g.shape[-1]), g.dtype)


def _take_axis(x: TensorType, indices: TensorType, *, axis: int) -> Attributes:
    return {"axis": normalize_axis("take", axis, x.ndim)}


def _taken(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_integers("take", indices)
    return TensorType(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)


# ---- meaning ----


def checked_indices(op: str, indices: Array, size: int, axis: int) -> Array:
    """Return indices as 0 <= index < size.  Raises IndexRangeError naming one that is outside."""
    outside = (indices >= size) | (indices < -size)
    if outside.any():
        first = int(indices[outside].flat[0])
        raise IndexRangeError(
            f"{op} requires {-size} <= index < {size} on axis {axis}, got index {first}"
        )
    whole = indices.astype(np.int64)
    return np.where(whole < 0, whole + size, whole)


def places_along(op: str, shape: Shape, indices: Array, axis: int) -> tuple[Array, ...]:
    """Return NumPy's index arrays of the elements that one index each selects along an axis."""
    places = list(np.ogrid[tuple(slice(n) for n in shape)])
    places[axis] = checked_indices(op, indices, shape[axis], axis)
    return tuple(np.broadcast_arrays(*places))


def places_nd(op: str, shape: Shape, indices: Array) -> tuple[Array, ...]:
    """Return NumPy's index arrays of the elements that a vector of indices each selects."""
    return tuple(
        checked_indices(op, indices[..., axis], shape[axis], axis)
        for axis in range(indices.shape[-1])
    )


def _taken_along(x: Any, indices: Any, *, axis: int) -> Any:
    whole = checked_indices("take_along_axis", indices, x.shape[axis], axis)
    return np.take_along_axis(x, whole, axis)


def _embedding_gradient(indices: Any, g: Any, *, rows: int) -> Any:
    out = np.zeros((rows, g.shape[-1]), g.dtype)
    np.add.at(out, checked_indices("embedding", indices, rows, 0), g)
    return out


def _take_transposed(g: Any, _: None, x_type: TensorType, indices: Any, *, axis: int) -> Any:
    """Add the slices of g up at their indices, with the axis moved to the front and back."""
    taken = tuple(range(axis, axis + indices.ndim))
    rows = g.moveaxis(taken, tuple(range(indices.ndim)))
    shape = (x_type.shape[axis], *without(x_type.shape, axis))
    return type(g)._write_nd(0, indices.expand_dims(-1), rows, shape, "add").moveaxis(0, axis)


# ---- places ----


def _selected(at: Any, index: Any, x: TensorType, indices: TensorType) -> Any:
    """Return out[i, j] = x[indices[i, 0], indices[i, 1], j]."""
    rank = indices.ndim - 1
    return (*(index(*at[:rank], n) for n in range(indices.shape[-1])), *at[rank:])


def _slice(at: Any, index: Any, x: TensorType, indices: TensorType, *, axis: int) -> Any:
    """Return out[i, j, k] = x[i, indices[j], k] for axis 1."""
    end = axis + indices.ndim
    return (*at[:axis], index(*at[axis:end]), *at[end:])


#: Indices of samples: along an axis of size 3, and into a shape (2, 3).
LINES = integers((2, 4), -3, 3)
VECTORS = integers((4, 2), -2, 2)


class Gathering(Rearrangement):
    """Reading by index tensors."""

    __slots__ = ()

    # ---- an index along one axis ----

    @primitive(
        rule=Gather(lambda at, index, *_, axis: (*at[:axis], index(*at), *at[axis + 1 :])),
        reference=_taken_along,
        canonical=lambda x, indices, *, axis: {
            "axis": normalize_axis("take_along_axis", axis, x.ndim)
        },
        infer=lambda x, indices, *, axis: TensorType(
            selected_along("take_along_axis", x.shape, indices, axis), x.dtype
        ),
        vjp=(
            lambda g, _, x_type, indices, *, axis: type(g)._scatter(
                0, indices, g, axis=axis, reduction="add",
                shape=(*g.shape[:axis], x_type.shape[axis], *g.shape[axis + 1 :]),
            ),
            None,
        ),
        accepts="any",
        samples=(
            sample((2, 3), LINES, axis=1),
            sample((3, 4), integers((2, 1), -3, 3), axis=0),
            sample((1, 3), LINES, axis=-1),
            sample((3,), integers((0,), 0, 3), axis=0),
        ),
    )  # fmt: skip
    def take_along_axis(self, indices: Self, /, axis: int = -1) -> Self:
        """The elements at an index each along an axis: out[i, j] = x[i, indices[i, j]] on axis 1.

        Shapes: (..., N, ...) with indices (..., K, ...) -> (..., K, ...); the rest broadcasts.

        >>> import pyrite
        >>> x = pyrite.tensor([[3, 1, 2], [5, 9, 7]])
        >>> x.take_along_axis(pyrite.tensor([[0], [2]]), 1).numpy().tolist()
        [[3], [7]]
        """
        ...

    # ---- a vector of indices for the leading axes ----

    @primitive(
        rule=Gather(_selected),
        reference=lambda x, indices: x[places_nd("gather_nd", x.shape, indices)],
        infer=lambda x, indices: TensorType(
            selected_leading("gather_nd", x.shape, indices), x.dtype
        ),
        vjp=(
            lambda g, _, x_type, indices: type(g)._scatter_nd(
                0, indices, g, shape=x_type.shape, reduction="add"
            ),
            None,
        ),
        accepts="any",
        samples=(
            sample((2, 3), VECTORS),
            sample((3, 2), integers((2, 2, 1), -3, 3)),
            sample((2, 3), integers((0, 2), 0, 2)),
            sample((2, 3), integers((2,), 0, 2)),
        ),
    )
    def gather_nd(self, indices: Self, /) -> Self:
        """The elements or slices at a vector of indices each.

        Shapes: (N1, ..., Nk, ...) with indices (..., k) -> (..., ...).

        >>> import pyrite
        >>> x = pyrite.tensor([[1, 2], [3, 4]])
        >>> x.gather_nd(pyrite.tensor([[1, 0], [0, 1]])).numpy().tolist()
        [3, 2]
        """
        ...

    # ---- slices of one axis ----

    @primitive(
        rule=Gather(_slice),
        reference=lambda x, indices, *, axis: np.take(
            x, checked_indices("take", indices, x.shape[axis], axis), axis
        ),
        canonical=_take_axis,
        infer=_taken,
        vjp=(_take_transposed, None),
        accepts="any",
        samples=(
            sample((3, 2), integers((2, 2), -3, 3), axis=0),
            sample((2, 3, 2), integers((4,), -3, 3), axis=1),
            sample((2, 3), integers((), 0, 3), axis=-1),
            sample((3,), integers((), -3, 3), axis=0),
        ),
    )
    def _take(self, indices: Self, /, axis: int) -> Self:
        """The slices at indices of an axis, which the axes of the indices replace."""
        ...

    @public
    def take(self, indices: Self, axis: int | None = None) -> Self:
        """Return the slices at indices of an axis, which the axes of the indices replace.

        Shapes: (..., N, ...) with indices (*K) -> (..., *K, ...).  With axis None x is flattened.

        >>> import pyrite
        >>> pyrite.tensor([[1, 2], [3, 4]]).take(pyrite.tensor([1, 1, 0]), 0).numpy().tolist()
        [[3, 4], [3, 4], [1, 2]]
        """
        return self.flatten()._take(indices, 0) if axis is None else self._take(indices, axis)

    @primitive(
        rule=Gather(lambda at, index, *_: (index(*at[:-1]), at[-1])),
        reference=lambda weight, indices: weight[
            checked_indices("embedding", indices, weight.shape[0], 0)
        ],
        infer=_embedded,
        vjp=(
            lambda g, _, weight_type, indices: indices._embedding_backward(
                g, rows=weight_type.shape[0]
            ),
            None,
        ),
        accepts="any",
        samples=(
            sample((4, 3), integers((2, 2), 0, 4)),
            sample((3, 2), integers((), 0, 3)),
            sample((3, 2), integers((0,), 0, 3)),
        ),
    )
    def embedding(self, indices: Self, /) -> Self:
        """The rows of a weight at indices: (rows, features) with (...) -> (..., features)."""
        ...

    @primitive(
        rule=Scatter(
            lambda at, index, *_, rows: (index(*at[:-1], of=0), at[-1]),
            ADD,
            updates=1,
            asked="embedding",
        ),
        reference=_embedding_gradient,
        accumulates=True,
        infer=_embedding_gradient_type,
        vjp=(None, lambda h, _, indices: h.embedding(indices)),
        accepts="any",
        samples=(sample(integers((2, 2), 0, 4), (2, 2, 3), rows=4),),
    )
    def _embedding_backward(self, g: Self, /, rows: int) -> Self:
        """Gradient of ``embedding`` for the weight: the rows of g added up at their indices."""
        ...

    # ---- choosing by value ----

    @public
    def masked_select(self, mask: Self, *, size: int | None = None, fill_value: Number = 0) -> Self:
        """Return the elements where a mask over the leading axes holds, in row-major order.

        Shapes: (*M, ...) with mask (*M) -> (count, ...).  Waits for the device to count; with
        ``size`` there are as many, the first ones, and ``fill_value`` where there are fewer.

        >>> import pyrite
        >>> x = pyrite.tensor([3, 1, 2])
        >>> x.masked_select(x > 1).numpy().tolist(), x.masked_select(x > 2, size=2).numpy().tolist()
        ([3, 2], [3, 0])
        """
        require_mask("masked_select", mask, self.shape[: mask.ndim])
        if size is None:
            if mask.ndim == 0:
                return self.expand_dims(0).masked_select(mask.expand_dims(0))
            found: Self = self.gather_nd(positions_of("masked_select", mask))
            return found
        count = mask.size
        rows = self.reshape((count, *self.shape[mask.ndim :]))
        padded = rows.pad([(0, 1), *((0, 0) for _ in rows.shape[1:])], value=fill_value)
        return padded.gather_nd(_first_positions(mask.flatten(), size, count))

    async def masked_select_async(self, mask: Self) -> Self:
        """`masked_select`, awaited: the event loop goes on while the device counts."""
        return await awaited(lambda: self.masked_select(mask))


def require_mask(op: str, mask: TensorType | Any, covered: Shape) -> None:
    """Raise unless a mask is of bools and covers axes of those sizes."""
    if not mask.dtype.is_bool:
        raise DTypeError(f"{op} requires a bool mask, got {mask.dtype.name}; compare it first")
    if mask.shape != covered:
        raise ShapeError(
            f"{op} requires a mask of the shape of the axes it covers, got mask {mask.shape} for "
            f"axes of sizes {covered}"
        )


def positions_of(op: str, mask: Any) -> Any:
    """Return the positions where a mask holds: (*M) -> (count, ndim).  Waits for the device."""
    with asked_by(op):
        return mask.argwhere()


def _first_positions(mask: Any, size: int, fill_value: int) -> Any:
    return mask.argwhere(size=size, fill_value=fill_value)
