"""Functions of floating-point numbers, elementwise.

Shapes are (...) -> (...) throughout; two inputs broadcast.  Integers and bools become the default
float.  Outside its domain a function is NaN.  Angles are in radians.
"""

from __future__ import annotations

import math
from typing import Any, Self

from pyrite.op import primitive
from pyrite.tensor.arithmetic import POSITIVE, Arithmetic
from pyrite.tensor.comparison import Comparison
from pyrite.types import Number

INSIDE_ONE = (-0.9, 0.9)
LN2, LN10 = math.log(2.0), math.log(10.0)
DEGREE = math.pi / 180.0


def logaddexp_rule(k: Any, x: Any, y: Any) -> Any:
    """Return log(exp(x) + exp(y)), the scalar rule of `logaddexp`."""
    # Equal values apart, because the difference of two equal infinities is NaN.
    return k.where(x == y, x + LN2, k.maximum(x, y) + k.log1p(k.exp(-k.abs(x - y))))


def _xlogy_rule(k: Any, x: Any, y: Any) -> Any:
    # x itself where it is 0, rather than 0 * x: a GPU's driver drops the sign of such a product.
    return k.where((x == 0) & ~k.isnan(y), x, x * k.log(y))


def _logistic(x: Any, y: Any) -> Any:
    """Derivative of logaddexp by x: exp(x) / (exp(x) + exp(y)), a half between equal infinities."""
    # Equal numbers have slopes too, so only infinities are set apart.
    return ((x == y) & (x.abs() == math.inf))._where(0.0, x - y).sigmoid()


