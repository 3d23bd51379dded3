"""Reading and writing elements by index tensors: gather, scatter, take, embedding.

Reads come in two forms, each with the write that is its transpose.  ``take_along_axis`` and
``scatter`` have an index per element along one axis; ``gather_nd`` and ``scatter_nd`` have a vector
of indices per element, for the leading axes.  An index runs from -n to n - 1; one outside raises
IndexRangeError, on a device that cannot stop midway when the result is next read.

Writes go in row-major order of the indices: of several that assign to one place the last wins, and
sums are added up in that order.  Assigning and adding are ``scatter``; multiplying and extrema,
whose derivatives need the values, are ``scatter_reduce``; likewise for the nd form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, get_args

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.op import Attributes, distinct, integers, primitive, public, sample
from pyrite.synchronization import awaited
from pyrite.tensor.rearrangement import Rearrangement
from pyrite.types import (
    Array,
    Number,
    Shape,
    TensorType,
    bool_,
    broadcast,
    normalize_axis,
)

#: What becomes of an element that is written to.
Reduction = Literal["assign", "add", "mul", "min", "max"]

# ---- types ----


def _require_integers(op: str, indices: TensorType) -> None:
    if not indices.dtype.is_integer:
        raise DTypeError(
            f"{op} requires integer indices, got {indices.dtype.name}; cast them with astype"
        )


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _along(op: str, shape: Shape, indices: TensorType, axis: int) -> Shape:
    """Return the shape of the elements that one index each selects along an axis."""
    _require_integers(op, indices)
    if indices.ndim != len(shape):
        raise ShapeError(
            f"{op} requires indices with {len(shape)} axes, got {indices.shape} for {shape}"
        )
    rest = broadcast(op, _without(shape, axis), _without(indices.shape, axis))
    return (*rest[:axis], indices.shape[axis], *rest[axis:])


def _leading(op: str, shape: Shape, indices: TensorType) -> Shape:
    """Return the shape of the elements that a vector of indices each selects."""
    _require_integers(op, indices)
    if indices.ndim == 0 or not 1 <= indices.shape[-1] <= len(shape):
        raise ShapeError(
            f"{op} requires 1 <= indices.shape[-1] <= {len(shape)}, got indices {indices.shape} "
            f"for {shape}"
        )
    return indices.shape[:-1] + shape[indices.shape[-1] :]


def _written(
    op: str, x: TensorType, updates: TensorType, shape: Shape, selected: Shape, reduction: str
) -> TensorType:
    """Return the type after updates of a selection, having checked that they fit."""
    if reduction != "assign" and x.dtype.is_bool:
        raise DTypeError(f"{op} requires a number dtype to {reduction}, got bool; cast it")
    if broadcast(op, updates.shape, selected) != selected:
        raise ShapeError(f"{op} requires updates of shape {selected}, got {updates.shape}")
    if broadcast(op, x.shape, shape) != shape:
        raise ShapeError(f"{op} requires x to broadcast to {shape}, got {x.shape}")
    return TensorType(shape, x.dtype)


def _scatter_axis(*_: TensorType, shape: Shape, axis: int, reduction: str) -> Attributes:
    return {
        "shape": shape,
        "axis": normalize_axis("scatter", axis, len(shape)),
        "reduction": reduction,
    }


def _scatter_type(
    x: TensorType,
    indices: TensorType,
    updates: TensorType,
    *,
    shape: Shape,
    axis: int,
    reduction: Reduction,
) -> TensorType:
    selected = _along("scatter", shape, indices, axis)
    if _without(selected, axis) != _without(shape, axis):
        raise ShapeError(
            f"scatter requires indices that broadcast to {shape} but for axis {axis}, "
            f"got {indices.shape}"
        )
    return _written("scatter", x, updates, shape, selected, reduction)


def _scatter_nd_type(
    x: TensorType, indices: TensorType, updates: TensorType, *, shape: Shape, reduction: Reduction
) -> TensorType:
    selected = _leading("scatter_nd", shape, indices)
    return _written("scatter_nd", x, updates, shape, selected, reduction)


def _embedded(weight: TensorType, indices: TensorType) -> TensorType:
    _require_integers("embedding", indices)
    if weight.ndim != 2:
        raise ShapeError(f"embedding requires a weight (rows, features), got {weight.shape}")
    return TensorType((*indices.shape, weight.shape[1]), weight.dtype)


def _take_axis(x: TensorType, indices: TensorType, *, axis: int) -> Attributes:
    return {"axis": normalize_axis("take", axis, x.ndim)}


def _taken(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    _require_integers("take", indices)
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


def _places_along(op: str, shape: Shape, indices: Array, axis: int) -> tuple[Array, ...]:
    places = list(np.ogrid[tuple(slice(n) for n in shape)])
    places[axis] = checked_indices(op, indices, shape[axis], axis)
    return tuple(np.broadcast_arrays(*places))


def _places_nd(op: str, shape: Shape, indices: Array) -> tuple[Array, ...]:
    return tuple(
        checked_indices(op, indices[..., axis], shape[axis], axis)
        for axis in range(indices.shape[-1])
    )


def _assign(out: Array, places: tuple[Array, ...], values: Array) -> None:
    out[places] = values


_WRITE: dict[str, Callable[..., None]] = {
    "assign": _assign,
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def _write(x: Any, places: tuple[Array, ...], updates: Any, shape: Shape, reduction: str) -> Array:
    out = np.array(np.broadcast_to(x, shape))
    values = np.broadcast_to(updates, out[places].shape)
    _WRITE[reduction](out, places, values)
    return out


def _scattered(
    x: Any, indices: Any, updates: Any, *, shape: Shape, axis: int, reduction: str
) -> Any:
    return _write(x, _places_along("scatter", shape, indices, axis), updates, shape, reduction)


def _scattered_nd(x: Any, indices: Any, updates: Any, *, shape: Shape, reduction: str) -> Any:
    return _write(x, _places_nd("scatter_nd", shape, indices), updates, shape, reduction)


def _is_last(places: tuple[Array, ...], shape: Shape) -> Array:
    """Return, for each write, whether no later one goes to the same place."""
    order = np.arange(places[0].size).reshape(places[0].shape)
    latest = np.full(shape, -1)
    np.maximum.at(latest, places, order)
    return np.asarray(latest[places] == order)


def _taken_along(x: Any, indices: Any, *, axis: int) -> Any:
    whole = checked_indices("take_along_axis", indices, x.shape[axis], axis)
    return np.take_along_axis(x, whole, axis)


def _embedding_gradient(indices: Any, g: Any, *, rows: int) -> Any:
    out = np.zeros((rows, g.shape[-1]), g.dtype)
    np.add.at(out, checked_indices("embedding", indices, rows, 0), g)
    return out


# ---- derivatives ----


def _kept_updates(g: Any, indices: Any, reduction: str, is_last: Any, read: Any) -> Any:
    selected = read(g, indices)
    return selected if reduction == "add" else is_last()._where(selected, 0)


def _reduced(
    g: Any, out: Any, x: Any, updates: Any, reduction: str, tracked: Any, read: Any, write: Any
) -> tuple[Any, None, Any]:
    """Return the cotangents of x and updates: a product's, or an extremum's."""
    rule = _product_cotangents if reduction == "mul" else _extremum_cotangents
    of_x, of_updates = rule(g, out, x, updates, read, write)
    return of_x() if 0 in tracked else None, None, of_updates() if 2 in tracked else None


def _product_cotangents(g: Any, _: Any, x: Any, updates: Any, read: Any, write: Any) -> Any:
    def of_x() -> Any:
        return g * write(1, updates, "mul")

    def of_updates() -> Any:
        # The product of the others, also where one of them is zero: without zeros it is a
        # quotient, and with one zero only that zero's own place has any.
        is_zero = updates.equal(0)
        safe = is_zero._where(1, updates)
        zeros = read(write(0, is_zero.astype(g.dtype), "add"))
        product = read(g * write(x, safe, "mul"))
        others = is_zero._where(
            zeros.equal(1)._where(product, 0), zeros.equal(0)._where(product, 0)
        )
        return others / safe

    return of_x, of_updates


def _extremum_cotangents(g: Any, out: Any, x: Any, updates: Any, read: Any, write: Any) -> Any:
    # Those that attain the extremum share its cotangent equally.
    from_x, from_updates = out.equal(x), read(out).equal(updates)
    share = g / write(from_x.astype(g.dtype), from_updates.astype(g.dtype), "add")
    return lambda: from_x._where(share, 0), lambda: from_updates._where(read(share), 0)


def _scatter_reduce_vjp(
    g: Any, out: Any, x: Any, indices: Any, updates: Any, *,
    shape: Shape, axis: int, reduction: str, tracked: Any,
) -> tuple[Any, None, Any]:  # fmt: skip
    def read(source: Any) -> Any:
        return source.take_along_axis(indices, axis)

    def write(onto: Any, values: Any, how: str) -> Any:
        return type(g)._write_along(onto, indices, values, shape, axis, how)

    return _reduced(g, out, x, updates, reduction, tracked, read, write)


def _scatter_nd_reduce_vjp(
    g: Any, out: Any, x: Any, indices: Any, updates: Any, *,
    shape: Shape, reduction: str, tracked: Any,
) -> tuple[Any, None, Any]:  # fmt: skip
    def read(source: Any) -> Any:
        return source.gather_nd(indices)

    def write(onto: Any, values: Any, how: str) -> Any:
        return type(g)._write_nd(onto, indices, values, shape, how)

    return _reduced(g, out, x, updates, reduction, tracked, read, write)


def _take_transposed(g: Any, _: None, x_type: TensorType, indices: Any, *, axis: int) -> Any:
    """Add the slices of g up at their indices, with the axis moved to the front and back."""
    taken = tuple(range(axis, axis + indices.ndim))
    rows = g.moveaxis(taken, tuple(range(indices.ndim)))
    shape = (x_type.shape[axis], *_without(x_type.shape, axis))
    return type(g)._write_nd(0, indices.expand_dims(-1), rows, shape, "add").moveaxis(0, axis)


_LINES = integers((2, 4), -3, 3)
_VECTORS = integers((4, 2), -2, 2)


class Gathering(Rearrangement):
    """Reading and writing by index tensors."""

    __slots__ = ()

    # ---- an index along one axis ----

    @primitive(
        reference=_taken_along,
        canonical=lambda x, indices, *, axis: {
            "axis": normalize_axis("take_along_axis", axis, x.ndim)
        },
        infer=lambda x, indices, *, axis: TensorType(
            _along("take_along_axis", x.shape, indices, axis), x.dtype
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
            sample((2, 3), _LINES, axis=1),
            sample((3, 4), integers((2, 1), -3, 3), axis=0),
            sample((1, 3), _LINES, axis=-1),
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

    @public
    def gather(self, axis: int, indices: Self) -> Self:
        """Return `take_along_axis` with PyTorch's and Burn's order of arguments."""
        return self.take_along_axis(indices, axis)

    @primitive(
        reference=_scattered,
        canonical=_scatter_axis,
        infer=_scatter_type,
        vjp=(
            lambda g, _, _x, indices, *, shape, axis, reduction: (
                g if reduction == "add"
                else g._scatter(indices, 0, shape=shape, axis=axis, reduction="assign")
            ),
            None,
            lambda g, _, _x, indices, *, shape, axis, reduction: _kept_updates(
                g, indices, reduction,
                lambda: indices._is_last_scattered(shape=shape, axis=axis),
                lambda x, i: x.take_along_axis(i, axis),
            ),
        ),
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(*inputs, shape=(2, 3), axis=1, reduction=reduction)
            for reduction in ("assign", "add")
            for inputs in (((2, 3), _LINES, (2, 4)), (0, integers((1, 4), 0, 3), (2, 1)))
        ),
    )  # fmt: skip
    def _scatter(
        self, indices: Self, updates: Self | Number, /, shape: Shape, axis: int, reduction: str
    ) -> Self:
        """x, broadcast to a shape, with updates assigned or added at indices along an axis."""
        ...

    @primitive(
        reference=_scattered,
        canonical=_scatter_axis,
        infer=_scatter_type,
        vjp=_scatter_reduce_vjp,
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(
                distinct((2, 3), 0.5, 2), _LINES, distinct((2, 4), 0.5, 2),
                shape=(2, 3), axis=-1, reduction=reduction,
            )
            for reduction in ("mul", "min", "max")
        ),
    )  # fmt: skip
    def _scatter_reduce(
        self, indices: Self, updates: Self | Number, /, shape: Shape, axis: int, reduction: str
    ) -> Self:
        """x, broadcast to a shape, multiplied by or bounded by updates at an index each."""
        ...

    @primitive(
        reference=lambda indices, *, shape, axis: _is_last(
            _places_along("scatter", shape, indices, axis), shape
        ),
        infer=lambda indices, *, shape, axis: TensorType(
            _along("scatter", shape, indices, axis), bool_
        ),
        vjp=(None,),
        accepts="integer",
        samples=(sample(_LINES, shape=(2, 3), axis=1),),
    )
    def _is_last_scattered(self, /, shape: Shape, axis: int) -> Self:
        """Whether no later index of a scatter, in row-major order, goes to the same place."""
        ...

    def _write_along(
        self, indices: Self, updates: Self | Number, shape: Shape, axis: int, reduction: str
    ) -> Self:
        is_linear = reduction in ("assign", "add")
        write = Gathering._scatter if is_linear else Gathering._scatter_reduce
        return write(self, indices, updates, shape=shape, axis=axis, reduction=reduction)

    @public
    def scatter(
        self, axis: int, indices: Self, updates: Self | Number, *, reduction: Reduction = "assign"
    ) -> Self:
        """Return x with updates at an index each along an axis: the write to `take_along_axis`.

        Shapes: (..., N, ...), indices and updates (..., K, ...) -> (..., N, ...).  ``reduction``
        says what becomes of the element there: "assign" (the last of several wins), "add", "mul",
        "min" or "max", in which x takes part.

        >>> import pyrite
        >>> index = pyrite.tensor([0, 0, 2])
        >>> pyrite.zeros((3,)).scatter(0, index, 1, reduction="add").numpy().tolist()
        [2.0, 0.0, 1.0]
        """
        _require_reduction("scatter", reduction)
        along = normalize_axis("scatter", axis, self.ndim)
        return self._write_along(indices, updates, self.shape, along, reduction)

    # ---- a vector of indices for the leading axes ----

    @primitive(
        reference=lambda x, indices: x[_places_nd("gather_nd", x.shape, indices)],
        infer=lambda x, indices: TensorType(_leading("gather_nd", x.shape, indices), x.dtype),
        vjp=(
            lambda g, _, x_type, indices: type(g)._scatter_nd(
                0, indices, g, shape=x_type.shape, reduction="add"
            ),
            None,
        ),
        accepts="any",
        samples=(
            sample((2, 3), _VECTORS),
            sample((3, 2), integers((2, 2, 1), -3, 3)),
            sample((2, 3), integers((0, 2), 0, 2)),
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

    @primitive(
        reference=_scattered_nd,
        infer=_scatter_nd_type,
        vjp=(
            lambda g, _, _x, indices, *, shape, reduction: (
                g if reduction == "add"
                else g._scatter_nd(indices, 0, shape=shape, reduction="assign")
            ),
            None,
            lambda g, _, _x, indices, *, shape, reduction: _kept_updates(
                g, indices, reduction,
                lambda: _over_slices(indices._is_last_scattered_nd(shape=shape), g, indices),
                lambda x, i: x.gather_nd(i),
            ),
        ),
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(*inputs, shape=(2, 3), reduction=reduction)
            for reduction in ("assign", "add")
            for inputs in (((2, 3), _VECTORS, (4,)), (0, integers((3, 1), -2, 2), (3, 3)))
        ),
    )  # fmt: skip
    def _scatter_nd(
        self, indices: Self, updates: Self | Number, /, shape: Shape, reduction: str
    ) -> Self:
        """x, broadcast to a shape, with updates assigned or added at a vector of indices each."""
        ...

    @primitive(
        reference=_scattered_nd,
        infer=_scatter_nd_type,
        vjp=_scatter_nd_reduce_vjp,
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(
                distinct((2, 3), 0.5, 2), _VECTORS, distinct((4,), 0.5, 2),
                shape=(2, 3), reduction=reduction,
            )
            for reduction in ("mul", "min", "max")
        ),
    )  # fmt: skip
    def _scatter_nd_reduce(
        self, indices: Self, updates: Self | Number, /, shape: Shape, reduction: str
    ) -> Self:
        """x, broadcast to a shape, multiplied by or bounded by updates at a vector of indices."""
        ...

    @primitive(
        reference=lambda indices, *, shape: _is_last(
            _places_nd("scatter_nd", shape, indices), shape[: indices.shape[-1]]
        ),
        infer=lambda indices, *, shape: TensorType(indices.shape[:-1], bool_),
        vjp=(None,),
        accepts="integer",
        samples=(sample(_VECTORS, shape=(2, 3)),),
    )
    def _is_last_scattered_nd(self, /, shape: Shape) -> Self:
        """Whether no later vector of indices, in row-major order, goes to the same place."""
        ...

    def _write_nd(
        self, indices: Self, updates: Self | Number, shape: Shape, reduction: str
    ) -> Self:
        is_linear = reduction in ("assign", "add")
        write = Gathering._scatter_nd if is_linear else Gathering._scatter_nd_reduce
        return write(self, indices, updates, shape=shape, reduction=reduction)

    @public
    def scatter_nd(
        self, indices: Self, updates: Self | Number, *, reduction: Reduction = "assign"
    ) -> Self:
        """Return x with updates at a vector of indices each: the write to `gather_nd`.

        ``reduction`` as in `scatter`.

        >>> import pyrite
        >>> pyrite.zeros((2, 2)).scatter_nd(pyrite.tensor([[0, 1]]), 5).numpy().tolist()
        [[0.0, 5.0], [0.0, 0.0]]
        """
        _require_reduction("scatter_nd", reduction)
        return self._write_nd(indices, updates, self.shape, reduction)

    # ---- slices of one axis ----

    @primitive(
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

    @public
    def index_select(self, axis: int, indices: Self) -> Self:
        """Return `take` with PyTorch's order of arguments; Burn's select."""
        return self._take(indices, axis)

    @public
    def select_assign(
        self, axis: int, indices: Self, values: Self | Number, *, reduction: Reduction = "assign"
    ) -> Self:
        """Return x with values at the slices at indices of an axis: the write to `index_select`.

        Shapes: (..., N, ...), indices (K,), values (..., K, ...) -> (..., N, ...).
        """
        _require_reduction("select_assign", reduction)
        along = normalize_axis("select_assign", axis, self.ndim)
        front = self.moveaxis(along, 0)
        if not isinstance(values, Number):
            values = values.broadcast_to(
                (*self.shape[:along], indices.size, *self.shape[along + 1 :])
            ).moveaxis(along, 0)
        written = front._write_nd(indices.expand_dims(-1), values, front.shape, reduction)
        return written.moveaxis(0, along)

    @primitive(
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
        reference=_embedding_gradient,
        infer=lambda indices, g, *, rows: TensorType((rows, g.shape[-1]), g.dtype),
        vjp=(None, lambda h, _, indices: h.embedding(indices)),
        accepts="any",
        samples=(sample(integers((2, 2), 0, 4), (2, 2, 3), rows=4),),
    )
    def _embedding_backward(self, g: Self, /, rows: int) -> Self:
        """Gradient of ``embedding`` for the weight: the rows of g added up at their indices."""
        ...

    # ---- choosing by value ----

    @public
    def one_hot(self, classes: int, *, on_value: Number = 1.0, off_value: Number = 0.0) -> Self:
        """Return on_value where the last axis counts to the index: (...) -> (..., classes).

        The values say the dtype, float32 by default.  Raises IndexRangeError for an index outside
        the classes.

        >>> import pyrite
        >>> pyrite.tensor([0, 2]).one_hot(3, on_value=1, off_value=0).numpy().tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        if classes < 0:
            raise ArgumentError(f"one_hot requires classes >= 0, got {classes}")
        shape = (*self.shape, classes)
        index = self.expand_dims(-1)
        off: Any = off_value
        found: Self = type(self)._scatter(
            off, index, on_value, shape=shape, axis=self.ndim, reduction="assign"
        )
        return found

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
            found: Self = self.gather_nd(positions_of(mask))
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


def positions_of(mask: Any) -> Any:
    """Return the positions where a mask holds: (*M) -> (count, ndim).  Waits for the device."""
    return mask.argwhere()


def _first_positions(mask: Any, size: int, fill_value: int) -> Any:
    return mask.argwhere(size=size, fill_value=fill_value)


def _over_slices(is_last: Any, g: Any, indices: Any) -> Any:
    """Return a flag per index vector stretched over the slice that it selects."""
    return is_last.reshape(is_last.shape + (1,) * (g.ndim - indices.shape[-1]))


def _require_reduction(op: str, reduction: str) -> None:
    if reduction not in get_args(Reduction):
        known = ", ".join(get_args(Reduction))
        raise ArgumentError(f"{op} requires a reduction of {known}, got {reduction!r}")
