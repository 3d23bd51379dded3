"""Contractions: sums of products.

One primitive, the product of matrices; the others arrange their axes around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pyrite.errors import AxisError, ShapeError
from pyrite.op import Attributes, Op, TensorBase, composite, located, primitive, sample
from pyrite.op.binding import callers
from pyrite.op.location import FAILURES
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.gradient import Gradients, by_position, chosen
from pyrite.tensor.movement import Movement
from pyrite.tensor.product_rules import LINEAR, MATMUL
from pyrite.tensor.reduction import Reduction
from pyrite.types import (
    Array,
    Shape,
    TensorType,
    broadcast,
    element_count,
    normalize_axes,
    normalize_axis,
)

# ---- matrix product ----


def _matmul_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise _mismatch(x.shape, y.shape)
    batch = broadcast("matmul", x.shape[:-2], y.shape[:-2])
    return TensorType((*batch, x.shape[-2], y.shape[-1]), x.dtype)


def _mismatch(x: Shape, y: Shape) -> ShapeError:
    if not x or not y:
        return ShapeError(f"matmul requires at least one axis on both sides, got {x} @ {y}; use *")
    inner = "y.shape[-2]" if len(y) > 1 else "y.shape[-1]"
    return ShapeError(f"matmul requires x.shape[-1] == {inner}, got {x} @ {y}")


def _matmul(x: Array, y: Array) -> Array:
    if y.ndim > 2 or x.ndim == 2:
        return np.asarray(np.matmul(x, y))
    # One product of two matrices where NumPy would multiply once for every leading index.
    rows = x.reshape(element_count(x.shape[:-1]), x.shape[-1])
    return np.asarray(np.matmul(rows, y).reshape(*x.shape[:-1], y.shape[-1]))


def _right_cotangent(g: Any, _out: None, x: Any, y_type: TensorType) -> Any:
    """Return xᵀ g, for a single matrix y as one product: no gradient per batch entry to sum up."""
    if y_type.ndim == 2 and x.ndim > 2:
        rows = element_count(x.shape[:-1])
        x, g = x.reshape((rows, x.shape[-1])), g.reshape((rows, g.shape[-1]))
    return x._swapped()._matmul(g)


# ---- arrangements of it ----


def _vecdot_axis(x: TensorType, y: TensorType, *, axis: int) -> Attributes:
    """Return the axis counted from the end, where the two shapes are aligned."""
    shortest = min(x.ndim, y.ndim)
    if not -shortest <= axis < 0:
        raise AxisError(f"vecdot requires {-shortest} <= axis < 0, got axis={axis}")
    return {"axis": int(axis)}


def _vecdot_type(x: TensorType, y: TensorType, *, axis: int) -> TensorType:
    if x.shape[axis] != y.shape[axis]:
        raise ShapeError(
            f"vecdot requires x.shape[{axis}] == y.shape[{axis}], got {x.shape} and {y.shape}"
        )
    shape = list(broadcast("vecdot", x.shape, y.shape))
    del shape[axis]
    return TensorType(tuple(shape), x.dtype)


def _dot_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim != 1 or x.shape != y.shape:
        raise ShapeError(
            f"dot requires two vectors of one length, got {x.shape} and {y.shape}; "
            "use matmul or vecdot for more axes"
        )
    return TensorType((), x.dtype)


def _matvec_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim < 2 or y.ndim < 1 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"matvec requires x.shape[-1] == y.shape[-1], got {x.shape} and {y.shape}")
    batch = broadcast("matvec", x.shape[:-2], y.shape[:-1])
    return TensorType((*batch, x.shape[-2]), x.dtype)


def _outer_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim < 1 or y.ndim < 1:
        raise ShapeError(f"outer requires at least one axis each, got {x.shape} and {y.shape}")
    batch = broadcast("outer", x.shape[:-1], y.shape[:-1])
    return TensorType((*batch, x.shape[-1], y.shape[-1]), x.dtype)


def _tensordot_axes(x: TensorType, y: TensorType, *, axes: Any) -> Attributes:
    """Both axes lists written out; ``axes=n`` means the last n of x with the first n of y."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(x.ndim, y.ndim):
            raise AxisError(
                f"tensordot requires 0 <= axes <= {min(x.ndim, y.ndim)}, got axes={axes}"
            )
        pairs = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
        return {"axes": pairs}
    first, second = ((a,) if isinstance(a, int) else tuple(a) for a in axes)
    if len(first) != len(second):
        raise AxisError(f"tensordot requires as many axes of x as of y, got axes={axes}")
    for side, of in ((first, x), (second, y)):
        normalize_axes("tensordot", side, of.ndim)
    return {
        "axes": (
            tuple(normalize_axis("tensordot", a, x.ndim) for a in first),
            tuple(normalize_axis("tensordot", a, y.ndim) for a in second),
        )
    }


