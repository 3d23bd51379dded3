"""pow and hypot.

x ** y = 2 ** (y log2 |x|), with log2 as the sum of two numbers, since its error counts y log2 x
times.  Products are of halves that are cut to half their bits, so that they are exact without fma
and stay so with it (Dekker 1971; the arrangement is that of FreeBSD's e_pow.c).
"""

from __future__ import annotations

import math

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import POW
from pyrite.kernel.polyfill.exponential import exp2_of
from pyrite.kernel.polyfill.floats import (
    any_of,
    bits,
    format_of,
    isinf,
    isnan,
    magnitude,
    nan_where,
    of,
    polynomial,
    with_sign,
)
from pyrite.kernel.polyfill.logarithm import split

# 2 / (3 ln 2) in two parts, the first of half the bits.
_SCALE = 2.0 / (3.0 * math.log(2.0))
_SCALE_PARTS = (
    (0.961669921875, 0.00012677205097560490662),
    (0.9617966860532761, 7.872699542894897704e-9),
)
# Greater exponents overflow or underflow for every x but 1.
_LARGEST_EXPONENT = ((2.0**33,), (2.0**64,))
# 2 to these is 0, or infinite.
_PRODUCTS = ((-200.0, 128.0), (-1200.0, 1024.0))


def _upper(k: KernelBuilder, x: Value) -> Value:
    """Return x with the lower half of its mantissa cleared."""
    cut = (format_of(x).mantissa + 2) // 2
    return k.bitcast(bits(k, x) & -(1 << cut), x.dtype)


def _log2_in_parts(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return log2(x) as a number of half the bits and the rest, for finite x > 0."""
    exponent, m = split(k, x)
    f = m - 1.0
    total = m + 1.0
    total_upper = _upper(k, total)
    total_lower = m - (total_upper - 1.0)
    # s = f / total in two parts.
    s = f / total
    s_upper = _upper(k, s)
    s_lower = ((f - s_upper * total_upper) - s_upper * total_lower) / total
    # 3 atanh(s) / s = 3 + s² + s⁴ p(s²) in two parts.
    square = s * s
    rest = square * square * polynomial(k, square, of(x, POW)) + s_lower * (s_upper + s)
    square_upper = s_upper * s_upper
    t_upper = _upper(k, square_upper + 3.0 + rest)
    t_lower = rest - ((t_upper - 3.0) - square_upper)
    # Their product, times 2 / (3 ln 2), plus the exponent.
    product = s_upper * t_upper
    product_rest = s_lower * t_upper + t_lower * s
    p_upper = _upper(k, product + product_rest)
    p_lower = product_rest - (p_upper - product)
    scale_upper, scale_lower = of(x, _SCALE_PARTS)
    z_upper = p_upper * scale_upper
    z_lower = p_upper * scale_lower + p_lower * _SCALE
    upper = _upper(k, (z_upper + z_lower) + exponent)
    return upper, z_lower - ((upper - exponent) - z_upper)


def _power_of_magnitude(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return x ** y for finite x > 0."""
    (largest,) = of(x, _LARGEST_EXPONENT)
    bounded = k.max(k.min(y, largest), -largest)
    log_upper, log_lower = _log2_in_parts(k, x)
    y_upper = _upper(k, bounded)
    upper = y_upper * log_upper
    lower = (bounded - y_upper) * log_upper + bounded * log_lower
    low, high = of(x, _PRODUCTS)
    inside = k.max(k.min(upper, high), low)
    lower = k.select(inside == upper, lower, 0.0)
    return exp2_of(k, inside, k.rint(inside + lower), lower)


def pow(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return x ** y, within 4 ulp; zeros, infinities, NaN and negative bases as C's pow."""
    if not x.dtype.is_float:
        return _integer_power(k, x, y)
    a = abs(x)
    is_zero, is_infinite = magnitude(k, x) == 0, isinf(k, x)
    one, zero = k.const(1.0, x.type), k.const(0.0, x.type)
    power = _power_of_magnitude(k, k.select(is_zero | is_infinite, one, a), y)
    is_grown = is_zero ^ (y > 0.0)
    power = k.select(is_zero | is_infinite, k.select(is_grown, math.inf, zero), power)
    half = y * 0.5
    is_whole = k.floor(y) == y
    is_odd = is_whole & (k.floor(half) != half)
    negative = bits(k, x) < 0
    sign = k.select(negative & is_odd, k.const(int(format_of(x).bits.lowest), bits(k, x).type), 0)
    power = with_sign(k, power, sign)
    is_undefined = negative & ~is_whole & ~is_zero & ~is_infinite
    power = nan_where(k, is_undefined | isnan(k, x) | isnan(k, y), power)
    return k.select((magnitude(k, y) == 0) | (x == 1.0), one, power)


def _integer_power(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return x ** y by repeated squaring, modulo 2 ** width; 0, 1 or -1 for a negative y."""
    one, zero = k.const(1, x.type), k.const(0, x.type)
    exponent = k.max(y, 0)
    with k.while_([one, x, exponent]) as loop:
        loop.condition(any_of(k, loop.carried[2] != 0))
        result, base, rest = loop.carried
        result = k.select((rest & 1) != 0, result * base, result)
        loop.yield_(result, base * base, rest >> 1)
    if x.dtype.kind == "uint":
        return loop.results[0]
    alternating = k.select((y & 1) == 0, one, -1)
    reciprocal = k.select(x == 1, one, k.select(x == -1, alternating, zero))
    return k.select(y < 0, reciprocal, loop.results[0])


def hypot(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return sqrt(x² + y²) without overflow, within 2 ulp; infinite if either is."""
    a, b = abs(x), abs(y)
    greater, lesser = k.max(a, b), k.min(a, b)
    is_zero = greater == 0.0
    ratio = lesser / k.select(is_zero, 1.0, greater)
    length = greater * k.sqrt(k.fma(ratio, ratio, 1.0))
    length = nan_where(k, isnan(k, x) | isnan(k, y), length)
    return k.select(isinf(k, x) | isinf(k, y), math.inf, length)
