"""The intrinsics of `pyrite.algebra` on NumPy arrays.

Each keeps the dtype of its operand.  The special functions that NumPy lacks are in `special`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyrite.backend.numpy import special
from pyrite.types import Array, DType, Number


class NumPyAlgebra:
    """Every intrinsic, evaluated at once; those that NumPy spells the same are taken from it."""

    where = staticmethod(np.where)
    isnan = staticmethod(np.isnan)
    isinf = staticmethod(np.isinf)
    abs = staticmethod(np.abs)
    signbit = staticmethod(np.signbit)
    copysign = staticmethod(np.copysign)
    sign = staticmethod(np.sign)
    nextafter = staticmethod(np.nextafter)
    floor = staticmethod(np.floor)
    ceil = staticmethod(np.ceil)
    trunc = staticmethod(np.trunc)
    sqrt = staticmethod(np.sqrt)
    exp = staticmethod(np.exp)
    exp2 = staticmethod(np.exp2)
    expm1 = staticmethod(np.expm1)
    log = staticmethod(np.log)
    log2 = staticmethod(np.log2)
    log10 = staticmethod(np.log10)
    log1p = staticmethod(np.log1p)
    hypot = staticmethod(np.hypot)
    sin = staticmethod(np.sin)
    cos = staticmethod(np.cos)
    tan = staticmethod(np.tan)
    asin = staticmethod(np.arcsin)
    acos = staticmethod(np.arccos)
    atan = staticmethod(np.arctan)
    atan2 = staticmethod(np.arctan2)
    sinh = staticmethod(np.sinh)
    cosh = staticmethod(np.cosh)
    tanh = staticmethod(np.tanh)
    asinh = staticmethod(np.arcsinh)
    acosh = staticmethod(np.arccosh)
    atanh = staticmethod(np.arctanh)
    erf = staticmethod(special.erf)
    erfinv = staticmethod(special.erfinv)
    ndtr = staticmethod(special.ndtr)
    lgamma = staticmethod(special.lgamma)
    digamma = staticmethod(special.digamma)
    trigamma = staticmethod(special.trigamma)

    def minimum(self, x: Any, y: Any) -> Array:
        """Return the lesser; NaN if either is NaN; -0.0 before 0.0, which NumPy leaves open."""
        result: Array = np.minimum(x, y)
        if result.dtype.kind != "f" or not (_has_negative_zero(x) or _has_negative_zero(y)):
            return result
        # -(-0.0 + -0.0) is 0.0, of two that were 0.0; any other pair gives -0.0.
        return np.where((x == 0) & (y == 0), -(-x + -y), result)

    def maximum(self, x: Any, y: Any) -> Array:
        """Return the greater; NaN if either is NaN; 0.0 after -0.0."""
        result: Array = np.maximum(x, y)
        if result.dtype.kind != "f" or not _has_negative_zero(result):
            return result
        # 0.0 + -0.0 is 0.0.
        return np.where((x == 0) & (y == 0), x + y, result)

    def rint(self, x: Array) -> Array:
        """Return the nearest whole number, halves to even; of integers NumPy would make floats."""
        return np.rint(x) if x.dtype.kind == "f" else x

    def rsqrt(self, x: Array) -> Array:
        """1 / sqrt(x)."""
        return np.reciprocal(np.sqrt(x))

    def constant(self, value: Number, dtype: DType) -> Array:
        """Return the number, in a dtype."""
        return np.asarray(value, dtype.numpy)

    def bitcast(self, x: Array, dtype: DType) -> Array:
        """Return the same bits as another dtype."""
        return x.view(dtype.numpy)

    def cast(self, x: Array, dtype: DType) -> Array:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        if x.dtype.kind == "f" and dtype.is_integer:
            return _saturate(x, dtype)
        return x.astype(dtype.numpy)

    def floor_divide(self, x: Array, y: Array) -> Array:
        """Floor of the exact quotient, so 1.0 // 0.1 is 9.0; 0 for integers divided by 0."""
        return np.floor_divide(x, y)

    def remainder(self, x: Array, y: Array) -> Array:
        """Return x - floor_divide(x, y) * y, with the sign of y; 0 for integers modulo 0."""
        return np.remainder(x, y)

    def truncated_remainder(self, x: Array, y: Array) -> Array:
        """Remainder of the truncated quotient, with the sign of x; 0 for integers modulo 0."""
        return np.fmod(x, y)

    def pow(self, x: Array, y: Array) -> Array:
        """Return x ** y; for integers by repeated squaring, where a negative y gives 0, 1 or -1."""
        if x.dtype.kind == "f":
            return _power(x, y)
        positive = np.power(x, np.maximum(y, 0))
        if y.dtype.kind == "u":
            return positive
        reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0))
        return np.where(y < 0, reciprocal.astype(x.dtype), positive)

    def shift_left(self, x: Array, n: Array) -> Array:
        """Return x * 2 ** n modulo 2 ** width; 0 when n is the width or more."""
        width = 8 * x.dtype.itemsize
        inside = (n >= 0) & (n < width)
        return np.where(inside, np.left_shift(x, np.where(inside, n, 0)), np.zeros_like(x))

    def shift_right(self, x: Array, n: Array) -> Array:
        """Floor of x / 2 ** n: the sign bit is repeated."""
        width = 8 * x.dtype.itemsize
        inside = (n >= 0) & (n < width)
        shifted: Array = np.right_shift(x, np.where(inside, n, width - 1))
        return shifted if x.dtype.kind == "i" else np.where(inside, shifted, np.zeros_like(x))

    def popcount(self, x: Array) -> Array:
        """Return the number of one bits, in the dtype of x."""
        unsigned = x.view(f"u{x.dtype.itemsize}")
        counts: Array = np.bitwise_count(unsigned)
        return counts.astype(x.dtype)

    def exceeds(self, x: Any, y: Any) -> Any:
        """Return whether x > y, or x alone is NaN."""
        return ~(x <= y) & (y == y)

    def multiply_high(self, x: Array, y: Any) -> Array:
        """Return the upper word of the product of words."""
        product = x.astype(np.uint64) * np.uint64(y)
        return (product >> np.uint64(32)).astype(np.uint32)


def _power(x: Array, y: Array) -> Array:
    """Return x ** y of floats as C's pow: NumPy takes the root where all exponents are 0.5."""
    power: Array = np.power(x, y)
    is_root = y == 0.5
    if not np.any(is_root):
        return power
    # -0.0 + 0.0 is 0.0.
    return np.where(is_root, np.where(x == -np.inf, -x, power + 0), power)


def _has_negative_zero(x: Any) -> bool:
    if isinstance(x, int | float):
        return x == 0 and math.copysign(1.0, x) < 0
    bits = x.view(f"i{x.dtype.itemsize}")
    return bool((bits == np.iinfo(bits.dtype).min).any())


def _saturate(x: Array, dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    whole = np.trunc(np.where(np.isnan(x), x.dtype.type(0), x)).astype(np.float64)
    # 2.0 ** bits is exact in float64 while the largest 64-bit integer is not.
    above, below = whole >= float(info.max), whole < float(info.min)
    safe = np.where(above | below, 0.0, whole).astype(dtype.numpy)
    high, low = dtype.numpy.type(info.max), dtype.numpy.type(info.min)
    return np.where(above, high, np.where(below, low, safe))