def _tensordot_type(x: TensorType, y: TensorType, *, axes: tuple[Shape, Shape]) -> TensorType:
    first, second = axes
    if [x.shape[a] for a in first] != [y.shape[a] for a in second]:
        raise ShapeError(
            f"tensordot requires equal sizes along axes {first} and {second}, "
            f"got {x.shape} and {y.shape}"
        )
    return TensorType(_without(x.shape, first) + _without(y.shape, second), x.dtype)


def _without(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def _kron_type(x: TensorType, y: TensorType) -> TensorType:
    left, right = _aligned(x.shape, y.shape)
    return TensorType(tuple(m * n for m, n in zip(left, right, strict=True)), x.dtype)


def _aligned(x: Shape, y: Shape) -> tuple[Shape, Shape]:
    rank = max(len(x), len(y))
    return (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y


def _linear_type(x: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear requires x.shape[-1] == weight.shape[1], got x {x.shape} and weight "
            f"{weight.shape}; weights are (out_features, in_features)"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(
            f"linear requires bias.shape == weight.shape[:1], got bias {bias.shape} and weight "
            f"{weight.shape}"
        )
    return TensorType((*x.shape[:-1], weight.shape[0]), x.dtype)


def _linear_vjp(g: Any, _: Any, x: Any, weight: Any, *, tracked: tuple[int, ...]) -> Any:
    return by_position(g._linear_backward(x, weight, argnums=tracked), tracked, 3)


def _linear_weight_type(g: TensorType, x: TensorType) -> TensorType:
    if g.shape[:-1] != x.shape[:-1]:
        raise ShapeError(
            f"linear_weight_gradient requires g (..., O) and x (..., I) of the same rows, got "
            f"{g.shape} and {x.shape}"
        )
    return TensorType((g.shape[-1], x.shape[-1]), x.dtype)


def _linear_backward_types(
    g: TensorType, x: TensorType, weight: TensorType, *, argnums: tuple[int, ...]
) -> tuple[TensorType, ...]:
    if _linear_weight_type(g, x).shape != weight.shape:
        raise ShapeError(
            f"linear_backward requires g (..., O), x (..., I) and weight (O, I), got {g.shape}, "
            f"{x.shape} and {weight.shape}"
        )
    types = (x, weight, TensorType(weight.shape[:1], weight.dtype))
    return tuple(types[position] for position in argnums)


def _bilinear_type(
    x: TensorType, y: TensorType, weight: TensorType, bias: TensorType | None
) -> TensorType:
    fits = weight.ndim == 3 and x.shape[-1:] + y.shape[-1:] == weight.shape[1:]
    if not fits or x.shape[:-1] != y.shape[:-1]:
        raise ShapeError(
            "bilinear requires x (..., I), y (..., J) and weight (O, I, J), "
            f"got {x.shape}, {y.shape} and {weight.shape}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(
            f"bilinear requires bias.shape == weight.shape[:1], got bias {bias.shape} and weight "
            f"{weight.shape}"
        )
    return TensorType((*x.shape[:-1], weight.shape[0]), x.dtype)


class Contraction(Reduction, Movement, Arithmetic):
    """Products of matrices and vectors."""

    __slots__ = ()

    @primitive(
        rule=MATMUL,
        reference=_matmul,
        accumulates=True,
        infer=_matmul_type,
        vjp=(lambda g, _, _x, y: g._matmul(y._swapped()), _right_cotangent),
        promotes="all",
        samples=(
            sample((2, 3), (3, 4)),
            sample((2, 1, 3, 4), (5, 4, 2)),
            sample((2, 2, 3), (3, 2)),
            sample((2, 0), (0, 3)),
            sample((0, 2, 3), (3, 1)),
        ),
    )
    def _matmul(self, other: Self, /) -> Self:
        """Matrix product over the last two axes: (..., M, K) @ (..., K, N) -> (..., M, N)."""
        ...

    def _swapped(self) -> Self:
        return self.permute_dims((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    def matmul(self, other: Self, /) -> Self:
        """Matrix product: (..., M, K) @ (..., K, N) -> (..., M, N); leading axes broadcast.

        A vector on the left is one row and on the right one column, whose axis the result lacks.
        Integers wrap around.

        Raises ShapeError if the inner sizes differ or one side has no axes.

        >>> import pyrite
        >>> (pyrite.tensor([[1, 2], [3, 4]]) @ pyrite.tensor([1, 1])).numpy().tolist()
        [3, 7]
        """
        # The types' own fields: two properties are a twentieth of a small product.
        if self.__class__ is other.__class__ is TensorBase.concrete:
            if len(self._type.shape) != 1 and len(other._type.shape) != 1:
                try:  # as the method does it, with a call less
                    return callers[2](_PRODUCT, (self, other), _PRODUCT.attributes, ())  # type: ignore[no-any-return]
                except FAILURES:
                    pass  # the method says the user's line
                return Contraction._matmul(self, other)
            return self._matmul_of_vectors(other)
        if isinstance(other, TensorBase) and 1 in (len(self._type.shape), len(other._type.shape)):
            return self._matmul_of_vectors(other)
        # As a function, pyrite.matmul may be given an array: the op's error names that.
        return Contraction._matmul(self, other)

    def _matmul_of_vectors(self, other: Self) -> Self:
        x, y = self.shape, other.shape
        if not x or not y or x[-1] != (y[-2] if len(y) > 1 else y[-1]):
            raise located(_mismatch(x, y))
        left = self.reshape((1, *x)) if len(x) == 1 else self
        right = other.reshape((*y, 1)) if len(y) == 1 else other
        product = left._matmul(right)
        rows = x[-2:-1]
        columns = y[-1:] if len(y) > 1 else ()
        return product.reshape((*product.shape[:-2], *rows, *columns))

    __matmul__ = matmul

    def __rmatmul__(self, other: Any) -> Self:
        product: Self = type(self)._matmul(other, self)
        return product

    @composite(
        infer=_vecdot_type,
        canonical=_vecdot_axis,
        accepts="number",
        promotes="all",
        samples=(sample((2, 3), (2, 3)), sample((3, 1), (2, 3, 4), axis=-2)),
    )
    def vecdot(self, other: Self, /, axis: int = -1) -> Self:
        """Sum of products along an axis of both: (..., K), (..., K) -> (...); the rest broadcast.

        Raises AxisError unless axis counts from the end, where the shapes are aligned.
        """
        x, y = (t._with_axis_last(axis % t.ndim) for t in (self, other))
        product = x.reshape((*x.shape[:-1], 1, x.shape[-1]))._matmul(
            y.reshape((*y.shape, 1)),
        )
        return product.reshape(product.shape[:-2])

    def _with_axis_last(self, axis: int) -> Self:
        return self.permute_dims((*(a for a in range(self.ndim) if a != axis), axis))

    @composite(
        infer=_dot_type,
        accepts="number",
        promotes="all",
        samples=(sample((4,), (4,)), sample((0,), (0,))),
    )
    def dot(self, other: Self, /) -> Self:
        """Sum of the products of two vectors: (K), (K) -> ()."""
        return self.reshape((1, self.size))._matmul(other.reshape((other.size, 1))).reshape(())

    @composite(
        infer=_matvec_type,
        accepts="number",
        promotes="all",
        samples=(sample((2, 3), (3,)), sample((2, 2, 3), (2, 3))),
    )
    def matvec(self, vector: Self, /) -> Self:
        """Matrices times vectors: (..., M, K), (..., K) -> (..., M); leading axes broadcast."""
        product = self._matmul(vector.reshape((*vector.shape, 1)))
        return product.reshape(product.shape[:-1])

    @composite(
        infer=_outer_type,
        accepts="number",
        promotes="all",
        samples=(sample((2,), (3,)), sample((4, 2), (4, 3))),
    )
    def outer(self, other: Self, /) -> Self:
        """All products of elements: (..., M), (..., N) -> (..., M, N); leading axes broadcast."""
        *batch, size = other.shape
        return self.reshape((*self.shape, 1)) * other.reshape((*batch, 1, size))

    @composite(
        infer=_tensordot_type,
        canonical=_tensordot_axes,
        accepts="number",
        promotes="all",
        samples=(
            sample((2, 3, 4), (3, 4, 5)),
            sample((2, 3, 4), (4, 2), axes=((0, -1), (1, 0))),
            sample((2,), (3,), axes=0),
        ),
    )
    def tensordot(
        self, other: Self, /, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2
    ) -> Self:
        """Sum of products over pairs of axes; the remaining axes of x, then those of y.

        ``axes=n`` sums over the last n of x and the first n of y; ``axes=(of_x, of_y)`` names them.
        """
        pairs: Any = axes
        of_x, of_y = pairs
        rest_x = [a for a in range(self.ndim) if a not in of_x]
        rest_y = [a for a in range(other.ndim) if a not in of_y]
        shape_x = tuple(self.shape[a] for a in rest_x)
        shape_y = tuple(other.shape[a] for a in rest_y)
        inner = element_count(self.shape[a] for a in of_x)
        left = self.permute_dims((*rest_x, *of_x)).reshape((element_count(shape_x), inner))
        right = other.permute_dims((*of_y, *rest_y)).reshape((inner, element_count(shape_y)))
        return left._matmul(right).reshape(shape_x + shape_y)

    @composite(
        infer=_kron_type,
        accepts="number",
        promotes="all",
        samples=(sample((2, 3), (3, 2)), sample((2,), (2, 2))),
    )
    def kron(self, other: Self, /) -> Self:
        """Kronecker product, every element of x times all of y: (M, N), (P, Q) -> (MP, NQ)."""
        left, right = _aligned(self.shape, other.shape)
        x = self.reshape(tuple(n for m in left for n in (m, 1)))
        y = other.reshape(tuple(n for m in right for n in (1, m)))
        return (x * y).reshape(tuple(m * n for m, n in zip(left, right, strict=True)))

    # ---- layers ----

    @composite(
        rule=LINEAR,
        infer=_linear_type,
        vjp=(
            lambda g, _, _x, weight: g.matmul(weight),
            lambda g, _, x: g._linear_weight_gradient(x),
            lambda g, *_: g.sum(tuple(range(g.ndim - 1))),
        ),
        joint=_linear_vjp,
        accepts="number",
        promotes="all",
        samples=(
            sample((2, 3), (4, 3), (4,)),
            sample((2, 2, 3), (4, 3), None),
            sample((3,), (2, 3), (2,)),
        ),
    )
    def linear(self, weight: Self, bias: Self | None = None, /) -> Self:
        """x @ weight.T + bias: (..., in), (out, in), (out) -> (..., out).

        The weight is laid out as PyTorch's.
        """
        product = self.matmul(weight._swapped())
        return product if bias is None else product + bias

    @composite(
        infer=_linear_weight_type,
        vjp=(
            lambda h, _, _g, x: x.matmul(h._swapped()),
            lambda h, _, g: g.matmul(h),
        ),
        accepts="number",
        promotes="all",
        samples=(sample((2, 4), (2, 3)), sample((2, 2, 4), (2, 2, 3)), sample((4,), (3,))),
    )
    def _linear_weight_gradient(self, x: Self, /) -> Self:
        """Gradient of ``linear`` for the weight, gᵀ x of all rows: (..., O), (..., I) -> (O, I)."""
        rows = element_count(x.shape[:-1])
        x, g = x.reshape((rows, x.shape[-1])), self.reshape((rows, self.shape[-1]))
        return g._swapped()._matmul(x)

    @composite(
        infer=_linear_backward_types,
        accepts="number",
        promotes="all",
        samples=(
            sample((2, 4), (2, 3), (4, 3), argnums=(0, 1, 2)),
            sample((2, 2, 4), (2, 2, 3), (4, 3), argnums=(0, 1)),
            sample((4,), (3,), (4, 3), argnums=(1, 2)),
        ),
    )
    def _linear_backward(self, x: Self, weight: Self, /, *, argnums: tuple[int, ...]) -> Gradients:
        """Gradients of x, weight and bias of `linear`, those at ``argnums``; self is g."""
        makers = {
            0: lambda: self.matmul(weight),
            1: lambda: self._linear_weight_gradient(x),
            2: lambda: self.sum(tuple(range(self.ndim - 1))),
        }
        return chosen(makers, argnums, self.dtype)

    @composite(
        infer=_bilinear_type,
        accepts="number",
        promotes="all",
        samples=(sample((2, 3), (2, 4), (5, 3, 4), (5,)), sample((3,), (2,), (4, 3, 2), None)),
    )
    def bilinear(self, other: Self, weight: Self, bias: Self | None = None, /) -> Self:
        """xᵀ weight y + bias: (..., I), (..., J), (O, I, J), (O) -> (..., O)."""
        outputs, size_x, size_y = weight.shape
        pairs = self.outer(other).reshape((*self.shape[:-1], size_x * size_y))
        product = pairs.matmul(weight.reshape((outputs, size_x * size_y))._swapped())
        return product if bias is None else product + bias


#: As a name of the module, which is looked up sooner than one of the class.
_PRODUCT: Op = Contraction._matmul.op  # type: ignore[attr-defined]