class Mathematics(Comparison, Arithmetic):
    """Exponentials, logarithms, trigonometry and special functions."""

    __slots__ = ()

    # ---- exponentials and logarithms ----

    @primitive(scalar=lambda k, x: k.exp(x), vjp=(lambda g, out, _: g * out,), accepts="float")
    def exp(self, /) -> Self:
        """e ** x."""
        ...

    @primitive(
        scalar=lambda k, x: k.exp2(x), vjp=(lambda g, out, _: g * out * LN2,), accepts="float"
    )
    def exp2(self, /) -> Self:
        """2 ** x."""
        ...

    @primitive(
        scalar=lambda k, x: k.expm1(x), vjp=(lambda g, out, _: g * (out + 1),), accepts="float"
    )
    def expm1(self, /) -> Self:
        """e ** x - 1, exact also near 0."""
        ...

    @primitive(
        scalar=lambda k, x: k.log(x),
        vjp=(lambda g, _, x: g / x,),
        accepts="float",
        domain=POSITIVE,
    )
    def log(self, /) -> Self:
        """Natural logarithm; -inf at 0, NaN below."""
        ...

    @primitive(
        scalar=lambda k, x: k.log2(x),
        vjp=(lambda g, _, x: g / (x * LN2),),
        accepts="float",
        domain=POSITIVE,
    )
    def log2(self, /) -> Self:
        """Logarithm to base 2; -inf at 0, NaN below."""
        ...

    @primitive(
        scalar=lambda k, x: k.log10(x),
        vjp=(lambda g, _, x: g / (x * LN10),),
        accepts="float",
        domain=POSITIVE,
    )
    def log10(self, /) -> Self:
        """Logarithm to base 10; -inf at 0, NaN below."""
        ...

    @primitive(
        scalar=lambda k, x: k.log1p(x),
        vjp=(lambda g, _, x: g / (x + 1),),
        accepts="float",
        domain=(-0.9, 3.0),
    )
    def log1p(self, /) -> Self:
        """log(1 + x), exact also near 0."""
        ...

    @primitive(
        scalar=logaddexp_rule,
        vjp=(
            lambda g, _, x, y: g * _logistic(x, y),
            lambda g, _, x, y: g * _logistic(y, x),
        ),
        accepts="float",
    )
    def logaddexp(self, other: Self | Number, /) -> Self:
        """log(exp(x) + exp(y)), without overflow."""
        ...

    @primitive(
        scalar=_xlogy_rule,
        vjp=(
            lambda g, _, x, y: g * ((x == 0) & (y == 0))._where(0, _log(y)),
            lambda g, _, x, y: g * (x / y),
        ),
        accepts="float",
        domain=((-2.0, 2.0), POSITIVE),
    )
    def xlogy(self, other: Self | Number, /) -> Self:
        """x * log(y); 0 at x = 0 whatever y is, unless y is NaN."""
        ...

    # ---- lengths and angles ----

    @primitive(
        scalar=lambda k, x, y: k.hypot(x, y),
        vjp=(
            lambda g, out, x: g * (out == 0)._where(0, x / out),
            lambda g, out, _, y: g * (out == 0)._where(0, y / out),
        ),
        accepts="float",
        domain=(POSITIVE, POSITIVE),
    )
    def hypot(self, other: Self | Number, /) -> Self:
        """sqrt(x² + y²), without overflow; the gradient at (0, 0) is 0."""
        ...

    @primitive(
        scalar=lambda k, y, x: k.atan2(y, x),
        vjp=(
            lambda g, _, y, x: g * _turn(x, y),
            lambda g, _, y, x: g * -_turn(y, x),
        ),
        accepts="float",
        domain=(POSITIVE, POSITIVE),
    )
    def atan2(self, x: Self | Number, /) -> Self:
        """The angle of the point (x, self), between -π and π; the gradient at (0, 0) is 0."""
        ...

    @primitive(scalar=lambda k, x: x * DEGREE, vjp=(lambda g, *_: g * DEGREE,), accepts="float")
    def deg2rad(self, /) -> Self:
        """Degrees as radians."""
        ...

    @primitive(
        scalar=lambda k, x: x * (1 / DEGREE), vjp=(lambda g, *_: g * (1 / DEGREE),), accepts="float"
    )
    def rad2deg(self, /) -> Self:
        """Radians as degrees."""
        ...

    # ---- trigonometry ----

    @primitive(scalar=lambda k, x: k.sin(x), vjp=(lambda g, _, x: g * x.cos(),), accepts="float")
    def sin(self, /) -> Self:
        """Sine.

        On ``cpu`` and ``wgpu`` within a few ulp in float32 for abs(x) <= 2 ** 16.  Beyond, the
        error grows with x, as the gap between neighbouring angles does: 0.05 at a million.
        """
        ...

    @primitive(scalar=lambda k, x: k.cos(x), vjp=(lambda g, _, x: g * -x.sin(),), accepts="float")
    def cos(self, /) -> Self:
        """Cosine, as exact as `sin`."""
        ...

    @primitive(
        scalar=lambda k, x: k.tan(x),
        vjp=(lambda g, out, _: g * (out * out + 1),),
        accepts="float",
        domain=(-1.0, 1.0),
    )
    def tan(self, /) -> Self:
        """Tangent."""
        ...

    @primitive(
        scalar=lambda k, x: k.where(x == 0, 1, k.sin(x * math.pi) / (x * math.pi)),
        vjp=(lambda g, out, x: g * ((x * math.pi).cos() - out) / (x == 0)._where(1, x),),
        accepts="float",
        domain=(0.2, 3.0),
    )
    def sinc(self, /) -> Self:
        """sin(pi x) / (pi x), and 1 at 0: the Fourier transform of a box, as NumPy scales it."""
        ...

    @primitive(
        scalar=lambda k, x: k.asin(x),
        vjp=(lambda g, _, x: g * (1 - x * x).rsqrt(),),
        accepts="float",
        domain=INSIDE_ONE,
    )
    def asin(self, /) -> Self:
        """Inverse sine, between -π/2 and π/2."""
        ...

    @primitive(
        scalar=lambda k, x: k.acos(x),
        vjp=(lambda g, _, x: g * -(1 - x * x).rsqrt(),),
        accepts="float",
        domain=INSIDE_ONE,
    )
    def acos(self, /) -> Self:
        """Inverse cosine, between 0 and π."""
        ...

    @primitive(
        scalar=lambda k, x: k.atan(x), vjp=(lambda g, _, x: g / (x * x + 1),), accepts="float"
    )
    def atan(self, /) -> Self:
        """Inverse tangent, between -π/2 and π/2."""
        ...

    @primitive(scalar=lambda k, x: k.sinh(x), vjp=(lambda g, _, x: g * x.cosh(),), accepts="float")
    def sinh(self, /) -> Self:
        """Hyperbolic sine."""
        ...

    @primitive(scalar=lambda k, x: k.cosh(x), vjp=(lambda g, _, x: g * x.sinh(),), accepts="float")
    def cosh(self, /) -> Self:
        """Hyperbolic cosine."""
        ...

    @primitive(
        scalar=lambda k, x: k.tanh(x), vjp=(lambda g, out, _: g * (1 - out * out),), accepts="float"
    )
    def tanh(self, /) -> Self:
        """Hyperbolic tangent."""
        ...

    @primitive(
        scalar=lambda k, x: k.asinh(x),
        vjp=(lambda g, _, x: g * (x * x + 1).rsqrt(),),
        accepts="float",
    )
    def asinh(self, /) -> Self:
        """Inverse hyperbolic sine."""
        ...

    @primitive(
        scalar=lambda k, x: k.acosh(x),
        vjp=(lambda g, _, x: g * (x * x - 1).rsqrt(),),
        accepts="float",
        domain=(1.2, 3.0),
    )
    def acosh(self, /) -> Self:
        """Inverse hyperbolic cosine, not negative."""
        ...

    @primitive(
        scalar=lambda k, x: k.atanh(x),
        vjp=(lambda g, _, x: g / (1 - x * x),),
        accepts="float",
        domain=INSIDE_ONE,
    )
    def atanh(self, /) -> Self:
        """Inverse hyperbolic tangent."""
        ...

    # ---- special functions ----

    @primitive(
        scalar=lambda k, x: k.erf(x),
        vjp=(lambda g, _, x: g * (2 / math.sqrt(math.pi)) * (-x * x).exp(),),
        accepts="float",
    )
    def erf(self, /) -> Self:
        """Error function: 2/√π times the integral of exp(-t²) from 0 to x."""
        ...

    @primitive(
        scalar=lambda k, x: k.erfinv(x),
        vjp=(lambda g, out, _: g * (math.sqrt(math.pi) / 2) * (out * out).exp(),),
        accepts="float",
        domain=INSIDE_ONE,
    )
    def erfinv(self, /) -> Self:
        """Inverse of erf on -1 ≤ x ≤ 1; infinite at the ends."""
        ...

    @primitive(
        scalar=lambda k, x: k.ndtr(x),
        vjp=(lambda g, _, x: g * (1 / math.sqrt(2 * math.pi)) * (-0.5 * x * x).exp(),),
        accepts="float",
    )
    def ndtr(self, /) -> Self:
        """The share of the standard normal distribution below x: (1 + erf(x / √2)) / 2.

        In float32 within 2e-7, and where erf is nearly -1 still within 3e-6 of itself down to -3
        (not on Candle).

        >>> import pyrite
        >>> round(pyrite.tensor(-1.0).ndtr().item(), 4)
        0.1587
        """
        ...

    @primitive(
        scalar=lambda k, x: k.lgamma(x),
        vjp=(lambda g, _, x: g * x.digamma(),),
        accepts="float",
        domain=(0.3, 4.0),
    )
    def lgamma(self, /) -> Self:
        """Logarithm of |Γ(x)|; inf at 0, -1, -2 and so on."""
        ...

    @primitive(
        scalar=lambda k, x: k.digamma(x),
        vjp=(lambda g, _, x: g * x._trigamma(),),
        accepts="float",
        domain=(0.3, 4.0),
    )
    def digamma(self, /) -> Self:
        """Derivative of lgamma; NaN at -1, -2 and so on, -inf at 0.0 and inf at -0.0."""
        ...

    @primitive(scalar=lambda k, x: k.trigamma(x), accepts="float", domain=(0.3, 4.0))
    def _trigamma(self, /) -> Self:
        """Derivative of digamma; inf at 0, -1, -2 and so on.  It has no derivative here."""
        ...


def _log(x: Any) -> Any:
    return math.log(x) if isinstance(x, bool | int | float) else x.log()


def _turn(x: Any, y: Any) -> Any:
    """Return x / (x² + y²), or 0 at (0, 0)."""
    square = x * x + y * y
    return (square == 0)._where(0, x / square)
