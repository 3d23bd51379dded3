"""Writing elements by index tensors: scatter, scatter_nd, select_assign, one_hot.

Writes go in row-major order of the indices: of several that assign to one place the last wins, and
sums are added up in that order.  Assigning and adding are ``scatter``; multiplying and extrema,
whose derivatives need the values, are ``scatter_reduce``; likewise for the nd form.
"""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, distinct, integers, primitive, public, sample
from pyrite.op.rule import COLLISIONS, LastWrite, Scatter
from pyrite.tensor.gathering import (
    LINES,
    VECTORS,
    Gathering,
    places_along,
    places_nd,
    selected_along,
    selected_leading,
    without,
)
from pyrite.tensor.scattering_reference import is_last_write, scattered, scattered_nd
from pyrite.types import Number, Shape, TensorType, bool_, broadcast, normalize_axis

#: What becomes of an element that is written to.
Reduction = Literal["assign", "add", "mul", "min", "max"]


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


def _scatter_axis(
    *_: TensorType, shape: Shape, axis: int, reduction: str, **asked: str
) -> Attributes:
    return {
        "shape": shape,
        "axis": normalize_axis("scatter", axis, len(shape)),
        "reduction": reduction,
        **asked,
    }


def _scatter_type(
    x: TensorType,
    indices: TensorType,
    updates: TensorType,
    *,
    shape: Shape,
    axis: int,
    reduction: Reduction,
    asked: str = "scatter",
) -> TensorType:
    selected = selected_along(asked, shape, indices, axis)
    if without(selected, axis) != without(shape, axis):
        raise ShapeError(
            f"{asked} requires indices that broadcast to {shape} but for axis {axis}, "
            f"got {indices.shape}"
        )
    return _written(asked, x, updates, shape, selected, reduction)


def _scatter_nd_type(
    x: TensorType, indices: TensorType, updates: TensorType, *, shape: Shape, reduction: Reduction
) -> TensorType:
    selected = selected_leading("scatter_nd", shape, indices)
    return _written("scatter_nd", x, updates, shape, selected, reduction)


def _is_last_nd_type(indices: TensorType, *, shape: Shape) -> TensorType:
    selected_leading("scatter_nd", shape, indices)
    return TensorType(indices.shape[:-1], bool_)


# ---- places ----


def _along(at: Any, index: Any, *_: TensorType, axis: int, of: int = 1, **__: Any) -> Any:
    """Return the place x[i, indices[i, j]], which takes updates[i, j], for axis 1."""
    return (*at[:axis], index(*at, of=of), *at[axis + 1 :])


def _selected(at: Any, index: Any, x: Any, indices: TensorType, *_: TensorType, **__: Any) -> Any:
    """Return the place x[indices[i, 0], indices[i, 1], j], which takes updates[i, j]."""
    rank = indices.ndim - 1
    return (*(index(*at[:rank], n) for n in range(indices.shape[-1])), *at[rank:])


#: What the updates of a scatter along an axis become, and where they go.
ALONG_AXIS = Scatter(
    _along, lambda *, reduction, **_: COLLISIONS[reduction], base=0, updates=2,
    points=lambda x, indices, updates, *, shape, axis, **_: (
        *shape[:axis], indices.shape[axis], *shape[axis + 1 :]
    ),
    asked=lambda *, asked="scatter", **_: asked,
)  # fmt: skip
#: The same by vectors of indices for the leading axes.
BY_VECTOR = Scatter(
    _selected, lambda *, reduction, **_: COLLISIONS[reduction], base=0, updates=2,
    points=lambda x, indices, updates, *, shape, **_: (
        indices.shape[:-1] + shape[indices.shape[-1] :]
    ),
    asked="scatter_nd",
)  # fmt: skip


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


