"""A few ops under one name, as PyTorch and NumPy have them: ``x.addmm(a, b)`` is ``x + a @ b``.

None is an op: each is what its one line says, and its gradient is that of the ops in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import public
from pyrite.tensor.axis import Axis
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.spelling import Spellings
from pyrite.types import Number, broadcast, normalize_axis

#: Parts of a tensor, which may be empty and are made one by one, take 0.1 ms each.
MOST_SECTIONS = 1 << 16


class Extrema(NamedTuple):
    """The least and the greatest elements."""

    min: Any
    max: Any


class Shorthand(Spellings):
    """Names of PyTorch and NumPy for a few ops together."""

    __slots__ = ()

    # ---- elementwise ----

    @public
    def erfc(self) -> Self:
        """Return 1 - erf(x), which keeps its digits where that is small."""
        found = (widened(self) * -math.sqrt(2)).ndtr() * 2
        return in_dtype(found, self.dtype) if self.dtype.is_float else found

    @public
    def logit(self, eps: float | None = None) -> Self:
        """Return log(x / (1 - x)), the inverse of `sigmoid`; x is first clipped to eps, 1 - eps."""
        x = self if eps is None else self.clip(eps, 1 - eps)
        return x.log() - (-x).log1p()

    @public
    def heaviside(self, values: Self | Number, /) -> Self:
        """Return 0 where x < 0, 1 where x > 0, the values where x is 0, and NaN where it is NaN."""
        step = self.maximum(0).sign()
        return self.equal(0)._where(values, step)

    @public
    def fmax(self, other: Self | Number, /) -> Self:
        """Return the greater of both, and of a NaN and a number the number; see `maximum`."""
        return self._not_nan(other, self.maximum(other))

    @public
    def fmin(self, other: Self | Number, /) -> Self:
        """Return the less of both, and of a NaN and a number the number; see `minimum`."""
        return self._not_nan(other, self.minimum(other))

    def _not_nan(self, other: Self | Number, found: Self) -> Self:
        """Return what was found of both where neither is NaN, else the one that is not."""
        found = self.isnan()._where(other, found)
        if isinstance(other, Number):
            return self if math.isnan(other) else found
        return other.isnan()._where(self, found)

    @public
    def frac(self) -> Self:
        """Return the part behind the point, with the sign of x: x - trunc(x)."""
        return self - self.trunc()

    @public
    def addcmul(self, x: Self, y: Self, *, value: Number = 1) -> Self:
        """Return self + value * x * y."""
        return self + x * y * value

    @public
    def addcdiv(self, x: Self, y: Self, *, value: Number = 1) -> Self:
        """Return self + value * x / y."""
        return self + x / y * value

    # ---- products of matrices ----

    @public
    def mm(self, other: Self, /) -> Self:
        """Return the product of two matrices, which `matmul` is of any number: (M, K), (K, N)."""
        return self._times("mm", (2, 2), other)

    @public
    def mv(self, vector: Self, /) -> Self:
        """Return the product of a matrix and a vector: (M, K), (K,) -> (M,)."""
        return self._times("mv", (2, 1), vector)

    @public
    def bmm(self, other: Self, /) -> Self:
        """Return the products of a batch of matrices: (B, M, K), (B, K, N) -> (B, M, N).

        Batches are not broadcast, as `matmul` does.
        """
        if self.shape[:1] != other.shape[:1]:
            raise ShapeError(
                f"bmm requires one batch size, got {self.shape} and {other.shape}; use matmul"
            )
        return self._times("bmm", (3, 3), other)

    @public
    def addmm(self, a: Self, b: Self, /, *, beta: Number = 1, alpha: Number = 1) -> Self:
        """Return beta * self + alpha * (a @ b) of matrices; with beta=0, alpha * (a @ b)."""
        return self._added(a._times("addmm", (2, 2), b), beta, alpha)

    @public
    def addmv(self, a: Self, b: Self, /, *, beta: Number = 1, alpha: Number = 1) -> Self:
        """Return beta * self + alpha * (a @ b) of a matrix and a vector; see `addmm`."""
        return self._added(a._times("addmv", (2, 1), b), beta, alpha)

    @public
    def baddbmm(self, a: Self, b: Self, /, *, beta: Number = 1, alpha: Number = 1) -> Self:
        """Return beta * self + alpha * (a @ b) of batches of matrices; see `addmm`."""
        return self._added(a._times("baddbmm", (3, 3), b), beta, alpha)

    def _times(self, name: str, ranks: tuple[int, int], other: Self) -> Self:
        """Return the product, or raise ShapeError where the numbers of axes are others."""
        if (self.ndim, other.ndim) != ranks:
            raise ShapeError(
                f"{name} requires {ranks[0]} and {ranks[1]} axes, got {self.shape} and "
                f"{other.shape}; matmul takes any"
            )
        return self.matmul(other)

    def _added(self, product: Self, beta: Number, alpha: Number) -> Self:
        scaled = product if alpha == 1 else product * alpha
        if beta == 0:
            broadcast("addmm", self.shape, scaled.shape)
            return scaled
        return (self if beta == 1 else self * beta) + scaled

    # ---- reductions ----

    @public
    def aminmax(self, axis: Axis = None, *, keepdims: bool = False) -> Extrema:
        """Return the least and the greatest elements along the axes, of all without any."""
        return Extrema(self.min(axis, keepdims=keepdims), self.max(axis, keepdims=keepdims))

    @public
    def nansum(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return `sum` with NaN counted as 0."""
        return self.isnan()._where(0, self).sum(axis, keepdims=keepdims)

    @public
    def nanmean(self, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Return `mean` of what is not NaN; NaN where there is nothing else."""
        if not self.dtype.is_float:
            return self.mean(axis, keepdims=keepdims)
        x = widened(self)
        is_nan = x.isnan()
        total = is_nan._where(0, x).sum(axis, keepdims=keepdims)
        count = is_nan.logical_not().astype(x.dtype).sum(axis, keepdims=keepdims)
        return in_dtype(total / count, self.dtype)

    @public
    def dist(self, other: Self, p: Number = 2) -> Self:
        """Return the length of the difference, of order p: (...), (...) -> ()."""
        return (self - other).vector_norm(ord=p)

    @public
    def cdist(self, other: Self, p: Number = 2) -> Self:
        """Return the distance of each vector to each: (..., P, D), (..., R, D) -> (..., P, R).

        All differences are made, P R D elements, so that near vectors keep their digits.
        """
        if self.ndim < 2 or other.ndim < 2 or self.shape[-1] != other.shape[-1]:
            raise ShapeError(
                f"cdist requires vectors of one length, (..., P, D) and (..., R, D), got "
                f"{self.shape} and {other.shape}"
            )
        if not p >= 0:
            raise ArgumentError(f"cdist requires p >= 0, got {p}")
        return (self.expand_dims(-2) - other.expand_dims(-3)).vector_norm(-1, ord=p)

    # ---- axes ----

    @public
    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """Return it with an axis as several, one size of which may be -1: the inverse of `flatten`.

        >>> import pyrite
        >>> pyrite.zeros((2, 12)).unflatten(1, (3, -1)).shape
        (2, 3, 4)
        """
        at = normalize_axis("unflatten", axis, self.ndim)
        total, given = self.shape[at], tuple(sizes)
        known = math.prod(size for size in given if size != -1)
        # Known here: of a tensor without elements reshape cannot tell.
        filled = tuple(total // known if size == -1 and known else size for size in given)
        if math.prod(filled) != total or min(filled, default=0) < 0:
            raise ShapeError(
                f"unflatten requires sizes with the product {total}, of axis {axis}, got {given}"
            )
        return self.reshape((*self.shape[:at], *filled, *self.shape[at + 1 :]))

    @public
    def tensor_split(
        self, indices_or_sections: int | Sequence[int], axis: int = 0
    ) -> tuple[Self, ...]:
        """Return so many parts along an axis, of which the first may be longer by one.

        Or the parts between indices, as slices have them; NumPy's array_split.

        >>> import pyrite
        >>> [part.tolist() for part in pyrite.arange(5).tensor_split(3)]
        [[0, 1], [2, 3], [4]]
        """
        at = normalize_axis("tensor_split", axis, self.ndim)
        total = self.shape[at]
        if isinstance(indices_or_sections, int):
            ends = _ends(total, indices_or_sections)
        else:
            ends = list(indices_or_sections)
        between = zip([None, *ends], [*ends, None], strict=True)
        parts = [slice(begin, end).indices(total) for begin, end in between]
        return tuple(self.narrow(at, a, max(b - a, 0)) for a, b, _ in parts)

    @public
    def fliplr(self) -> Self:
        """Return it with its columns in reverse: `flip` along axis 1."""
        return self.flip(1)

    @public
    def flipud(self) -> Self:
        """Return it with its rows in reverse: `flip` along axis 0."""
        return self.flip(0)

    # ---- places ----

    @public
    def index_add(
        self, axis: int, indices: Self, source: Self | Number, *, alpha: Number = 1
    ) -> Self:
        """Return x with slices of source times alpha added at indices of an axis.

        Shapes: (..., N, ...), indices (K,), source (..., K, ...) -> (..., N, ...).
        """
        return self.select_assign(axis, indices, source * alpha, reduction="add")

    @public
    def scatter_add(self, axis: int, indices: Self, updates: Self | Number) -> Self:
        """Return `scatter` with ``reduction="add"``."""
        return self.scatter(axis, indices, updates, reduction="add")

    @public
    def bucketize(self, boundaries: Self, *, right: bool = False) -> Self:
        """Return in which bucket each element lies: `searchsorted` the other way round.

        That is i where boundaries[i - 1] < x <= boundaries[i], or with ``right`` where
        boundaries[i - 1] <= x < boundaries[i].
        """
        return boundaries.searchsorted(self, side="right" if right else "left")


def _ends(total: int, sections: int) -> list[int]:
    """Return where each section but the last ends; the first ones are longer by one."""
    if not 1 <= sections <= MOST_SECTIONS:
        raise ArgumentError(
            f"tensor_split requires 1 <= sections <= {MOST_SECTIONS}, got {sections}"
        )
    size, longer = divmod(total, sections)
    return [size * i + min(i, longer) for i in range(1, sections)]
