"""Truth over axes: whether any or all elements are not zero, how many, and whether any is NaN.

Over nothing ``any`` is False and ``all`` True.  NaN is not zero.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from pyrite.op import bools, composite, primitive, sample
from pyrite.op.rule import folds
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.axis import Axes, Axis, axes_of, reduced_shape
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.reduction import Reduction, empty_samples, samples_over
from pyrite.types import Number, TensorType, bool_, int32


def _truth_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), bool_)


def _count_type(x: TensorType, *, axis: Axes, keepdims: bool) -> TensorType:
    return TensorType(reduced_shape(x.shape, axis, keepdims), int32)


class Truth(Reduction, Comparison, Arithmetic):
    """Truth over axes."""

    __slots__ = ()

    @primitive(
        rule=folds.ANY,
        reference=lambda x, *, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims),
        canonical=axes_of("any"),
        infer=_truth_type,
        vjp=(None,),
        accepts="any",
        samples=(*samples_over(bools), *empty_samples(bools), sample((2, 3), axis=0)),
    )
    def any(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether any element over axes is not zero, as bool; False over none.  NaN is not zero."""
        ...

    @primitive(
        rule=folds.ALL,
        reference=lambda x, *, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims),
        canonical=axes_of("all"),
        infer=_truth_type,
        vjp=(None,),
        accepts="any",
        samples=(*samples_over(bools), *empty_samples(bools), sample((2, 3), axis=0)),
    )
    def all(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """Whether every element over axes is not zero, as bool; True over none."""
        ...

    @composite(
        rule=folds.COUNT_NONZERO,
        infer=_count_type,
        canonical=axes_of("count_nonzero"),
        vjp=(None,),
        samples=samples_over(bools),
    )
    def count_nonzero(self, /, axis: Axis = None, *, keepdims: bool = False) -> Self:
        """How many elements over axes are not zero, int32.  NaN is not zero."""
        return self.astype("bool").sum(axis, keepdims=keepdims)

    @composite(
        rule=folds.HAS_NAN,
        infer=lambda x: TensorType((), bool_),
        vjp=(None,),
        samples=(sample((2, 3)), sample(())),
    )
    def contains_nan(self, /) -> Self:
        """Whether any element is NaN, a bool of shape ()."""
        return self.not_equal(self).any()

    @composite(vjp=(None, None), promotes=(0, 1), samples=(sample((2, 3), (3,)),))
    def allclose(
        self,
        other: Self | Number,
        /,
        *,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Self:
        """Whether all elements are close, as `isclose` says, a bool of shape ()."""
        return self.isclose(other, rtol=rtol, atol=atol, equal_nan=equal_nan).all()
