"""log, log2, log10, log1p, asinh, acosh, atanh.

x = m 2 ** e with sqrt(1/2) <= m < sqrt(2), log(m) by a polynomial in m - 1 for float32, and by one
in s = (m - 1) / (m + 1) for float64, where the division is worth its price.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import LN_2, LOG, LOG10_2, LOG_RATIO
from pyrite.kernel.polyfill.floats import (
    bits,
    copysign,
    format_of,
    magnitude,
    nan_where,
    negative,
    of,
    polynomial,
)

_SQRT_HALF = (
    struct.unpack("<i", struct.pack("<f", math.sqrt(0.5)))[0],
    struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0],
)
# Denormals are multiplied by 2 ** this before they are taken apart.
_LIFT = 54
# From here on asinh(x) and acosh(x) are log(2 x).
_LARGE = ((2.0**26,), (2.0**55,))


@dataclass(frozen=True, slots=True)
class Parts:
    """A positive number as 2 ** exponent * (1 + rest), and log(1 + rest) in two terms."""

    exponent: Value
    rest: Value
    correction: Value


def split(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return e and m of x = m 2 ** e, for positive finite x; denormals too."""
    format = format_of(x)
    root = _SQRT_HALF[format.column]
    is_denormal = bits(k, x) < (1 << format.mantissa)
    lifted = bits(k, k.select(is_denormal, x * 2.0**_LIFT, x))
    shifted = lifted + ((format.bias << format.mantissa) - root)
    lift = k.select(is_denormal, k.const(format.bias + _LIFT, lifted.type), format.bias)
    exponent = k.cast((shifted >> format.mantissa) - lift, x.dtype)
    m = k.bitcast((shifted & ((1 << format.mantissa) - 1)) + root, x.dtype)
    return exponent, m


def _log_near_one(k: KernelBuilder, f: Value) -> Value:
    """Return log(1 + f) - f for sqrt(1/2) <= 1 + f < sqrt(2)."""
    half_square = 0.5 * (f * f)
    if single := of(f, LOG):
        return f * (f * f) * polynomial(k, f, single) - half_square
    s = f / (f + 2.0)
    z = s * s
    tail = (z + z) * polynomial(k, z, of(f, LOG_RATIO))
    # 2 s = f - s f, so that f, which is exact, is the leading term.
    return s * (half_square + tail) - half_square


def _parts(k: KernelBuilder, x: Value) -> Parts:
    exponent, m = split(k, x)
    rest = m - 1.0
    return Parts(exponent, rest, _log_near_one(k, rest))


def _natural(k: KernelBuilder, p: Parts) -> Value:
    upper, lower = of(p.rest, LN_2)
    return k.fma(p.exponent, upper, p.rest + k.fma(p.exponent, lower, p.correction))


def _with_edges(k: KernelBuilder, x: Value, result: Value) -> Value:
    """-inf at 0, NaN below, x itself at infinity and NaN."""
    pattern = bits(k, x)
    result = k.select(pattern >= format_of(x).infinity, x, result)
    result = nan_where(k, pattern < 0, result)
    result = k.select(magnitude(k, x) == 0, -math.inf, result)
    return k.select(magnitude(k, x) > format_of(x).infinity, x, result)


def log(k: KernelBuilder, x: Value) -> Value:
    """Return the natural logarithm, within 1 ulp."""
    return _with_edges(k, x, _natural(k, _parts(k, x)))


def log2(k: KernelBuilder, x: Value) -> Value:
    """Return the logarithm to base 2, within 2 ulp; exact for powers of 2."""
    p = _parts(k, x)
    near = p.rest + p.correction
    return _with_edges(k, x, k.fma(near, math.log2(math.e), p.exponent))


def log10(k: KernelBuilder, x: Value) -> Value:
    """Return the logarithm to base 10, within 2 ulp."""
    p = _parts(k, x)
    upper, lower = of(x, LOG10_2)
    near = (p.rest + p.correction) * math.log10(math.e)
    return _with_edges(k, x, k.fma(p.exponent, upper, k.fma(negative(k, p.exponent), -lower, near)))


def log1p(k: KernelBuilder, x: Value) -> Value:
    """Return log(1 + x), within 3 ulp."""
    total = x + 1.0
    exponent, m = split(k, total)
    # Here 1 + x needs no reduction, and x itself is what 1 + x has lost bits of.
    is_near = (x >= math.sqrt(0.5) - 1.0) & (x <= math.sqrt(2.0) - 1.0)
    # The square of what is tiny would be a denormal, with which a processor takes its time.
    is_tiny = abs(x) < format_of(x).tiny
    rest = k.select(is_near, k.select(is_tiny, 0.0, x), m - 1.0)
    exponent = k.select(is_near, 0.0, exponent)
    result = _natural(k, Parts(exponent, rest, _log_near_one(k, rest)))
    result = _with_edges(k, total, result)
    return k.select(is_tiny, x, result)


def asinh(k: KernelBuilder, x: Value) -> Value:
    """Inverse of sinh, within 4 ulp."""
    a = abs(x)
    (large,) = of(x, _LARGE)
    square = (lambda y: y * y)(k.min(a, large))
    inner = k.select(a < large, a + square / (k.sqrt(square + 1.0) + 1.0), a)
    offset = k.select(a < large, k.const(0.0, x.type), math.log(2.0))
    return copysign(k, log1p(k, inner) + offset, x)


def acosh(k: KernelBuilder, x: Value) -> Value:
    """Inverse of cosh, at least 0, within 4 ulp; NaN below 1."""
    (large,) = of(x, _LARGE)
    t = k.min(x, large) - 1.0
    inner = k.select(x < large, t + k.sqrt(t * (t + 2.0)), x)
    offset = k.select(x < large, k.const(0.0, x.type), math.log(2.0))
    return nan_where(k, x < 1.0, log1p(k, inner) + offset)


def atanh(k: KernelBuilder, x: Value) -> Value:
    """Inverse of tanh, within 4 ulp; infinite at -1 and 1, NaN beyond."""
    a = abs(x)
    return copysign(k, 0.5 * log1p(k, (a + a) / (1.0 - a)), x)
