"""Activation functions: what stands between the layers of a network.

Shapes are (...) -> (...) except for glu and swiglu, which halve an axis.  Integers become the
default float.  A function whose derivative is worth writing down is one op, computed and rounded
once; the others are composites.  Of finite inputs no value or gradient overflows on the way to a
finite result.  At a kink the gradient is PyTorch's: that of relu at 0 is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, primitive, public, sample
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.linalg import LinearAlgebra
from pyrite.types import TensorType, normalize_axis

T = TypeVar("T", bound="Activation")

#: How gelu is computed: exactly, or by the tanh that fits it.
Approximation = Literal["none", "tanh"]

# Fits the normal distribution function by a tanh: Hendrycks & Gimpel 2016, arXiv:1606.08415.
CUBIC = 0.044715
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
SQRT_HALF = math.sqrt(0.5)
NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)
# Beyond this |x| gelu is 0 or x in every dtype, and powers of x need not grow to infinity.
STRAIGHT = 1e3

# These keep mean 0 and variance 1: Klambauer et al. 2017, arXiv:1706.02515, equation 14.
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805

_ROWS = (
    sample((2, 3)),
    sample((2, 3, 4), axis=1),
    sample((3,), axis=0),
    sample((0, 3)),
    sample((3, 0)),
)
_PAIRS_OF_ROWS = (sample((2, 3), (2, 3)), sample((2, 3, 4), (2, 3, 4), axis=1))
_HALVES = (sample((2, 6)), sample((2, 4, 3), axis=1), sample((2,), axis=0))
_EITHER_GELU = (sample((2, 3)), sample((4,), approximate="tanh"))
_EITHER_GELU_BACKWARD = (
    sample((2, 3), (2, 3)),
    sample((4,), (4,), approximate="tanh"),
)


def _same_type(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
    return x


def _axis_of(op: str) -> Callable[..., Attributes]:
    def canonical(x: TensorType, *_: TensorType, axis: int) -> Attributes:
        return {"axis": normalize_axis(op, axis, x.ndim)}

    return canonical


def _half_type(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int) -> TensorType:
        if x.shape[axis] % 2:
            raise ShapeError(f"{op} requires x.shape[{axis}] to be even, got {x.shape}")
        shape = (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
        return TensorType(shape, x.dtype)

    return infer


# ---- the logistic function and its kin ----


def _sigmoid_rule(k: Any, x: Any) -> Any:
    # Small results keep their digits, and exp overflows only where the result is subnormal.
    return 1 / (1 + k.exp(-x))


def _silu_backward_rule(k: Any, g: Any, x: Any) -> Any:
    s = _sigmoid_rule(k, x)
    return g * (s * (1 + x * (1 - s)))


def _silu_curvature(x: Any) -> Any:
    s = x.sigmoid()
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _softplus_rule(k: Any, x: Any, *, beta: float) -> Any:
    scaled = x * beta
    return (k.maximum(scaled, 0) + k.log1p(k.exp(-k.abs(scaled)))) / beta


def _positive_beta(x: TensorType, *, beta: float) -> Attributes:
    if not beta > 0:
        raise ArgumentError(f"softplus requires beta > 0, got beta={beta}")
    return {"beta": beta}


# ---- gelu ----


def _known_approximation(*_: TensorType, approximate: str) -> Attributes:
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            f"gelu requires approximate in ('none', 'tanh'), got approximate={approximate!r}"
        )
    return {"approximate": approximate}


def _normal_distribution(k: Any, x: Any, approximate: Approximation) -> Any:
    """The share of the normal distribution below x, or the tanh that fits it."""
    if approximate == "tanh":
        return 0.5 + 0.5 * k.tanh(SQRT_2_OVER_PI * x * (1 + CUBIC * x * x))
    return 0.5 + 0.5 * k.erf(x * SQRT_HALF)


def _gelu_rule(k: Any, x: Any, *, approximate: Approximation) -> Any:
    return x * _normal_distribution(k, x, approximate)


def _gelu_backward_rule(k: Any, g: Any, x: Any, *, approximate: Approximation) -> Any:
    below = _normal_distribution(k, x, approximate)
    if approximate == "tanh":
        density = (
            2
            * below
            * (1 - below)
            * SQRT_2_OVER_PI
            * (1 + 3 * CUBIC * k.minimum(x * x, STRAIGHT**2))
        )
    else:
        density = NORMAL_DENSITY * k.exp(-0.5 * x * x)
    return g * (below + x * density)


def _gelu_curvature(x: Any, approximate: Approximation) -> Any:
    """Second derivative of gelu."""
    x = x.clip(-STRAIGHT, STRAIGHT)
    square = x * x
    if approximate == "none":
        return NORMAL_DENSITY * (-0.5 * square).exp() * (2 - square)
    t = (SQRT_2_OVER_PI * x * (1 + CUBIC * square)).tanh()
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * square)
    bend = SQRT_2_OVER_PI * 6 * CUBIC * x
    return (1 - t * t) * (slope + 0.5 * x * (bend - 2 * t * slope * slope))


# ---- softmax ----


def _softmax_backward_by_out(h: Any, _: Any, g: Any, out: Any, *, axis: int) -> Any:
    total = (g * out).sum(axis, keepdims=True)
    return h * (g - total) - g * (h * out).sum(axis, keepdims=True)


def _log_softmax_backward_by_out(h: Any, _: Any, g: Any, out: Any, *, axis: int) -> Any:
    return -h * out.exp() * g.sum(axis, keepdims=True)


class Activation(LinearAlgebra):
    """Activation functions."""

    __slots__ = ()

    # ---- bent lines ----

    @primitive(
        scalar=lambda k, x: k.maximum(x, 0),
        vjp=(lambda g, out, _: g._relu_backward(out),),
    )
    def relu(self, /) -> Self:
        """max(x, 0); integers stay integers, NaN stays NaN, the gradient at 0 is 0."""
        ...

    @primitive(
        scalar=lambda k, g, out: k.where(out <= 0, 0, g),
        vjp=(lambda h, _, _g, out: h._relu_backward(out), None),
        domain=((-2.0, 2.0), (0.1, 2.0)),
    )
    def _relu_backward(self, out: Self, /) -> Self:
        """The cotangent of relu's input, of its output: 0 where out <= 0, else g."""
        ...

    @primitive(
        scalar=lambda k, x, *, negative_slope: k.where(x > 0, x, x * negative_slope),
        vjp=(lambda g, _, x, *, negative_slope: (x > 0)._where(g, g * negative_slope),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), negative_slope=0.3)),
    )
    def leaky_relu(self, /, negative_slope: float = 0.01) -> Self:
        """x where x > 0, else negative_slope * x."""
        ...

    @composite(
        accepts="float",
        promotes="all",
        infer=_same_type,
        samples=(sample((2, 3, 2), (3,)), sample((4,), (1,)), sample((2, 3), (1,))),
    )
    def prelu(self, weight: Self, /) -> Self:
        """x where x > 0, else weight * x: (N, C, ...), (C,) or (1,) -> (N, C, ...).

        Source: He et al. 2015, arXiv:1502.01852.
        """
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.ndim > 1 or weight.size not in (1, channels):
            raise ShapeError(
                f"prelu requires weight.shape in ((1,), ({channels},)), got {weight.shape} "
                f"for x of shape {self.shape}"
            )
        slope = weight.reshape((weight.size, *(1,) * (self.ndim - 2)))
        return self.where(self > 0, slope * self)

    @primitive(
        scalar=lambda k, x, *, min_value, max_value: k.minimum(k.maximum(x, min_value), max_value),
        vjp=(
            lambda g, _, x, *, min_value, max_value: ((x > min_value) & (x < max_value))._where(
                g, 0
            ),
        ),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), min_value=-0.5, max_value=1.5)),
    )
    def hardtanh(self, /, min_value: float = -1.0, max_value: float = 1.0) -> Self:
        """x, not less than min_value and not greater than max_value; at both the gradient is 0."""
        ...

    @public
    def relu6(self, /) -> Self:
        """min(max(x, 0), 6)."""
        return self.hardtanh(0.0, 6.0)

    @public
    def hard_sigmoid(self, /, alpha: float = 1 / 6, beta: float = 0.5) -> Self:
        """alpha * x + beta, not less than 0 and not greater than 1.

        The defaults are PyTorch's; Burn's and ONNX's alpha is 0.2.
        """
        return (self * alpha + beta).hardtanh(0.0, 1.0)

    @composite(accepts="float", promotes="all", infer=_same_type, samples=(sample((2, 3)),))
    def hard_swish(self, /) -> Self:
        """x * hard_sigmoid(x): 0 below -3, x above 3.

        Source: Howard et al. 2019, arXiv:1905.02244.
        """
        return self * self.hard_sigmoid()

    @primitive(
        scalar=lambda k, x, *, threshold, value: k.where(x <= threshold, value, x),
        vjp=(lambda g, _, x, *, threshold: (x > threshold)._where(g, 0),),
        accepts="float",
        samples=(sample((2, 3), threshold=0.5, value=-1.0),),
    )
    def threshold(self, /, threshold: float, value: float) -> Self:
        """x where x > threshold, else value; NaN stays NaN."""
        ...

    @public
    def thresholded_relu(self, /, alpha: float = 1.0) -> Self:
        """x where x > alpha, else 0."""
        return self.threshold(alpha, 0.0)

    @primitive(
        scalar=lambda k, x, *, lambd, bias: k.where(
            k.abs(x) <= lambd, 0, k.where(x > 0, x - bias, x + bias)
        ),
        vjp=(lambda g, _, x, *, lambd: (x.abs() <= lambd)._where(0, g),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), lambd=0.3, bias=0.1)),
    )
    def shrink(self, /, lambd: float = 0.5, bias: float = 0.0) -> Self:
        """x - bias where x > lambd, x + bias where x < -lambd, else 0; NaN stays NaN."""
        ...

    @public
    def hard_shrink(self, /, lambd: float = 0.5) -> Self:
        """x where |x| > lambd, else 0."""
        return self.shrink(lambd, 0.0)

    @public
    def soft_shrink(self, /, lambd: float = 0.5) -> Self:
        """x moved towards 0 by lambd, and 0 where it would pass it."""
        return self.shrink(lambd, lambd)

    # ---- exponential below zero ----

    @primitive(
        scalar=lambda k, x, *, alpha: k.where(x > 0, x, alpha * k.expm1(x)),
        vjp=(lambda g, _, x, *, alpha: g * (x > 0)._where(1, alpha * x.minimum(0).exp()),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), alpha=0.5)),
    )
    def elu(self, /, alpha: float = 1.0) -> Self:
        """x where x > 0, else alpha * (e ** x - 1).

        Source: Clevert et al. 2015, arXiv:1511.07289.
        """
        ...

    @primitive(
        scalar=lambda k, x, *, alpha: k.where(x > 0, x, alpha * k.expm1(x / alpha)),
        vjp=(lambda g, _, x, *, alpha: g * (x.minimum(0) / alpha).exp(),),
        accepts="float",
        samples=(sample((2, 3)), sample((4,), alpha=0.5)),
    )
    def celu(self, /, alpha: float = 1.0) -> Self:
        """x where x > 0, else alpha * (e ** (x / alpha) - 1): elu with a continuous slope.

        Source: Barron 2017, arXiv:1704.07483.
        """
        ...

    @public
    def selu(self, /) -> Self:
        """1.0507 * elu(x, alpha=1.6733), which keeps mean 0 and variance 1 through layers."""
        return self.elu(SELU_ALPHA) * SELU_SCALE

    # ---- the logistic function and its kin ----

    @primitive(
        scalar=_sigmoid_rule, vjp=(lambda g, out, _: g * (out * (1 - out)),), accepts="float"
    )
    def sigmoid(self, /) -> Self:
        """1 / (1 + e ** -x)."""
        ...

    @primitive(
        scalar=lambda k, x: k.minimum(x, 0) - k.log1p(k.exp(-k.abs(x))),
        vjp=(lambda g, _, x: g * (-x).sigmoid(),),
        accepts="float",
    )
    def log_sigmoid(self, /) -> Self:
        """log(sigmoid(x)), which is near x for large negative x."""
        ...

    @primitive(
        scalar=_softplus_rule,
        vjp=(lambda g, _, x, *, beta: g * (x * beta).sigmoid(),),
        canonical=_positive_beta,
        accepts="float",
        samples=(sample((2, 3)), sample((4,), beta=2.0)),
    )
    def softplus(self, /, beta: float = 1.0) -> Self:
        """log(1 + e ** (beta * x)) / beta, a smooth relu; exact without a threshold."""
        ...

    @primitive(
        scalar=lambda k, x: x * _sigmoid_rule(k, x),
        vjp=(lambda g, _, x: g._silu_backward(x),),
        accepts="float",
    )
    def silu(self, /) -> Self:
        """x * sigmoid(x), also known as swish.

        Source: Elfwing et al. 2017, arXiv:1702.03118.
        """
        ...

    @primitive(
        scalar=_silu_backward_rule,
        vjp=(
            lambda h, _, _g, x: h._silu_backward(x),
            lambda h, _, g, x: h * g * _silu_curvature(x),
        ),
        accepts="float",
    )
    def _silu_backward(self, x: Self, /) -> Self:
        """The cotangent of silu's input x."""
        ...

    @composite(accepts="float", promotes="all", infer=_same_type, samples=(sample((2, 3)),))
    def mish(self, /) -> Self:
        """x * tanh(softplus(x)).

        Source: Misra 2019, arXiv:1908.08681.
        """
        return self * self.softplus().tanh()

    @composite(accepts="float", promotes="all", infer=_same_type, samples=(sample((2, 3)),))
    def softsign(self, /) -> Self:
        """x / (1 + |x|)."""
        return self / (self.abs() + 1)

    @composite(accepts="float", promotes="all", infer=_same_type, samples=(sample((2, 3)),))
    def tanhshrink(self, /) -> Self:
        """x - tanh(x)."""
        return self - self.tanh()

    # ---- gates ----

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("glu"),
        infer=_half_type("glu"),
        samples=_HALVES,
    )
    def glu(self, /, axis: int = -1) -> Self:
        """The first half of an axis, times the sigmoid of the second: (..., 2 D) -> (..., D).

        Raises ShapeError when the size of the axis is odd.
        Source: Dauphin et al. 2016, arXiv:1612.08083.
        """
        x, gate = self.split((self.shape[axis] // 2,) * 2, axis)
        return x * gate.sigmoid()

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("swiglu"),
        infer=_half_type("swiglu"),
        samples=_HALVES,
    )
    def swiglu(self, /, axis: int = -1) -> Self:
        """The silu of the first half of an axis, times the second: (..., 2 D) -> (..., D).

        Raises ShapeError when the size of the axis is odd.
        Source: Shazeer 2020, arXiv:2002.05202.
        """
        gate, x = self.split((self.shape[axis] // 2,) * 2, axis)
        return gate.silu() * x

    # ---- gelu ----

    @primitive(
        scalar=_gelu_rule,
        canonical=_known_approximation,
        vjp=(lambda g, _, x, *, approximate: g._gelu_backward(x, approximate=approximate),),
        accepts="float",
        samples=_EITHER_GELU,
    )
    def gelu(self, /, approximate: Approximation = "none") -> Self:
        """x times the share of the normal distribution below x.

        Exact by erf, or with ``approximate="tanh"`` as in GPT-2.

        Source: Hendrycks & Gimpel 2016, arXiv:1606.08415.

        >>> import pyrite
        >>> round(pyrite.tensor(1.0).gelu().item(), 4)
        0.8413
        """
        ...

    @primitive(
        scalar=_gelu_backward_rule,
        canonical=_known_approximation,
        vjp=(
            lambda h, _, _g, x, *, approximate: h._gelu_backward(x, approximate=approximate),
            lambda h, _, g, x, *, approximate: h * g * _gelu_curvature(x, approximate),
        ),
        accepts="float",
        samples=_EITHER_GELU_BACKWARD,
    )
    def _gelu_backward(self, x: Self, /, approximate: Approximation = "none") -> Self:
        """The cotangent of gelu's input x."""
        ...

    # ---- softmax ----

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("softmax"),
        infer=_same_type,
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
        e = (x - x.max(axis, keepdims=True)).exp()
        return in_dtype(e / e.sum(axis, keepdims=True), self.dtype)

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("softmax_backward"),
        infer=_same_type,
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
        """softmax(-x)."""
        return (-self).softmax(axis)

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("log_softmax"),
        infer=_same_type,
        vjp=(lambda g, out, _, *, axis: g._log_softmax_backward(out, axis=axis),),
        samples=_ROWS,
    )
    def log_softmax(self, /, axis: int = -1) -> Self:
        """log(softmax(x)), without the underflow of doing one after the other."""
        if not self.size:
            return self
        x = widened(self)
        shifted = x - x.max(axis, keepdims=True)
        return in_dtype(shifted - shifted.exp().sum(axis, keepdims=True).log(), self.dtype)

    @composite(
        accepts="float",
        promotes="all",
        canonical=_axis_of("log_softmax_backward"),
        infer=_same_type,
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
        canonical=_axis_of("quiet_softmax"),
        infer=_same_type,
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
        shift = x.max(axis, keepdims=True).maximum(0)
        e = (x - shift).exp()
        return in_dtype(e / ((-shift).exp() + e.sum(axis, keepdims=True)), self.dtype)
