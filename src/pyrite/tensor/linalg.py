"""Linear algebra without decompositions: norms, distances and angles."""

from __future__ import annotations

import math
from typing import Any, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, public, sample
from pyrite.op.rule import folds
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import Axis, kept, reduced_shape, require_elements
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.contraction import Contraction
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.reduction import Reduction
from pyrite.types import Number, Shape, TensorType, broadcast, normalize_axes, normalize_axis

# ---- norms ----


def _norm_attributes(x: TensorType, *, axis: Axis, ord: Number, keepdims: bool) -> Attributes:
    if math.isnan(ord):
        raise ArgumentError(f"vector_norm requires a number as ord, got {ord}")
    axes = normalize_axes("vector_norm", axis, x.ndim)
    return {"axis": axes, "keepdims": keepdims, "ord": float(ord)}


def _norm_type(x: TensorType, *, axis: Shape, ord: float, keepdims: bool) -> TensorType:
    if ord < 0 or ord == math.inf:
        require_elements(f"vector_norm with ord={ord}", x, axis)
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _norm_cotangent(g: Any, out: Any, x: Any, *, axis: Shape, ord: float) -> tuple[Any]:
    """g sign(x) (|x| / norm) ** (ord - 1); 0 where the norm has no derivative, at x = 0.

    Elements that share an extreme magnitude share the gradient of ord = inf and -inf.
    """
    g, norm = kept(g, x._type, axis), kept(out, x._type, axis)
    if ord == 0:
        return (None,)
    if ord == 1:
        return (g * x.sign(),)
    if math.isinf(ord):
        share = x.abs().equal(norm).astype(g.dtype)
        return (g * x.sign() * share / share.sum(axis, keepdims=True),)
    is_zero = norm.equal(0)
    unit = is_zero._where(1, norm)
    if ord == 2:
        return (g * is_zero._where(0, x / unit),)
    is_zero = x.equal(0)
    ratio = is_zero._where(1, x.abs() / unit)
    return (g * is_zero._where(0, x.sign() * ratio ** (ord - 1)),)


# ---- pairs ----


def _aligned_axis(op: str, x: TensorType, y: TensorType, axis: int) -> int:
    """Return the axis counted from the end, where the shapes are aligned; both must have it."""
    rank = max(x.ndim, y.ndim)
    found = normalize_axis(op, axis, rank) - rank
    if min(x.ndim, y.ndim) < -found or x.shape[found] != y.shape[found]:
        raise ShapeError(
            f"{op} requires equal sizes along axis {axis}, got {x.shape} and {y.shape}"
        )
    return found


def _cross_attributes(x: TensorType, y: TensorType, *, axis: int) -> Attributes:
    return {"axis": _aligned_axis("cross", x, y, axis)}


def _cross_type(x: TensorType, y: TensorType, *, axis: int) -> TensorType:
    if x.shape[axis] != 3:
        raise ShapeError(f"cross requires size 3 along its axis, got {x.shape} and {y.shape}")
    return TensorType(broadcast("cross", x.shape, y.shape), x.dtype)


def _cosine_attributes(x: TensorType, y: TensorType, *, axis: int, eps: float) -> Attributes:
    return {"axis": _aligned_axis("cosine_similarity", x, y, axis), "eps": float(eps)}


def _cosine_type(x: TensorType, y: TensorType, *, axis: int, eps: float) -> TensorType:
    shape = list(broadcast("cosine_similarity", x.shape, y.shape))
    del shape[axis]
    return TensorType(tuple(shape), x.dtype)


def _trace_type(x: TensorType, *, offset: int) -> TensorType:
    if x.ndim < 2:
        raise ShapeError(f"trace requires at least two axes, got {x.shape}")
    return TensorType(x.shape[:-2], x.dtype)


