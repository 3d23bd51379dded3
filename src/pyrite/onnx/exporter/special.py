"""Functions of scalar rules that ONNX has no op for, written in its others.

The gamma family is computed in float64 and rounded once.  It takes ten steps up, where the
asymptotic series are exact to a rounding; next to a root its error is that of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pyrite.kernel.polyfill.coefficients import ERFINV, ERFINV_TAIL
from pyrite.onnx.exporter.term import Term
from pyrite.types import Number, float32, float64

# ---- the error function's kin ----


def ndtr(k: Any, x: Term) -> Any:
    """Return the share of the normal distribution below x.

    1 + erf loses all digits of small results, but ONNX has no erfc.
    """
    return (k.erf(x * math.sqrt(0.5)) + 1) * 0.5


def erfinv(k: Any, x: Term) -> Any:
    """Return the inverse of erf, in w = -log(1 - x²).  Source: Giles 2010."""
    if x.dtype is not float32:
        raise x.call.error(f"float32 for erfinv, which ONNX has not, got {x.dtype.name}")
    a = k.abs(x)
    w = -k.log((1 - a) * (1 + a))
    middle = polynomial(w - 3, ERFINV[0])
    tail = polynomial(k.sqrt(k.maximum(w, 0)) - 3.25, ERFINV_TAIL[0])
    found = k.where(a == 1, math.inf, a * k.where(w < 6, middle, tail))
    return k.copysign(found, x)


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Return the sum of coefficients[i] * x ** i, by Horner's rule."""
    total = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total = (total + coefficient) * x
    return total + coefficients[0]


# ---- the gamma family ----

# Abramowitz & Stegun 6.1.41, 6.3.18 and 6.4.12: the asymptotic series in 1 / x².
_LGAMMA_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA_SERIES = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)

#: From here on the series suffice.
_STEPS = 10


def _in_double(function: Callable[[Any, Term], Any]) -> Callable[[Any, Term], Any]:
    def rounded(k: Any, x: Term) -> Any:
        found = function(k, k.cast(x, float64))
        return k.where(k.isnan(x), x, k.cast(found, x.dtype))

    return rounded


@_in_double
def lgamma(k: Any, x: Term) -> Any:
    """Return the logarithm of |Γ(x)|; infinity at 0, -1, -2 and so on."""
    is_below = x < 0
    y = k.where(is_below, 1 - x, x)
    large, is_small = _stepped_up(k, y)
    series = polynomial(k.reciprocal(large * large), _LGAMMA_SERIES) / large
    above = (large - 0.5) * (k.log(large) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    product = y
    for i in range(1, _STEPS):
        product = product * (y + i)
    above = above - k.where(is_small, k.log(k.where(is_small, product, 1)), 0)
    distance = k.abs(_fraction(k, x))
    mirrored = math.log(math.pi) - k.log(k.sin(distance * math.pi)) - above
    found = k.where(is_below, mirrored, above)
    is_pole = (x <= 0) & (distance == 0)
    return k.where(k.isinf(x) | is_pole, math.inf, found)


@_in_double
def digamma(k: Any, x: Term) -> Any:
    """Return the derivative of lgamma; NaN at -1, -2 and so on, -inf at 0.0 and inf at -0.0."""
    is_below = k.signbit(x)
    y = k.where(is_below, 1 - x, x)
    large, is_small = _stepped_up(k, y)
    inverse = k.reciprocal(large)
    square = inverse * inverse
    above = k.log(large) - inverse * 0.5 - square * polynomial(square, _DIGAMMA_SERIES)
    above = above - k.where(is_small, _sum_of_steps(y, k.reciprocal), 0)
    angle = _fraction(k, x) * math.pi
    is_pole = angle == 0
    tangent = k.where(is_pole, math.nan, k.sin(angle) / k.cos(angle))
    found = k.where(is_below, above - math.pi / tangent, above)
    return k.where(x == 0, k.copysign(math.inf, -x), found)


@_in_double
def trigamma(k: Any, x: Term) -> Any:
    """Return the derivative of digamma; infinity at 0, -1, -2 and so on."""
    is_below = x < 0
    y = k.where(is_below, 1 - x, x)
    large, is_small = _stepped_up(k, y)
    inverse = k.reciprocal(large)
    square = inverse * inverse
    above = inverse + square * (inverse * polynomial(square, _TRIGAMMA_SERIES) + 0.5)
    steps = _sum_of_steps(y, lambda term: k.reciprocal(term * term))
    above = above + k.where(is_small, steps, 0)
    ratio = math.pi / k.sin(_fraction(k, x) * math.pi)
    return k.where(is_below, ratio * ratio - above, above)


def _fraction(k: Any, x: Term) -> Any:
    """Return x less the nearest whole number."""
    return x - k.rint(x)


def _stepped_up(k: Any, x: Term) -> tuple[Term, Term]:
    """Return x, or x + 10 where it is less than 10, and where that is."""
    is_small = x < _STEPS
    return k.where(is_small, x + _STEPS, x), is_small


def _sum_of_steps(x: Term, term: Callable[[Term], Any]) -> Any:
    """Return the sum of a term at x, x + 1 and so on, the least ones first."""
    total = term(x + (_STEPS - 1))
    for i in reversed(range(1, _STEPS - 1)):
        total = total + term(x + i)
    return total + term(x)


# ---- neighbours ----


def nextafter(k: Any, x: Any, y: Any) -> Any:
    """Return the number next to x on the side of y, by arithmetic alone.

    For a normal x, |x| times a bit more than half a unit is a step that rounds to the neighbour.
    What is so small that the product would lose bits is scaled; below, units are all the same.
    Source: Rump, Zimmermann, Boldo and Melquiond 2009, "Computing predecessor and successor in
    rounding to nearest".
    """
    x, y = k.pair(x, y)
    digits, lowest = (24, -126) if x.dtype is float32 else (53, -1022)
    half_unit = 2.0**-digits
    ratio = half_unit * (1 + 2 * half_unit)
    size, sign = k.abs(x), k.where(x < y, k.constant(1.0, x.dtype), -1.0)
    is_small = size < 2.0 ** (lowest + 2 * digits)
    scale = k.where(is_small, k.constant(2.0 ** (2 * digits), x.dtype), 1.0)
    normal = x * scale
    stepped = (normal + sign * (k.abs(normal) * ratio)) / scale
    found = k.where(size <= 2.0**lowest, x + sign * 2.0 ** (lowest - digits + 1), stepped)
    found = k.where(found == 0, k.copysign(0.0, x), found)
    greatest = _greatest(digits, lowest)
    found = k.where(k.isinf(x), k.copysign(greatest, x), found)
    return k.where((x == y) | k.isnan(y), y, k.where(k.isnan(x), x, found))


def _greatest(digits: int, lowest: int) -> Number:
    return (2.0 - 2.0 ** (1 - digits)) * 2.0 ** (1 - lowest)
