"""Statistics made of reductions: variances, medians, quantiles, counts.

Variances take two passes, first the mean and then the squares of the differences from it, so a large
mean costs no digits.  ``correction`` is what is subtracted from the count: 0 for the variance of
these elements, 1 for an estimate of the one of a population.
"""

from __future__ import annotations

from typing import Any, Self

from pyrite.op import composite, sample
from pyrite.tensor.reduction import Axes, Axis, Reduction, axes_of, count_over, in_dtype, kept
from pyrite.types import normalize_axes


def _divisor(x: Any, axis: Axes, correction: float) -> float:
    return max(count_over(x._type, axis) - correction, 0.0)


def _var_vjp(g: Any, _: Any, x: Any, *, axis: Axes, correction: float) -> Any:
    difference = x - x.mean(axis, keepdims=True)
    return kept(g, x._type, axis) * difference * 2.0 / _divisor(x, axis, correction)


def _std_vjp(g: Any, out: Any, x: Any, *, axis: Axes, correction: float) -> Any:
    """The gradient of a root, which has none at 0: there it is 0, as in torch."""
    is_zero = out.equal(0.0)
    g_variance = is_zero._where(0.0, g / is_zero._where(1.0, out * 2.0))
    return _var_vjp(g_variance, None, x, axis=axis, correction=correction)


_SPREADS = (
    sample((2, 3)),
    sample((2, 3, 4), axis=(0, 2), correction=1),
    sample((3, 4), axis=-1, keepdims=True),
)


class Statistics(Reduction):
    """Statistics made of reductions."""

    __slots__ = ()

    # ---- spread ----

    @composite(
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