class LinearAlgebra(Contraction, Extremum, Reduction, Comparison, Arithmetic):
    """Norms, distances and angles of vectors, traces of matrices."""

    __slots__ = ()

    @composite(
        infer=_trace_type,
        accepts="number",
        promotes="all",
        samples=(sample((3, 3)), sample((2, 2, 4), offset=1), sample((3, 2), offset=-5)),
    )
    def trace(self, /, *, offset: int = 0) -> Self:
        """Sum of the diagonals of the last two axes: (..., M, N) -> (...).

        ``offset`` is how far the diagonal lies to the right of the main one.
        """
        return in_dtype(self.diagonal(offset).sum(-1), self.dtype)

    # ---- norms ----

    @composite(
        rule=folds.NORM,
        infer=_norm_type,
        canonical=_norm_attributes,
        vjp=_norm_cotangent,
        accepts="float",
        promotes="all",
        samples=(
            sample((2, 3)),
            sample((2, 3, 2), axis=(0, -1), ord=3, keepdims=True),
            sample((2, 3), axis=1, ord=1),
            sample((4,), ord=math.inf),
            sample((4,), ord=-math.inf),
            sample((2, 3), axis=0, ord=0.5),
            sample((3,), ord=-2),
            sample((2, 0), axis=1),
        ),
    )
    def vector_norm(self, /, axis: Axis = None, *, keepdims: bool = False, ord: Number = 2) -> Self:
        """(sum |x| ** ord) ** (1 / ord) over the axes: (..., N) -> (...).

        ``ord`` inf and -inf mean the greatest and least |x|, and 0 the number of elements that are
        not 0.  The gradient at x = 0 is 0.

        >>> import pyrite
        >>> pyrite.tensor([3.0, 4.0]).vector_norm().item()
        5.0
        """
        x = widened(self)
        return in_dtype(x._norm(axis, keepdims, float(ord)), self.dtype)

    def _norm(self, axis: Axis, keepdims: bool, ord: float) -> Self:
        if ord == 0:
            return self.not_equal(0).astype(self.dtype).sum(axis, keepdims=keepdims)
        if ord == 2:
            return self.square().sum(axis, keepdims=keepdims).sqrt()
        x = self.abs()
        if ord == 1:
            return x.sum(axis, keepdims=keepdims)
        if math.isinf(ord):
            extremum = x.max if ord > 0 else x.min
            return extremum(axis, keepdims=keepdims)
        return (x**ord).sum(axis, keepdims=keepdims) ** (1 / ord)

    @public
    def vector_normalize(self, p: Number = 2, axis: Axis = -1, *, eps: float = 1e-12) -> Self:
        """Return x / max(norm, eps), vectors of length 1: (..., N) -> (..., N)."""
        return self / self.vector_norm(axis, keepdims=True, ord=p).maximum(eps)

    # ---- pairs ----

    @composite(
        infer=_cosine_type,
        canonical=_cosine_attributes,
        accepts="float",
        promotes="all",
        samples=(sample((2, 3), (2, 3)), sample((3, 1), (2, 3, 2), axis=-2)),
    )
    def cosine_similarity(self, other: Self, /, axis: int = -1, *, eps: float = 1e-8) -> Self:
        """Cosine of the angle between vectors: (..., N), (..., N) -> (...); the rest broadcast.

        x · y / (max(|x|, eps) max(|y|, eps)), so that it is 0 for a vector of zeros.
        """
        x, y = widened(self), widened(other)
        lengths = (t.vector_norm(axis).maximum(eps) for t in (x, y))
        cosine = x.vecdot(y, axis)
        for length in lengths:
            cosine = cosine / length
        return in_dtype(cosine, self.dtype)

    @public
    def pairwise_distance(
        self, other: Self, p: Number = 2, *, eps: float = 1e-6, keepdims: bool = False
    ) -> Self:
        """p-norm of x - y + eps over the last axis: (..., N), (..., N) -> (...), as PyTorch's."""
        return (self - other + eps).vector_norm(-1, keepdims=keepdims, ord=p)

    @composite(
        infer=_cross_type,
        canonical=_cross_attributes,
        accepts="signed",
        promotes="all",
        samples=(sample((2, 3), (2, 3)), sample((3, 1), (2, 3, 2), axis=1)),
    )
    def cross(self, other: Self, /, axis: int = -1) -> Self:
        """Cross product of vectors of three: (..., 3), (..., 3) -> (..., 3); the rest broadcast."""
        next_x, last_x = self.roll(-1, axis), self.roll(1, axis)
        next_y, last_y = other.roll(-1, axis), other.roll(1, axis)
        return next_x * last_y - last_x * next_y
