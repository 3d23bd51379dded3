"""Inverse trigonometric functions, of which Candle has none: polynomials of the kernels' tables.

Computed in float64 whatever the dtype, within a few units of its last place.  Zeros of both signs
and infinities are as in C.
"""

from __future__ import annotations

import math

from pyrite.backend.candle.tensor import CandleTensor, where
from pyrite.kernel.polyfill.coefficients import ASIN, ATAN
from pyrite.types import float64


def asin(x: CandleTensor) -> CandleTensor:
    """Inverse of sin; NaN outside [-1, 1]."""
    wide = x.store(float64)
    angle, is_small = _half_angle(wide)
    found = where(is_small, angle, math.pi / 2 - angle * 2)
    return signed(found, wide).store(x.dtype)


def acos(x: CandleTensor) -> CandleTensor:
    """Inverse of cos; NaN outside [-1, 1]."""
    wide = x.store(float64)
    angle, is_small = _half_angle(wide)
    inner = math.pi / 2 - signed(angle, wide)
    outer = where(wide < 0, math.pi - angle * 2, angle * 2)
    return where(is_small, inner, outer).store(x.dtype)


def atan(x: CandleTensor) -> CandleTensor:
    """Inverse of tan."""
    wide = x.store(float64)
    size = magnitude(wide)
    is_high = size > 1
    angle = _angle(where(is_high, 1 / size, size))
    return signed(where(is_high, math.pi / 2 - angle, angle), wide).store(x.dtype)


def atan2(y: CandleTensor, x: CandleTensor) -> CandleTensor:
    """Return the angle of the point (x, y)."""
    high, wide = y.store(float64), x.store(float64)
    a, b = magnitude(high), magnitude(wide)
    is_steep = a > b
    lesser, greater = where(is_steep, b, a), where(is_steep, a, b)
    # Two infinities are as two ones; of two zeros the quotient is 0.
    quotient = where(greater == 0, 0, lesser / greater)
    quotient = where(lesser == math.inf, 1, quotient)
    angle = _angle(quotient)
    angle = where(is_steep, math.pi / 2 - angle, angle)
    angle = where(is_negative(wide), math.pi - angle, angle)
    angle = where(is_negative(high), -angle, angle)
    return where((y != y) | (x != x), math.nan, angle).store(y.dtype)


def _half_angle(x: CandleTensor) -> tuple[CandleTensor, CandleTensor]:
    """Return asin(y) with y = |x| up to 1/2, else sqrt((1 - |x|) / 2); and which it was."""
    size = magnitude(x)
    is_small = size <= 0.5
    square = where(is_small, size * size, (1 - size) * 0.5)
    y = where(is_small, size, CandleTensor(square.data.sqrt(), float64))
    return y + y * square * polynomial(ASIN[1], square), is_small


def _angle(x: CandleTensor) -> CandleTensor:
    """Return atan(x) for 0 <= x <= 1; above tan(π/8) from π/4 (Cephes, atan.c)."""
    is_low = x < math.tan(math.pi / 8)
    t = where(is_low, x, (x - 1) / (x + 1))
    square = t * t
    return where(is_low, x * 0, math.pi / 4) + (t + t * square * polynomial(ATAN[1], square))


# ---- signs and sums ----


def magnitude(x: CandleTensor) -> CandleTensor:
    """Return |x| of floats."""
    return CandleTensor(x.data.abs(), x.dtype)


def is_negative(x: CandleTensor) -> CandleTensor:
    """Whether the sign bit is set, of what is not NaN."""
    return (x < 0) | ((x == 0) & (1 / x < 0))


def signed(size: CandleTensor, x: CandleTensor) -> CandleTensor:
    """Return the values of an odd function from those of |x|; zeros keep their sign."""
    return where(x < 0, -size, where(x == 0, x, size))


def polynomial(coefficients: tuple[float, ...], x: CandleTensor) -> CandleTensor:
    """Return the sum of coefficients[i] * x ** i, by Horner's rule."""
    total = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total = (total + coefficient) * x
    return total + coefficients[0]
