"""Cumulative ops: each element becomes the sum or product of all up to it, along one axis.

Every gradient here is again a scan, in time that grows with the axis and not with its square: the
one of a product is a `linear_recurrence`, which needs no division and so is right at zeros too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.errors import ArgumentError, AxisError, ShapeError
from pyrite.op import (
    Attributes,
    Fold,
    Recurrence,
    Sample,
    Scan,
    composite,
    distinct,
    integers,
    primitive,
    public,
    sample,
)
from pyrite.op.rule import folds
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import axis_of, span
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.gathering import Gathering
from pyrite.tensor.gradient import in_dtype
from pyrite.tensor.joining import concat
from pyrite.tensor.mathematics import logaddexp_rule
from pyrite.tensor.reduction import accumulation_dtype, running_dtype, times_zero
from pyrite.types import Array, DType, DTypeLike, TensorType, normalize_axis

# ---- sums and products ----


def _scanning(op: str) -> Callable[..., Attributes]:
    def canonical(
        x: TensorType, *, axis: int | None, dtype: DTypeLike | None, **rest: bool
    ) -> Attributes:
        if axis is None and x.ndim != 1:
            raise AxisError(f"{op} requires an axis for a shape that is not (N,), got {x.shape}")
        return {
            "axis": normalize_axis(op, 0 if axis is None else axis, x.ndim),
            "dtype": accumulation_dtype(op, x.dtype, dtype),
            **rest,
        }

    return canonical


def _scanned(
    x: TensorType, *, axis: int, dtype: DType, include_initial: bool, reverse: bool
) -> TensorType:
    sizes = list(x.shape)
    sizes[axis] += include_initial
    return TensorType(tuple(sizes), dtype)


def _scan(fold: np.ufunc, initial: int) -> Callable[..., Array]:
    """Return the reference of a running fold that starts from a value."""

    def reference(
        x: Array, *, axis: int, dtype: DType, include_initial: bool, reverse: bool
    ) -> Array:
        kind = running_dtype(dtype)
        ordered = np.flip(x, axis) if reverse else x
        found: Array = fold.accumulate(ordered, axis=axis, dtype=kind)
        if fold is np.multiply and kind.kind == "f":
            found = _without_lost_zeros(found, ordered, axis)
        if include_initial:
            edge = np.full_like(found, initial, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
            found = np.concatenate([edge, found], axis)
        return np.flip(found, axis) if reverse else found

    return reference


def _without_lost_zeros(products: Array, x: Array, axis: int) -> Array:
    """Return running products with 0 for 0 times an infinity that no element was."""
    is_nan = np.isnan(products)
    if not is_nan.any():
        return products
    is_zero = np.logical_or.accumulate(x == 0, axis=axis)
    is_finite = np.logical_and.accumulate(np.isfinite(x), axis=axis)
    return np.where(is_nan & is_zero & is_finite, 0.0, products)


def _without_initial(g: Any, axis: int, include_initial: bool, reverse: bool) -> Any:
    """Return the cotangent without that of the initial value, which is a constant."""
    if not include_initial:
        return g
    return span(g, axis, None, -1) if reverse else span(g, axis, 1, None)


def _cumulative_sum_vjp(
    g: Any, _: Any, x_type: TensorType, *, axis: int, include_initial: bool, reverse: bool
) -> Any:
    g = _without_initial(g, axis, include_initial, reverse)
    return in_dtype(g.cumulative_sum(axis, reverse=not reverse), x_type.dtype)


def _cumulative_prod_vjp(
    g: Any, _: Any, x: Any, *, axis: int, include_initial: bool, reverse: bool
) -> Any:
    """With p_i the product before i: dx_i = p_i r_i, where r_i = g_i + x_{i+1} r_{i+1}."""
    g = _without_initial(g, axis, include_initial, reverse)
    wide = in_dtype(x, g.dtype)
    products = wide.cumulative_prod(axis, include_initial=True, reverse=reverse)
    before = span(products, axis, 1, None) if reverse else span(products, axis, None, -1)
    links = span(wide, axis, None, -1) if reverse else span(wide, axis, 1, None)
    rest = g._linear_recurrence(links, axis=axis, reverse=not reverse)
    is_finite = wide.isfinite().all(axis, keepdims=True)
    return in_dtype(times_zero(before, rest, is_finite), x.dtype)


_SCANS = (
    sample((4,)),
    sample((2, 3, 2), axis=1),
    sample((2, 3), axis=-1, include_initial=True),
    sample((2, 3), axis=-1, include_initial=True, reverse=True),
    sample((3, 2), axis=0, reverse=True),
    sample((0,)),
    sample((2, 0), axis=1, include_initial=True),
    sample(integers((5,), 0, 4)),
)


# ---- differences ----


def _diff_attributes(x: TensorType, *ends: TensorType | None, axis: int, n: int) -> Attributes:
    if n < 0:
        raise ArgumentError(f"diff requires n >= 0, got {n}")
    if x.ndim == 0:
        raise ShapeError("diff requires at least one axis, got shape ()")
    at = normalize_axis("diff", axis, x.ndim)
    # What does not fit is refused later, by the join.
    size = sum(t.shape[at] for t in (x, *ends) if t is not None and at < t.ndim)
    return {"axis": at, "n": min(int(n), size)}


# ---- recurrence ----


def _recurrence_axis(x: TensorType, links: TensorType, *, axis: int, reverse: bool) -> Attributes:
    return {"axis": normalize_axis("linear_recurrence", axis, x.ndim), "reverse": reverse}


def _recurrence_type(x: TensorType, links: TensorType, *, axis: int, reverse: bool) -> TensorType:
    sizes = list(x.shape)
    sizes[axis] = max(sizes[axis] - 1, 0)
    if links.shape != tuple(sizes):
        raise ShapeError(
            f"linear_recurrence requires links of shape {tuple(sizes)}, one fewer than x on axis "
            f"{axis}, got {links.shape}"
        )
    return x


def _recurrence(x: Array, links: Array, *, axis: int, reverse: bool) -> Array:
    step = -1 if reverse else 1
    terms = np.moveaxis(x, axis, 0)[::step]
    factors = np.moveaxis(links, axis, 0)[::step]
    found = np.array(terms)
    for i in range(1, len(found)):
        found[i] += factors[i - 1] * found[i - 1]
    return np.moveaxis(found[::step], 0, axis)


def _terms_vjp(g: Any, _: Any, _x: Any, links: Any, *, axis: int, reverse: bool) -> Any:
    return g._linear_recurrence(links, axis=axis, reverse=not reverse)


def _links_vjp(g: Any, out: Any, _x: Any, links: Any, *, axis: int, reverse: bool) -> Any:
    reach = g._linear_recurrence(links, axis=axis, reverse=not reverse)
    if reverse:
        return span(reach, axis, None, -1) * span(out, axis, 1, None)
    return span(reach, axis, 1, None) * span(out, axis, None, -1)


# ---- logarithm of sums ----


def _joined_logarithms(k: Any, s: Any, t: Any) -> tuple[Any]:
    """Return log(exp(x) + exp(y)), which is y where x is the logarithm of no sum.

    That is asked by its bits: where x is known to be -inf, a driver of NVIDIA's makes log 2 of
    log1p(exp(x - y)) in float64 (seen on an H200).
    """
    (x,), (y,) = s, t
    return (k.where(k.isinf(x) & k.signbit(x), y, logaddexp_rule(k, x, y)),)


_LOG_OF_SUM = Fold(lambda dtype: ((dtype.lowest, dtype),), _joined_logarithms)


def _running_logsumexp(x: Array, *, axis: int) -> Array:
    return np.asarray(np.logaddexp.accumulate(x, axis=axis))


def _running_logsumexp_vjp(g: Any, out: Any, x: Any, *, axis: int) -> Any:
    """dx_i = sum over k >= i of g_k e^(x_i - out_k), as a recurrence of factors up to 1."""
    finite = out.equal(float("-inf"))._where(0.0, out)
    links = (span(out, axis, None, -1) - span(finite, axis, 1, None)).exp()
    return (x - finite).exp() * g._linear_recurrence(links, axis=axis, reverse=True)


def samples_along(*samples: Sample) -> tuple[Sample, ...]:
    return (
        sample(distinct((4,)), axis=0),
        sample(distinct((2, 3, 2)), axis=1),
        sample(distinct((2, 3)), axis=-1),
        sample((0, 2), axis=0),
        *samples,
    )


class Cumulative(Gathering, Comparison, Arithmetic):
    """Cumulative ops."""

    __slots__ = ()

    @primitive(
        rule=Scan(folds.SUM),
        reference=_scan(np.add, 0),
        accumulates=True,
        canonical=_scanning("cumulative_sum"),
        infer=_scanned,
        vjp=(_cumulative_sum_vjp,),
        accepts="any",
        samples=_SCANS,
    )
    def cumulative_sum(
        self,
        /,
        axis: int | None = None,
        *,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
        reverse: bool = False,
    ) -> Self:
        """Sums of all elements up to each along an axis.  Shapes: (..., N, ...) -> the same.

        ``include_initial`` puts the 0 that it starts from in front, so that N becomes N + 1;
        ``reverse`` sums from the end.  ``dtype`` as in `sum`.  The axis may be left out for (N,).

        >>> import pyrite
        >>> pyrite.tensor([1, 2, 3]).cumulative_sum(include_initial=True).tolist()
        [0, 1, 3, 6]
        """
        ...

    @primitive(
        rule=Scan(folds.PRODUCT),
        reference=_scan(np.multiply, 1),
        accumulates=True,
        canonical=_scanning("cumulative_prod"),
        infer=_scanned,
        vjp=(_cumulative_prod_vjp,),
        accepts="any",
        samples=_SCANS,
    )
    def cumulative_prod(
        self,
        /,
        axis: int | None = None,
        *,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
        reverse: bool = False,
    ) -> Self:
        """Products of all elements up to each along an axis.  Shapes: (..., N, ...) -> the same.

        Arguments as in `cumulative_sum`; it starts from 1.  After a zero finite floats give 0, also
        where the product before it overflowed.  Its derivatives hold also at zeros.
        """
        ...

    @composite(
        canonical=_diff_attributes,
        accepts="number",
        promotes="all",
        samples=(
            sample((2, 4), None, None),
            sample((3, 2), (1, 2), None, axis=0, n=2),
            sample((2, 3), (2, 1), (2, 2), n=3),
            sample((2,), None, None, n=4),
            sample(integers((5,), -3, 4), None, None),
            sample((0, 2), None, None, axis=0),
        ),
    )
    def _diff(
        self, prepend: Self | None, append: Self | None, /, *, axis: int = -1, n: int = 1
    ) -> Self:
        """Differences of neighbours along an axis, n times, of x between what is put around it."""
        parts = [part for part in (prepend, self, append) if part is not None]
        found = concat(parts, axis) if len(parts) > 1 else self
        for _ in range(n):
            found = span(found, axis, 1, None) - span(found, axis, None, -1)
        return found

    @public
    def diff(
        self,
        n: int = 1,
        axis: int = -1,
        *,
        prepend: Self | None = None,
        append: Self | None = None,
    ) -> Self:
        """Differences x[i + 1] - x[i] along an axis, taken n times.

        Shapes: (..., N, ...) -> (..., N - n, ...), where N counts what ``prepend`` and ``append``
        put before and behind; 0 where n is more.  Unsigned integers wrap around.

        >>> import pyrite
        >>> pyrite.tensor([1, 4, 9, 16]).diff(n=2).tolist()
        [2, 2]
        """
        return self._diff(prepend, append, axis=axis, n=n)

    @primitive(
        rule=Recurrence(lambda _, before, x, link: x + link * before),
        reference=_recurrence,
        accumulates=True,
        canonical=_recurrence_axis,
        infer=_recurrence_type,
        vjp=(_terms_vjp, _links_vjp),
        accepts="float",
        promotes=(0, 1),
        samples=(
            sample((4,), (3,), axis=0),
            sample((2, 3), (2, 2), axis=-1, reverse=True),
            sample((1, 2), (0, 2), axis=0),
            sample((0, 2), (0, 2), axis=0),
        ),
    )
    def _linear_recurrence(self, links: Self, /, *, axis: int, reverse: bool = False) -> Self:
        """h with h_0 = x_0 and h_i = x_i + links_{i-1} h_{i-1} along an axis.

        Shapes: (..., N, ...), (..., N - 1, ...) -> (..., N, ...).  In reverse h_{N-1} = x_{N-1} and
        h_i = x_i + links_i h_{i+1}.  As a parallel scan: Blelloch 1990, "Prefix sums and their
        applications", section 1.4.
        """
        ...

    @primitive(
        rule=Scan(_LOG_OF_SUM),
        reference=_running_logsumexp,
        accumulates=True,
        canonical=axis_of("cumulative_logsumexp"),
        infer=lambda x, *, axis: x,
        vjp=(_running_logsumexp_vjp,),
        accepts="float",
        promotes=(0,),
        samples=samples_along(),
    )
    def cumulative_logsumexp(self, /, axis: int) -> Self:
        """Logarithms of the sums of e ** x up to each element, without overflow."""
        ...
