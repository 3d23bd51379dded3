"""The intrinsics of `pyrite.algebra` on Candle's tensors.

Candle has exp, log, sin, cos, tanh, square roots, constant powers, comparisons and a choice.  The
rest is made of them where that is exact or within a few units in the last place; what is not raises
Lacking: gamma functions, remainders of floats, bits of integers, the sign of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from candle import functional

from pyrite.backend.candle.angle import (
    acos,
    asin,
    atan,
    atan2,
    is_negative,
    polynomial,
    signed,
)
from pyrite.backend.candle.tensor import CandleTensor, Lacking, carried, filled, number, where
from pyrite.backend.numpy.special import ERF_SINGLE, ERF_SINGLE_END, ERF_SMALL, ERFC_MIDDLE
from pyrite.types import DType, bool_, float64, int32, int64

#: From here on a float is whole: it has no bits for halves.
_WHOLE = {"float32": 2.0**23, "float64": 2.0**52}
#: From here on 1 is nothing beside x ** 2, in every dtype.
_LARGE = 2.0**28


def _lacking(what: str) -> Callable[..., NoReturn]:
    def intrinsic(*_: Any) -> NoReturn:
        raise Lacking(what)

    return intrinsic


class CandleAlgebra:
    """Every intrinsic, evaluated at once."""

    erfinv = lgamma = digamma = trigamma = staticmethod(_lacking("special functions"))
    shift_left = shift_right = popcount = staticmethod(_lacking("the bits of integers"))
    bitcast = multiply_high = staticmethod(_lacking("the bits of integers"))
    signbit = copysign = staticmethod(_lacking("the sign of NaN"))
    nextafter = staticmethod(_lacking("the bits of floats"))

    where = staticmethod(where)

    # ---- choice and order ----

    def minimum(self, x: Any, y: Any) -> CandleTensor:
        """Return the lesser; NaN if either is NaN; -0.0 before 0.0."""
        x, y = _both(x, y)
        found = where(_comes_first(x < y, x), x, y)
        # -(-0.0 - 0.0) is 0.0, of two that were 0.0; any other pair gives -0.0.
        return where((x == 0) & (y == 0), -(-x - y), found) if x.dtype.is_float else found

    def maximum(self, x: Any, y: Any) -> CandleTensor:
        """Return the greater; NaN if either is NaN; 0.0 after -0.0."""
        is_plus_zero = isinstance(y, int | float) and y == 0 and math.copysign(1.0, y) > 0
        x, y = _both(x, y)
        found = where(_comes_first(x > y, x), x, y)
        if is_plus_zero or not x.dtype.is_float:
            return found
        return where((x == 0) & (y == 0), x + y, found)

    def exceeds(self, x: CandleTensor, y: CandleTensor) -> CandleTensor:
        """Return whether x > y, or x alone is NaN."""
        return (x > y) | ((x != x) & (y == y))

    def isnan(self, x: CandleTensor) -> CandleTensor:
        """Whether it is not a number."""
        return x != x

    def isinf(self, x: CandleTensor) -> CandleTensor:
        """Whether it is infinite; an integer never is."""
        return self.abs(x) == math.inf if x.dtype.is_float else x != x

    # ---- conversion ----

    constant = staticmethod(number)

    def cast(self, x: CandleTensor, dtype: DType) -> CandleTensor:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        if dtype is bool_:
            return x != 0
        if x.dtype.is_float and dtype is int32:
            whole, least, greatest = x.store(int64), int(int32.lowest), int(int32.highest)
            whole = where(whole > greatest, greatest, where(whole < least, least, whole))
            return CandleTensor(whole.data, int32)
        return x.store(dtype)

    # ---- sign and rounding ----

    def abs(self, x: CandleTensor) -> CandleTensor:
        """|x|; the least integer stays what it is."""
        return carried(x.data.abs(), x.dtype)

    def sign(self, x: CandleTensor) -> CandleTensor:
        """-1, 0 or 1; NaN stays NaN."""
        found = where(x > 0, 1, where(x == 0, 0, x))
        return found if x.dtype.kind == "uint" else where(x < 0, -1, found)

    def trunc(self, x: CandleTensor) -> CandleTensor:
        """Return the whole number next to x on the side of 0."""
        if not x.dtype.is_float:
            return x
        size = self.abs(x)
        whole = size.store(int64).store(x.dtype)
        # Zeros keep their sign; whole numbers beyond int64, infinities and NaN stay what they are.
        is_small = (size < _WHOLE[x.dtype.name]) & (x != 0)
        return where(is_small, where(x < 0, -whole, whole), x)

    def floor(self, x: CandleTensor) -> CandleTensor:
        """Return the greatest whole number not above x."""
        if not x.dtype.is_float:
            return x
        whole = self.trunc(x)
        return where(whole > x, whole - 1, whole)

    def ceil(self, x: CandleTensor) -> CandleTensor:
        """Return the least whole number not below x."""
        if not x.dtype.is_float:
            return x
        whole = self.trunc(x)
        return where(whole < x, whole + 1, whole)

    def rint(self, x: CandleTensor) -> CandleTensor:
        """Return the nearest whole number, halves to even, by a sum without room for halves."""
        if not x.dtype.is_float:
            return x
        size, room = self.abs(x), _WHOLE[x.dtype.name]
        whole = (size + room) - room
        return where((size < room) & (x != 0), where(x < 0, -whole, whole), x)

    # ---- division ----

    def floor_divide(self, x: Any, y: Any) -> CandleTensor:
        """Floor of the exact quotient; 0 for integers divided by 0."""
        x, y = _both(x, y)
        quotient, rest, safe = _divided(x, y)
        if x.dtype.kind == "int":
            quotient = where(_is_opposite(rest, safe), quotient - 1, quotient)
            quotient = where(y == -1, -x, quotient)
        return where(y == 0, 0, quotient)

    def remainder(self, x: Any, y: Any) -> CandleTensor:
        """Return x - floor_divide(x, y) * y, with the sign of y; 0 for integers modulo 0."""
        _, rest, safe = _divided(*_both(x, y))
        return rest if rest.dtype.kind == "uint" else where(
            _is_opposite(rest, safe), rest + safe, rest
        )  # fmt: skip

    def truncated_remainder(self, x: Any, y: Any) -> CandleTensor:
        """Remainder of the truncated quotient, with the sign of x; 0 for integers modulo 0."""
        return _divided(*_both(x, y))[1]

    # ---- powers, exponentials, logarithms ----

    def pow(self, x: Any, y: Any) -> CandleTensor:
        """Return x ** y as C's pow; integers wrap around, and a negative y gives 0, 1 or -1."""
        x, y = _both(x, y)
        if not x.dtype.is_float:
            return self._whole_power(x, y)
        base, exponent = x.store(float64), y.store(float64)
        size, half = self.abs(base), exponent * 0.5
        is_whole = self.trunc(exponent) == exponent
        is_odd = is_whole & (self.trunc(half) != half)
        found = where(size == 1, 1, self.exp(exponent * self.log(size)))
        found = where(is_odd & is_negative(base), -found, found)
        found = where((base < 0) & (size < math.inf) & ~is_whole, math.nan, found)
        return where((base == 1) | (exponent == 0), 1, found).store(x.dtype)

    def _whole_power(self, x: CandleTensor, y: CandleTensor) -> CandleTensor:
        """Return x ** y of integers by repeated squaring."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        found, base, rest = filled(1, shape, y.dtype), x, where(y > 0, y, 0)
        while rest.size and int(rest.data.flatten_all().max_keepdim(0).values()[0]):
            found = where(_is_odd(rest), found * base, found)
            base, rest = base * base, rest / 2
        if x.dtype.kind == "uint":
            return found
        reciprocal = where(x == 1, 1, where(x == -1, where(_is_odd(y), x, 1), 0))
        return where(y < 0, reciprocal, found)

    def sqrt(self, x: CandleTensor) -> CandleTensor:
        """Return the square root."""
        return CandleTensor(x.data.sqrt(), x.dtype)

    def rsqrt(self, x: CandleTensor) -> CandleTensor:
        """1 / sqrt(x)."""
        return CandleTensor(x.data.sqrt().recip(), x.dtype)

    def exp(self, x: CandleTensor) -> CandleTensor:
        """Return e ** x."""
        return CandleTensor(x.data.exp(), x.dtype)

    def exp2(self, x: CandleTensor) -> CandleTensor:
        """2 ** x."""
        return self.exp(x.store(float64) * math.log(2)).store(x.dtype)

    def expm1(self, x: CandleTensor) -> CandleTensor:
        """Return e ** x - 1.  Source: Higham 2002, Accuracy and Stability, 1.14.1, by Kahan."""
        u = self.exp(x)
        found = (u - 1) * x / self.log(u)
        found = where((u == 0) | (u == math.inf), u - 1, found)
        return where(u == 1, x, found)

    def log(self, x: CandleTensor) -> CandleTensor:
        """Return the natural logarithm."""
        return CandleTensor(x.data.log(), x.dtype)

    def log2(self, x: CandleTensor) -> CandleTensor:
        """Return the binary logarithm."""
        return (self.log(x.store(float64)) / math.log(2)).store(x.dtype)

    def log10(self, x: CandleTensor) -> CandleTensor:
        """Return the decimal logarithm."""
        return (self.log(x.store(float64)) / math.log(10)).store(x.dtype)

    def log1p(self, x: CandleTensor) -> CandleTensor:
        """Return log(1 + x): the error that 1 + x makes is divided out again, as in expm1."""
        u = x + 1
        found = where(u == math.inf, u, self.log(u) * x / (u - 1))
        return where(u == 1, x, found)

    def hypot(self, x: Any, y: Any) -> CandleTensor:
        """Return sqrt(x ** 2 + y ** 2) without overflow on the way."""
        x, y = (self.abs(v) for v in _both(x, y))
        greater = self.maximum(x, y)
        ratio = self.minimum(x, y) / where(greater == 0, 1, greater)
        found = greater * self.sqrt(ratio * ratio + 1)
        return where(self.isinf(x) | self.isinf(y), math.inf, found)

    # ---- trigonometry ----

    def sin(self, x: CandleTensor) -> CandleTensor:
        """Return the sine."""
        return CandleTensor(x.data.sin(), x.dtype)

    def cos(self, x: CandleTensor) -> CandleTensor:
        """Return the cosine."""
        return CandleTensor(x.data.cos(), x.dtype)

    def tan(self, x: CandleTensor) -> CandleTensor:
        """Return the tangent."""
        return self.sin(x) / self.cos(x)

    def sinh(self, x: CandleTensor) -> CandleTensor:
        """Return the hyperbolic sine."""
        size = self.abs(x)
        small = self.expm1(size)
        half = self.exp(size * 0.5)
        return signed(where(size > 20, half * 0.5 * half, (small + small / (small + 1)) * 0.5), x)

    def cosh(self, x: CandleTensor) -> CandleTensor:
        """Return the hyperbolic cosine; beyond 20, e ** -x is nothing beside e ** x."""
        size = self.abs(x)
        small, half = self.exp(size), self.exp(size * 0.5)
        return where(size > 20, half * 0.5 * half, (small + 1 / small) * 0.5)

    def tanh(self, x: CandleTensor) -> CandleTensor:
        """Return the hyperbolic tangent."""
        return CandleTensor(functional.tanh(x.data), x.dtype)

    def asinh(self, x: CandleTensor) -> CandleTensor:
        """Return the inverse of sinh."""
        size = self.abs(x)
        square = size * size
        small = self.log1p(size + square / (self.sqrt(square + 1) + 1))
        return signed(where(size > _LARGE, self.log(size) + math.log(2), small), x)

    def acosh(self, x: CandleTensor) -> CandleTensor:
        """Return the inverse of cosh; NaN below 1."""
        above = x - 1
        small = self.log1p(above + self.sqrt(above * 2 + above * above))
        found = where(x > _LARGE, self.log(x) + math.log(2), small)
        return where(x < 1, math.nan, found)

    def atanh(self, x: CandleTensor) -> CandleTensor:
        """Return the inverse of tanh; NaN beyond -1 and 1."""
        size = self.abs(x)
        return signed(self.log1p(size * 2 / (1 - size)) * 0.5, x)

    asin = staticmethod(asin)
    acos = staticmethod(acos)
    atan = staticmethod(atan)

    def atan2(self, y: Any, x: Any) -> CandleTensor:
        """Return the angle of the point (x, y)."""
        return atan2(*_both(y, x))

    # ---- special functions ----

    def erf(self, x: CandleTensor) -> CandleTensor:
        """Return the error function, by the ratios of polynomials that the reference has."""
        size = self.abs(x)
        if x.dtype is not float64:
            near = self.minimum(size.store(float64), ERF_SINGLE_END)
            return signed((near * _ratio(*ERF_SINGLE, near * near)).store(x.dtype), x)
        small = size * _ratio(*ERF_SMALL, size * size)
        far = self.minimum(size, 6.0)
        rest = self.exp(-(far * far)) * _ratio(*ERFC_MIDDLE, far)
        return signed(where(size < 0.5, small, 1 - rest), x)

    def ndtr(self, x: CandleTensor) -> CandleTensor:
        """Return the normal distribution by `erf`: in the tail no more exact than near 1."""
        return self.erf(x * math.sqrt(0.5)) * 0.5 + 0.5


def _both(x: Any, y: Any) -> tuple[CandleTensor, CandleTensor]:
    """Return two operands as tensors; a number beside a tensor takes its dtype."""
    if not isinstance(x, CandleTensor):
        x = number(x, y.dtype)
    elif not isinstance(y, CandleTensor):
        y = number(y, x.dtype)
    return x, y


def _is_odd(x: CandleTensor) -> CandleTensor:
    return x != x / 2 * 2


def _comes_first(is_beyond: CandleTensor, x: CandleTensor) -> CandleTensor:
    """Whether x is to be chosen: it is beyond the other, or NaN."""
    return is_beyond | (x != x) if x.dtype.is_float else is_beyond


def _divided(x: CandleTensor, y: CandleTensor) -> tuple[CandleTensor, CandleTensor, CandleTensor]:
    """Return truncated quotient, its remainder, and the divisor with 1 for 0 and -1.

    Candle panics when it divides by zero, and the least integer by -1.
    """
    if x.dtype.is_float:
        raise Lacking("remainders of floats")
    is_unsafe = y == 0 if y.dtype.kind == "uint" else (y == 0) | (y == -1)
    safe = where(is_unsafe, 1, y)
    quotient = x / safe
    return quotient, x - quotient * safe, safe


def _is_opposite(rest: CandleTensor, divisor: CandleTensor) -> CandleTensor:
    """Whether there is a remainder, of another sign than the divisor."""
    return (rest != 0) & ((rest < 0) ^ (divisor < 0))


def _ratio(
    numerator: tuple[float, ...], denominator: tuple[float, ...], x: CandleTensor
) -> CandleTensor:
    return polynomial(numerator, x) / polynomial(denominator, x)
