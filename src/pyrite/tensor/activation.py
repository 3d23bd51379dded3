"""Activation functions: what stands between the layers of a network.

Shapes are (...) -> (...) except for glu and swiglu, which halve an axis.  Integers become the
default float.  A function whose derivative is worth writing down is one op, computed and rounded
once; the others are composites.  Of finite inputs no value or gradient overflows on the way to a
finite result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, primitive, sample
from pyrite.tensor.axis import axis_of
from pyrite.tensor.joining import Joining
from pyrite.tensor.mathematics import Mathematics
from pyrite.tensor.rectifier import same_type
from pyrite.types import TensorType

#: How gelu is computed: exactly, or by the tanh that fits it.
Approximation = Literal["none", "tanh"]

# Fits the normal distribution function by a tanh: Hendrycks & Gimpel 2016, arXiv:1606.08415.
CUBIC = 0.044715
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
NORMAL_DENSITY = 1 / math.sqrt(2 * math.pi)
# Beyond this |x| gelu is 0 or x in every dtype, and powers of x need not grow to infinity.
STRAIGHT = 1e3

_HALVES = (sample((2, 6)), sample((2, 4, 3), axis=1), sample((2,), axis=0))
_EITHER_GELU = (sample((2, 3)), sample((4,), approximate="tanh"))
_EITHER_GELU_BACKWARD = (
    sample((2, 3), (2, 3)),
    sample((4,), (4,), approximate="tanh"),
)


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
    """Return the share of the normal distribution below x, or the tanh that fits it."""
    if approximate == "tanh":
        return 0.5 + 0.5 * k.tanh(SQRT_2_OVER_PI * x * (1 + CUBIC * x * x))
    return k.ndtr(x)


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


class Activation(Joining, Mathematics):
    """Activation functions."""

    __slots__ = ()

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

    @composite(accepts="float", promotes="all", infer=same_type, samples=(sample((2, 3)),))
    def mish(self, /) -> Self:
        """x * tanh(softplus(x)).

        Source: Misra 2019, arXiv:1908.08681.
        """
        return self * self.softplus().tanh()

    @composite(accepts="float", promotes="all", infer=same_type, samples=(sample((2, 3)),))
    def softsign(self, /) -> Self:
        """x / (1 + |x|)."""
        return self / (self.abs() + 1)

    @composite(accepts="float", promotes="all", infer=same_type, samples=(sample((2, 3)),))
    def tanhshrink(self, /) -> Self:
        """x - tanh(x)."""
        return self - self.tanh()

    # ---- gates ----

    @composite(
        accepts="float",
        promotes="all",
        canonical=axis_of("glu"),
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
        canonical=axis_of("swiglu"),
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
