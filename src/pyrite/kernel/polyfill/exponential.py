"""exp, exp2, exp of what is at most 1, expm1, sinh, cosh, tanh.

x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts of which n times the first is exact; exp(r)
by a polynomial; times 2 ** n in the exponent (Cody & Waite 1980, chapter 6).

Nothing is computed with denormals, not even where results are, or squares of small numbers would
be: they take a processor up to a hundred cycles.
"""

from __future__ import annotations

import math

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import EXP, LN_2, SINH
from pyrite.kernel.polyfill.floats import (
    copysign,
    format_of,
    keep_nan,
    negative,
    of,
    polynomial,
    whole,
    with_exponent,
)

# Beyond these, exp overflows to infinity, underflows to 0, and expm1 is -1.
_OVERFLOW = ((89.0,), (710.0,))
_UNDERFLOW = ((-104.0,), (-746.0,))
_MINUS_ONE = ((-18.0,), (-38.0,))
# The least whose exp is a normal number, and of which the power of two is one.
_NORMAL = ((-87.0,), (-708.0,))
# Beyond twice x tanh(x) is 1 in every digit.
_TANH_IS_ONE = ((20.0,), (40.0,))
# The inverse of this is nothing beside it; those of greater numbers would be denormals.
_NEGLIGIBLE = 2.0**60


def _clamp(k: KernelBuilder, x: Value, low: float, high: float) -> Value:
    """Return x within bounds, or NaN.

    As choices: a GPU's least of two, of which the second may be NaN, takes four more instructions,
    and what is made of this there asks for NaN at its end.
    """
    below = k.select(x > high, high, x)
    return k.select(below < low, low, below)


def _keep_nan(k: KernelBuilder, x: Value, scaled: Value) -> Value:
    """Return what is made of x by arithmetic that keeps NaN, and a power of two at the end."""
    return k.alu("keep_nan", x, scaled)


def _reduce(k: KernelBuilder, x: Value) -> tuple[Value, Value]:
    """Return whole n, and r with x = n ln 2 + r."""
    upper, lower = of(x, LN_2)
    n = k.rint(x * (1.0 / math.log(2.0)))
    return n, k.fma(negative(k, n), lower, k.fma(n, -upper, x))


def expm1_reduced(k: KernelBuilder, r: Value) -> Value:
    """Return exp(r) - 1 for |r| <= ln 2 / 2."""
    return k.fma(r * r, polynomial(k, r, of(r, EXP)), r)


def exp_reduced(k: KernelBuilder, r: Value) -> Value:
    """Return exp(r) for |r| <= ln 2 / 2."""
    return k.fma(r, k.fma(r, polynomial(k, r, of(r, EXP)), 1.0), 1.0)


def exp_scaled(k: KernelBuilder, x: Value, power: int, *, is_normal: bool = False) -> Value:
    """Return exp(x) * 2 ** power, where exp(x) may overflow; ``is_normal``: see `with_exponent`."""
    room = abs(power) * math.log(2.0)
    bounded = _clamp(k, x, of(x, _UNDERFLOW)[0], of(x, _OVERFLOW)[0] + room)
    n, r = _reduce(k, bounded)
    if power:
        n = n + power
    reduced = exp_reduced(k, r)
    if is_normal:
        return keep_nan(k, x, with_exponent(k, reduced, whole(k, n), is_normal=True))
    return _keep_nan(k, x, k.ldexp(reduced, n))


def exp(k: KernelBuilder, x: Value) -> Value:
    """Return e ** x, within 1 ulp."""
    return exp_scaled(k, x, 0)


def exp_of_difference(k: KernelBuilder, x: Value) -> Value:
    """Return e ** x for x <= 1, within 1 ulp, as in a softmax: 0 where that is no normal number."""
    least = of(x, _NORMAL)[0]
    n, r = _reduce(k, k.select(x < least, least, x))
    power = k.ldexp(exp_reduced(k, r), n, is_normal=True)
    return k.select(x < least, 0.0, power)


def exp2(k: KernelBuilder, x: Value) -> Value:
    """2 ** x, within 1 ulp; exact for whole x."""
    format = format_of(x)
    bounded = _clamp(k, x, -(format.bias + format.mantissa + 2.0), format.bias + 1.0)
    return _keep_nan(k, x, exp2_of(k, bounded, k.rint(bounded)))


def exp2_of(k: KernelBuilder, x: Value, n: Value, rest: Value | None = None) -> Value:
    """2 ** (x + rest), n being x rounded to a whole number."""
    fraction = x - n if rest is None else (x - n) + rest
    power = exp_reduced(k, fraction * math.log(2.0))
    return k.ldexp(power, n)


def expm1(k: KernelBuilder, x: Value) -> Value:
    """Return e ** x - 1, within 2 ulp."""
    format = format_of(x)
    n, r = _reduce(k, _clamp(k, x, of(x, _MINUS_ONE)[0], of(x, _OVERFLOW)[0]))
    half = k.ldexp(1.0, n - 1.0, is_normal=True)
    # 2 ** n alone may overflow, so everything is halved; exact where n is 0.
    result = k.fma(expm1_reduced(k, r), half, half - 0.5) * 2.0
    return keep_nan(k, x, k.select(abs(x) < format.tiny, x, result))


def sinh(k: KernelBuilder, x: Value) -> Value:
    """Return (e ** x - e ** -x) / 2, within 3 ulp."""
    a = abs(x)
    square = a * a
    small = k.fma(a * square, polynomial(k, square, of(x, SINH)), a)
    half = exp_scaled(k, a, -1, is_normal=True)
    large = half - 0.25 / k.min(half, _NEGLIGIBLE)
    return copysign(k, k.select(a < 1.0, small, large), x)


def cosh(k: KernelBuilder, x: Value) -> Value:
    """Return (e ** x + e ** -x) / 2, within 2 ulp."""
    half = exp_scaled(k, abs(x), -1, is_normal=True)
    return half + 0.25 / k.min(half, _NEGLIGIBLE)


def tanh(k: KernelBuilder, x: Value) -> Value:
    """Return sinh(x) / cosh(x), within 2 ulp.

    As t / (t + 2) for t = e ** 2x - 1, which is made without the 1.  Where that is small, t + 2 has
    lost digits of t that count; there it is t / 2 less as much of that as the result is of 1.
    Drivers of GPUs may take the bound for a least of two, which loses NaN: an H200's gave 1.
    """
    most = of(x, _TANH_IS_ONE)[0]
    twice = abs(x) + abs(x)
    n, r = _reduce(k, k.select(twice > most, most, twice))
    power = k.ldexp(1.0, n, is_normal=True)
    t = k.fma(expm1_reduced(k, r), power, power - 1.0)
    half, quotient = t * 0.5, t / (t + 2.0)
    small = k.fma(negative(k, half), quotient, half)
    return _keep_nan(k, x, copysign(k, k.select(quotient < 0.25, small, quotient), x))
