"""Statistics made of reductions: variances, covariance, log-sum-exp.

Variances are of differences from the mean, so that a large mean costs no digits: in two passes, or
in one that joins counts, means and squares of differences.  ``correction`` is what is subtracted
from the count: 0 for the variance of these elements, 1 for an estimate of that of the population
they were drawn from.

float16 and bfloat16 are computed in float32 throughout, and rounded once.
"""

from __future__ import annotations

from typing import Any, Self

from pyrite.errors import ShapeError
from pyrite.op import Attributes, composite, sample
from pyrite.op.rule import folds
from pyrite.tensor.axis import (
    Axes,
    Axis,
    axes_of,
    count_over,
    kept,
    reduced_shape,
    require_elements,
)
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gathering import Gathering
from pyrite.tensor.gradient import in_dtype
from pyrite.tensor.mathematics import Mathematics
from pyrite.tensor.reduction import Reduction
from pyrite.types import TensorType, normalize_axes


def _divisor(x: Any, axis: Axes, correction: float) -> float:
    return max(count_over(x, axis) - correction, 0.0)


def _var_vjp(g: Any, _: Any, x: Any, *, axis: Axes, correction: float) -> Any:
    wide = in_dtype(x, x.dtype.compute)
    difference = wide - wide.mean(axis, keepdims=True)
    slope = difference * 2.0 / _divisor(x, axis, correction)
    return in_dtype(kept(g, x._type, axis) * slope, x.dtype)


def _std_vjp(g: Any, out: Any, x: Any, *, axis: Axes, correction: float) -> Any:
    """The gradient of a root, which has none at 0: there it is 0, as in torch."""
    is_zero = out.equal(0.0)
    g_variance = is_zero._where(0.0, g / is_zero._where(1.0, out * 2.0))
    return _var_vjp(g_variance, None, x, axis=axis, correction=correction)


def _spread_type(x: TensorType, *, axis: Axes, correction: float, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _spread_and_mean_type(
    x: TensorType, *, axis: Axes, correction: float, keepdims: bool
) -> tuple[TensorType, TensorType]:
    type = TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)
    return type, type


def _logsumexp_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), x.dtype)


def _logsumexp_axes(x: TensorType, *, axis: Axis, keepdims: bool) -> Attributes:
    axes = normalize_axes("logsumexp", axis, x.ndim)
    require_elements("logsumexp", x, axes)
    return {"axis": axes, "keepdims": keepdims}


def _logsumexp_vjp(g: Any, out: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Return the cotangent shared as softmax shares; nothing where all elements are -inf."""
    out = kept(out, x._type, axis)
    return kept(g, x._type, axis) * (x - _finite(out, float("-inf"))).exp()


def _finite(x: Any, *infinities: float) -> Any:
    """Return a tensor with infinities replaced by 0."""
    for infinity in infinities:
        x = x.equal(infinity)._where(0.0, x)
    return x


def _cov_type(x: TensorType, *, correction: float) -> Attributes:
    if x.ndim not in (1, 2):
        raise ShapeError(f"cov requires shape (N,) or (D, N), got {x.shape}")
    return {"correction": correction}


_SPREADS = (
    sample((2, 3)),
    sample((2, 3, 4), axis=(0, 2), correction=1),
    sample((3, 4), axis=-1, keepdims=True),
)


class Statistics(Extremum, Reduction, Gathering, Mathematics):
    """Statistics made of reductions."""

    __slots__ = ()

    # ---- spread ----

    @composite(
        rule=folds.VARIANCE,
        infer=_spread_type,
        canonical=axes_of("var"),
        vjp=(_var_vjp,),
        accepts="float",
        promotes=(0,),
        samples=_SPREADS,
    )
    def var(self, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """Variance over axes: the sum of squared differences from the mean / (count - correction).

        NaN where the count is not above the correction and all elements are equal, else infinite.
        ``correction=0`` is the default, as in the array API; Burn's ``var`` is ``correction=1``.
        float16 and bfloat16 are computed in float32.

        >>> import pyrite
        >>> pyrite.tensor([1.0, 2.0, 3.0]).var(correction=1).item()
        1.0
        """
        wide = in_dtype(self, self.dtype.compute)
        axes = normalize_axes("var", axis, self.ndim)
        difference = wide - wide.mean(axis, keepdims=True)
        squares = (difference * difference).sum(axis, keepdims=keepdims)
        result: Self = in_dtype(squares / _divisor(self, axes, correction), self.dtype)
        return result

    @composite(
        rule=folds.DEVIATION,
        infer=_spread_type,
        canonical=axes_of("std"),
        vjp=(_std_vjp,),
        accepts="float",
        promotes=(0,),
        samples=_SPREADS,
    )
    def std(self, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """Standard deviation over axes, the root of `var`.  Its gradient is 0 where it is 0."""
        wide = in_dtype(self, self.dtype.compute)
        variance = wide.var(axis, correction=correction, keepdims=keepdims)
        result: Self = in_dtype(variance**0.5, self.dtype)
        return result

    @composite(
        rule=folds.VARIANCE_AND_MEAN,
        infer=_spread_and_mean_type,
        canonical=axes_of("var_mean"),
        accepts="float",
        promotes=(0,),
        samples=_SPREADS,
    )
    def var_mean(
        self, /, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False
    ) -> tuple[Self, Self]:
        """`var` and `mean` over the same axes."""
        variance = self.var(axis, correction=correction, keepdims=keepdims)
        return variance, self.mean(axis, keepdims=keepdims)

    @composite(
        canonical=_cov_type,
        accepts="float",
        promotes=(0,),
        samples=(sample((3, 5)), sample((2, 4), correction=0), sample((4,))),
    )
    def cov(self, /, *, correction: float = 1.0) -> Self:
        """Covariances of D variables in N observations.  Shapes: (D, N) -> (D, D), (N,) -> ().

        ``correction=1`` is the default, as in NumPy, torch and Burn.
        """
        # Any: matmul joins the chain of families after this one.
        wide: Any = in_dtype(self, self.dtype.compute)
        difference = wide - wide.mean(-1, keepdims=True)
        rows = difference.reshape((-1 if self.ndim == 2 else 1, self.shape[-1]))
        products = rows @ rows.permute_dims((1, 0))
        divisor = max(self.shape[-1] - correction, 0.0)
        result: Self = in_dtype(products / divisor, self.dtype)
        return result if self.ndim == 2 else result.reshape(())

    # ---- sums of exponentials ----

    @composite(
        rule=folds.LOG_OF_SUM,
        infer=_logsumexp_type,
        canonical=_logsumexp_axes,
        vjp=(_logsumexp_vjp,),
        accepts="float",
        promotes=(0,),
        samples=(*_SPREADS[:1], sample((2, 3, 4), axis=(0, 2)), sample((2, 3), axis=-1)),
    )
    def logsumexp(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """log of the sum of e ** x over axes, without overflow; -inf where all elements are.

        Raises ShapeError over an axis of size 0.

        >>> import pyrite
        >>> pyrite.tensor([1000.0, 1000.0]).logsumexp().item() - 1000
        0.693...
        """
        wide = in_dtype(self, self.dtype.compute)
        axes = normalize_axes("logsumexp", axis, self.ndim)
        greatest = _finite(wide.max(axes, keepdims=True), float("inf"), float("-inf"))
        total = (wide - greatest).exp().sum(axes, keepdims=True).log() + greatest
        shape = reduced_shape(self.shape, axes, keepdims)
        result: Self = in_dtype(total.reshape(shape), self.dtype)
        return result
