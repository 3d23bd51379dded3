"""Softmax and its kin: elements along an axis as shares of their total.

Shapes are (...) -> (...).  Narrow floats are computed in float32 and rounded once; no finite input
overflows on the way.  The shift that sees to that may miss a NaN, for the sum has it then.
"""

from __future__ import annotations

from typing import Any, Self

from pyrite.errors import ShapeError
from pyrite.op import composite, public, sample
from pyrite.tensor.axis import axis_of
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gathering import Gathering
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.mathematics import Mathematics
from pyrite.tensor.rectifier import same_type
from pyrite.tensor.reduction import Reduction
from pyrite.types import TensorType

_ROWS = (
    sample((2, 3)),
    sample((2, 3, 4), axis=1),
    sample((3,), axis=0),
    sample((0, 3)),
    sample((3, 0)),
)
_PAIRS_OF_ROWS = (sample((2, 3), (2, 3)), sample((2, 3, 4), (2, 3, 4), axis=1))


def _backward_type(g: TensorType, out: TensorType, *, axis: int) -> TensorType:
    if g.shape != out.shape:
        raise ShapeError(f"softmax_backward requires g.shape == {out.shape}, got {g.shape}")
    return g


def _softmax_backward_by_out(h: Any, _: Any, g: Any, out: Any, *, axis: int) -> Any:
    total = (g * out).sum(axis, keepdims=True)
    return h * (g - total) - g * (h * out).sum(axis, keepdims=True)


def _log_softmax_backward_by_out(h: Any, _: Any, g: Any, out: Any, *, axis: int) -> Any:
    return -h * out.exp() * g.sum(axis, keepdims=True)


class Softmax(Extremum, Reduction, Gathering, Mathematics):
    """Softmax along an axis."""

    __slots__ = ()

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("softmax"),
        infer=same_type,
        vjp=(lambda g, out, _, *, axis: g._softmax_backward(out, axis=axis),),
        samples=_ROWS,
    )
    def softmax(self, /, axis: int = -1) -> Self:
        """e ** x over its sum along an axis: positive, and 1 in total.

        NaN along the whole axis where its maximum is infinite or NaN.
        """
        if not self.size:
            return self
        x = widened(self)
        e = (x - x._max_of_numbers(axis, keepdims=True)).exp()
        return in_dtype(e * e.sum(axis, keepdims=True).reciprocal(), self.dtype)

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("softmax_backward"),
        infer=_backward_type,
        vjp=(
            lambda h, _, _g, out, *, axis: h._softmax_backward(out, axis=axis),
            _softmax_backward_by_out,
        ),
        samples=_PAIRS_OF_ROWS,
    )
    def _softmax_backward(self, out: Self, /, axis: int = -1) -> Self:
        """The cotangent of softmax's input, of its output: out * (g - sum(g * out))."""
        g, wide = widened(self), widened(out)
        return in_dtype(wide * (g - (g * wide).sum(axis, keepdims=True)), self.dtype)

    @public
    def softmin(self, /, axis: int = -1) -> Self:
        """Return softmax(-x)."""
        return (-self).softmax(axis)

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("log_softmax"),
        infer=same_type,
        vjp=(lambda g, out, _, *, axis: g._log_softmax_backward(out, axis=axis),),
        samples=_ROWS,
    )
    def log_softmax(self, /, axis: int = -1) -> Self:
        """log(softmax(x)), without the underflow of doing one after the other."""
        if not self.size:
            return self
        x = widened(self)
        shifted = x - x._max_of_numbers(axis, keepdims=True)
        return in_dtype(shifted - shifted.exp().sum(axis, keepdims=True).log(), self.dtype)

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("log_softmax_backward"),
        infer=_backward_type,
        vjp=(
            lambda h, _, _g, out, *, axis: h - (h * out.exp()).sum(axis, keepdims=True),
            _log_softmax_backward_by_out,
        ),
        samples=_PAIRS_OF_ROWS,
    )
    def _log_softmax_backward(self, out: Self, /, axis: int = -1) -> Self:
        """The cotangent of log_softmax's input, of its output: g - exp(out) * sum(g)."""
        g = widened(self)
        return in_dtype(g - widened(out).exp() * g.sum(axis, keepdims=True), self.dtype)

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("quiet_softmax"),
        infer=same_type,
        vjp=(lambda g, out, _, *, axis: g._softmax_backward(out, axis=axis),),
        samples=_ROWS,
    )
    def quiet_softmax(self, /, axis: int = -1) -> Self:
        """e ** x over 1 + its sum along an axis: a softmax that may attend to nothing.

        It is softmax with one more element, a zero, left out of the result; so its derivative has
        the same form.  Source: Miller 2023, "Attention is off by one".
        """
        if not self.size:
            return self
        x = widened(self)
        shift = x._max_of_numbers(axis, keepdims=True).maximum(0)
        e = (x - shift).exp()
        total = (-shift).exp() + e.sum(axis, keepdims=True)
        return in_dtype(e * total.reciprocal(), self.dtype)