class Scattering(Gathering):
    """Writing by index tensors."""

    __slots__ = ()

    # ---- an index along one axis ----
    @primitive(
        rule=ALONG_AXIS,
        reference=scattered,
        accumulates=True,
        canonical=_scatter_axis,
        infer=_scatter_type,
        vjp=(
            lambda g, _, _x, indices, *, shape, axis, reduction, asked: (
                g if reduction == "add"
                else g._scatter(indices, 0, shape=shape, axis=axis, reduction="assign")
            ),
            None,
            lambda g, _, _x, indices, *, shape, axis, reduction, asked: _kept_updates(
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
            for inputs in (((2, 3), LINES, (2, 4)), (0, integers((1, 4), 0, 3), (2, 1)))
        ),
    )  # fmt: skip
    def _scatter(
        self,
        indices: Self,
        updates: Self | Number,
        /,
        shape: Shape,
        axis: int,
        reduction: str,
        asked: str = "scatter",
    ) -> Self:
        """x, broadcast to a shape, with updates assigned or added at indices along an axis.

        ``asked`` is what the user called: errors name it.
        """
        ...

    @primitive(
        rule=ALONG_AXIS,
        reference=scattered,
        accumulates=True,
        canonical=_scatter_axis,
        infer=_scatter_type,
        vjp=_scatter_reduce_vjp,
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(
                distinct((2, 3), 0.5, 2), LINES, distinct((2, 4), 0.5, 2),
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
        rule=LastWrite(
            lambda at, index, *_, **attrs: _along(at, index, of=0, **attrs),
            lambda *_, shape, axis: shape,
            asked="scatter",
        ),
        reference=lambda indices, *, shape, axis: is_last_write(
            places_along("scatter", shape, indices, axis), shape
        ),
        infer=lambda indices, *, shape, axis: TensorType(
            selected_along("scatter", shape, indices, axis), bool_
        ),
        vjp=(None,),
        accepts="integer",
        samples=(sample(LINES, shape=(2, 3), axis=1),),
    )
    def _is_last_scattered(self, /, shape: Shape, axis: int) -> Self:
        """Whether no later index of a scatter, in row-major order, goes to the same place."""
        ...

    def _write_along(
        self, indices: Self, updates: Self | Number, shape: Shape, axis: int, reduction: str
    ) -> Self:
        is_linear = reduction in ("assign", "add")
        write = Scattering._scatter if is_linear else Scattering._scatter_reduce
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

    @primitive(
        rule=BY_VECTOR,
        reference=scattered_nd,
        accumulates=True,
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
            for inputs in (((2, 3), VECTORS, (4,)), (0, integers((3, 1), -2, 2), (3, 3)))
        ),
    )  # fmt: skip
    def _scatter_nd(
        self, indices: Self, updates: Self | Number, /, shape: Shape, reduction: str
    ) -> Self:
        """x, broadcast to a shape, with updates assigned or added at a vector of indices each."""
        ...

    @primitive(
        rule=BY_VECTOR,
        reference=scattered_nd,
        accumulates=True,
        infer=_scatter_nd_type,
        vjp=_scatter_nd_reduce_vjp,
        accepts="any",
        promotes=(0, 2),
        samples=tuple(
            sample(
                distinct((2, 3), 0.5, 2), VECTORS, distinct((4,), 0.5, 2),
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
        rule=LastWrite(
            lambda at, index, indices, **_: [index(*at, n, of=0) for n in range(indices.shape[-1])],
            lambda indices, *, shape: shape[: indices.shape[-1]],
            asked="scatter_nd",
        ),
        reference=lambda indices, *, shape: is_last_write(
            places_nd("scatter_nd", shape, indices), shape[: indices.shape[-1]]
        ),
        infer=_is_last_nd_type,
        vjp=(None,),
        accepts="integer",
        samples=(sample(VECTORS, shape=(2, 3)),),
    )
    def _is_last_scattered_nd(self, /, shape: Shape) -> Self:
        """Whether no later vector of indices, in row-major order, goes to the same place."""
        ...

    def _write_nd(
        self, indices: Self, updates: Self | Number, shape: Shape, reduction: str
    ) -> Self:
        is_linear = reduction in ("assign", "add")
        write = Scattering._scatter_nd if is_linear else Scattering._scatter_nd_reduce
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

    @public
    def one_hot(
        self, classes: int | None = None, *, on_value: Number = 1.0, off_value: Number = 0.0
    ) -> Self:
        """Return on_value where the last axis counts to the index: (...) -> (..., classes).

        Without ``classes`` there are as many as the greatest index says, for which it waits for the
        device.  The values say the dtype, float32 by default.  Raises IndexRangeError for an index
        outside the classes.

        >>> import pyrite
        >>> pyrite.tensor([0, 2]).one_hot(3, on_value=1, off_value=0).numpy().tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        if classes is None:
            x: Any = self
            classes = int(x.max().item()) + 1 if self.size else 0
        if classes < 0:
            raise ArgumentError(f"one_hot requires classes >= 0, got {classes}")
        shape = (*self.shape, classes)
        index = self.expand_dims(-1)
        off: Any = off_value
        found: Self = type(self)._scatter(
            off, index, on_value, shape=shape, axis=self.ndim, reduction="assign", asked="one_hot"
        )
        return found


def _over_slices(is_last: Any, g: Any, indices: Any) -> Any:
    """Return a flag per index vector stretched over the slice that it selects."""
    return is_last.reshape(is_last.shape + (1,) * (g.ndim - indices.shape[-1]))


def _require_reduction(op: str, reduction: str) -> None:
    if reduction not in get_args(Reduction):
        known = ", ".join(get_args(Reduction))
        raise ArgumentError(f"{op} requires a reduction of {known}, got {reduction!r}")
