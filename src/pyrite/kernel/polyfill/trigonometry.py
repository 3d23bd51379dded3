"""sin, cos, tan, asin, acos, atan, atan2.

x = n π/2 + r with |r| <= π/4, π/2 in four parts of so few bits that n times each is exact: for
float32 up to |x| = 2 ** 16, for float64 up to 2 ** 26 (Cody & Waite 1980, chapter 8).  Where any
element of a vector is greater it is reduced by `large_reduction`, with as many bits as it takes.
"""

from __future__ import annotations

import math

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import ASIN, ATAN, COS, HALF_PI, SIN
from pyrite.kernel.polyfill.floats import (
    FORMATS,
    any_of,
    copysign,
    format_of,
    isfinite,
    isinf,
    isnan,
    magnitude,
    nan_where,
    negative,
    of,
    polynomial,
    sign_of,
    signbit,
    with_sign,
)
from pyrite.kernel.polyfill.large_angle import HALF_PI_LOW, LEAST_LARGE, large_reduction

_QUARTER = math.pi / 4


def sin_cos_reduced(k: KernelBuilder, r: Value) -> tuple[Value, Value]:
    """Sine and cosine for |r| <= π/4."""
    square = r * r
    sine = k.fma(r * square, polynomial(k, square, of(r, SIN)), r)
    tail = k.fma(square * square, polynomial(k, square, of(r, COS)), -0.5 * square)
    return sine, tail + 1.0


def _reduce(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return the quadrant n as an integer, of which two bits count, and r, for x >= 0."""
    format = format_of(x)
    least = 2.0 ** (LEAST_LARGE[format.column] - format.bias)
    n = k.rint(x * (2.0 / math.pi))
    less = negative(k, n)
    first, second, third, rest = of(x, HALF_PI)
    r = k.fma(less, second, k.fma(n, -first, x))
    r = k.fma(less, rest, k.fma(n, -third, r))
    quadrant = k.cast(n, format.bits)
    is_large = x >= least
    with k.if_(any_of(k, is_large), is_rare=True) as branch:
        far, rest_of_far = large_reduction(k, x)
        branch.yield_(k.select(is_large, far, quadrant), k.select(is_large, rest_of_far, r))
    with branch.else_():
        branch.yield_(quadrant, r)
    quadrant, r = branch.results
    return quadrant, r


def _sign_from(k: KernelBuilder, n: Value, x: Value) -> Value:
    """Bit 1 of n as a sign bit."""
    return (n & 2) << (FORMATS[x.dtype].bits.bits - 2)


def sin(k: KernelBuilder, x: Value) -> Value:
    """Sine, within 2 ulp or 1e-7 of it in float32; NaN at infinity."""
    n, r = _reduce(k, abs(x))
    sine, cosine = sin_cos_reduced(k, r)
    value = k.select((n & 1) == 0, sine, cosine)
    signed = with_sign(k, value, _sign_from(k, n, x) ^ sign_of(k, x))
    return nan_where(k, ~isfinite(k, x), signed)


def cos(k: KernelBuilder, x: Value) -> Value:
    """Cosine, within 2 ulp or 1e-7 of it in float32; NaN at infinity."""
    n, r = _reduce(k, abs(x))
    sine, cosine = sin_cos_reduced(k, r)
    value = k.select((n & 1) == 0, cosine, sine)
    return nan_where(k, ~isfinite(k, x), with_sign(k, value, _sign_from(k, n + 1, x)))


def tan(k: KernelBuilder, x: Value) -> Value:
    """Tangent, within 4 ulp or 1e-7 of it in float32; NaN at infinity."""
    n, r = _reduce(k, abs(x))
    sine, cosine = sin_cos_reduced(k, r)
    is_even = (n & 1) == 0
    value = k.select(is_even, sine, -cosine) / k.select(is_even, cosine, sine)
    return nan_where(k, ~isfinite(k, x), with_sign(k, value, sign_of(k, x)))


def _half_angle(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return asin(y) with y = |x| up to 1/2, else sqrt((1 - |x|) / 2); and which it was."""
    a = abs(x)
    is_small = a <= 0.5
    z = k.select(is_small, a * a, (1.0 - a) * 0.5)
    y = k.select(is_small, a, k.sqrt(z))
    return k.fma(y * z, polynomial(k, z, of(x, ASIN)), y), is_small


def asin(k: KernelBuilder, x: Value) -> Value:
    """Inverse of sin, within 2 ulp; NaN outside [-1, 1]."""
    angle, is_small = _half_angle(k, x)
    (low,) = of(x, HALF_PI_LOW)
    return copysign(k, k.select(is_small, angle, math.pi / 2 - (angle + angle - low)), x)


def acos(k: KernelBuilder, x: Value) -> Value:
    """Inverse of cos, within 2 ulp; NaN outside [-1, 1]."""
    angle, is_small = _half_angle(k, x)
    (low,) = of(x, HALF_PI_LOW)
    middle = math.pi / 2 - (with_sign(k, angle, sign_of(k, x)) - low)
    twice = angle + angle
    outer = k.select(signbit(k, x), math.pi - (twice - 2 * low), twice)
    return k.select(is_small, middle, outer)


def _angle_of(k: KernelBuilder, a: Value, b: Value) -> Value:
    """Return atan(a / b) for a, b >= 0, not both 0 and not both infinite.

    Up to tan(π/8) by the polynomial; above, from π/4 or π/2 (Cephes, atan.c).
    """
    is_high, is_low = a > b * math.tan(3 * math.pi / 8), a < b * math.tan(math.pi / 8)
    zero = k.const(0.0, a.type)
    numerator = k.select(is_high, -b, k.select(is_low, a, a - b))
    denominator = k.select(is_high, a, k.select(is_low, b, a + b))
    base = k.select(is_high, math.pi / 2, k.select(is_low, zero, _QUARTER))
    (low,) = of(a, HALF_PI_LOW)
    missing = k.select(is_high, low, k.select(is_low, zero, 0.5 * low))
    t = numerator / denominator
    square = t * t
    return base + (k.fma(t * square, polynomial(k, square, of(a, ATAN)), t) + missing)


def atan(k: KernelBuilder, x: Value) -> Value:
    """Inverse of tan, within 2 ulp."""
    return copysign(k, _angle_of(k, abs(x), k.const(1.0, x.type)), x)


def atan2(k: KernelBuilder, y: Value, x: Value) -> Value:
    """Return the angle of (x, y) in (-π, π], within 3 ulp; signed zeros and infinities as in C."""
    a, b = abs(y), abs(x)
    # a + b must not overflow, nor the greater of them be a denormal.
    factor = k.select((a > 1.0) | (b > 1.0), k.const(0.25, x.type), 2.0**64)
    a, b = a * factor, b * factor
    both_infinite = isinf(k, y) & isinf(k, x)
    both_zero = (magnitude(k, y) | magnitude(k, x)) == 0
    one = k.const(1.0, x.type)
    a = k.select(both_infinite, one, a)
    b = k.select(both_infinite | both_zero, one, b)
    angle = _angle_of(k, a, b)
    (low,) = of(x, HALF_PI_LOW)
    angle = k.select(signbit(k, x), math.pi - (angle - 2 * low), angle)
    return nan_where(k, isnan(k, x) | isnan(k, y), copysign(k, angle, y))
