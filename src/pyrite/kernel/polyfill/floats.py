"""The bits of floats, and what is built from them: tests for NaN, signs, powers of two.

NaN and infinity are tested as integers, because a GPU's compiler may assume that there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyrite.kernel.builder import KernelBuilder, Operand, Value
from pyrite.kernel.ir import scalar
from pyrite.kernel.polyfill.coefficients import Table
from pyrite.types import DType, float32, float64, int32, int64


@dataclass(frozen=True, slots=True)
class Format:
    """How a float dtype lays out its bits."""

    bits: DType
    mantissa: int
    bias: int
    #: 0 in the tables of coefficients for float32, 1 for float64.
    column: int

    @property
    def infinity(self) -> int:
        """The bits of infinity; greater ones without the sign are NaN."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def magnitude(self) -> int:
        """All bits but the sign."""
        return (1 << (self.bits.bits - 1)) - 1

    @property
    def tiny(self) -> float:
        """Below it, x + c x² rounds to x."""
        return 2.0 ** -(self.mantissa + 3)


FORMATS = {float32: Format(int32, 23, 127, 0), float64: Format(int64, 52, 1023, 1)}


def format_of(x: Value) -> Format:
    """Return the layout of the dtype of x, which is float32 or float64."""
    return FORMATS[x.dtype]


def of(x: Value, table: Table) -> tuple[float, ...]:
    """Return the column of a table that is for the dtype of x."""
    return table[FORMATS[x.dtype].column]


def bits(k: KernelBuilder, x: Value) -> Value:
    """Return the bits of x as a signed integer."""
    return k.bitcast(x, FORMATS[x.dtype].bits)


def magnitude(k: KernelBuilder, x: Value) -> Value:
    """Return the bits of |x|."""
    return bits(k, x) & FORMATS[x.dtype].magnitude


def isnan(k: KernelBuilder, x: Value) -> Value:
    """Whether x is NaN, by its bits: drivers take a comparison of x with itself for false."""
    return magnitude(k, x) > FORMATS[x.dtype].infinity


def isinf(k: KernelBuilder, x: Value) -> Value:
    """Whether x is infinite."""
    return magnitude(k, x) == FORMATS[x.dtype].infinity


def isfinite(k: KernelBuilder, x: Value) -> Value:
    """Whether x is neither infinite nor NaN."""
    return magnitude(k, x) < FORMATS[x.dtype].infinity


def signbit(k: KernelBuilder, x: Value) -> Value:
    """Whether the sign bit is set: of -0.0 too."""
    return bits(k, x) < 0


def copysign(k: KernelBuilder, x: Value, y: Value) -> Value:
    """|x| with the sign of y."""
    return k.bitcast(magnitude(k, x) | sign_of(k, y), x.dtype)


def sign_of(k: KernelBuilder, x: Value) -> Value:
    """Return the sign bit alone, as bits."""
    format = FORMATS[x.dtype]
    return bits(k, x) & int(format.bits.lowest)


def with_sign(k: KernelBuilder, x: Value, sign: Value) -> Value:
    """Return x, negated where the sign bit is set in ``sign``."""
    return k.bitcast(bits(k, x) ^ sign, x.dtype)


def negative(k: KernelBuilder, x: Value) -> Value:
    """-x by its sign bit: a driver that may reassociate does not know it for a multiple of x.

    Mesa makes a (b + c) + d of a b + (a c + d), and then parts of a constant are no longer parts.
    """
    return k.bitcast(bits(k, x) ^ int(FORMATS[x.dtype].bits.lowest), x.dtype)


def nextafter(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the number next to x on the side of y; y where they are equal.

    By the bits alone, so that it holds for denormals where the machine takes those for zero.
    """
    of_x, of_y = bits(k, x), bits(k, y)
    low, high = _ordered_bits(k, of_x), _ordered_bits(k, of_y)
    # Beyond a zero is the least denormal; else the magnitude grows where y is further from zero.
    beyond_zero = sign_of(k, y) | 1
    stepped = k.select((low < high) == (of_x >= 0), of_x + 1, of_x - 1)
    found = k.select(low == high, of_y, k.select(magnitude(k, x) == 0, beyond_zero, stepped))
    return nan_where(k, isnan(k, x) | isnan(k, y), k.bitcast(found, x.dtype))


def _ordered_bits(k: KernelBuilder, pattern: Value) -> Value:
    """Return integers in the order of the floats with these bits; both zeros are 0."""
    return k.select(pattern < 0, int(pattern.dtype.lowest) - pattern, pattern)


def nan_where(k: KernelBuilder, condition: Value, x: Value) -> Value:
    """NaN where the condition is true, else x."""
    return k.select(condition, float("nan"), x)


def keep_nan(k: KernelBuilder, x: Value, result: Value) -> Value:
    """Return x itself where it is NaN, else the result."""
    return k.select(isnan(k, x), x, result)


def any_of(k: KernelBuilder, condition: Value) -> Value:
    """Whether any element is true, as a scalar."""
    if condition.width == 1:
        return condition
    found = k.select(condition, k.const(1, scalar(int32)), 0)
    return reduce(lambda x, y: x | y, [found[i] for i in range(found.width)]) != 0


#: 1.5 * 2 ** 52.
_WHOLE = 6755399441055744.0


def whole(k: KernelBuilder, n: Value) -> Value:
    """Return the whole number n as an integer of as many bits, of which the low ones count."""
    if n.dtype is float64:
        # Sums of this size have n in their lowest bits.  To round by them too, adding this and
        # taking it away again, is wrong where a driver reassociates, as lavapipe does.
        return bits(k, n + _WHOLE)
    return k.cast(n, FORMATS[n.dtype].bits)


def power_of_two(k: KernelBuilder, n: Value, dtype: DType) -> Value:
    """2 ** n for whole n of the exponents of normal numbers; n has the dtype of the bits."""
    format = FORMATS[dtype]
    return k.bitcast((n + format.bias) << format.mantissa, dtype)


def with_exponent(k: KernelBuilder, x: Value, n: Value, *, is_normal: bool = False) -> Value:
    """x * 2 ** n for 1/2 <= x < 2, where n is at most that of infinity, and no less than -200.

    Of n only the bits of an exponent count.  ``is_normal`` promises that no result is a denormal.
    Otherwise none is multiplied or added, which takes a processor a hundred cycles: the bits of one
    are those that 1 + x * 2 ** n has behind the 1, were 1 the least normal number.
    """
    format = FORMATS[x.dtype]
    shifted, one = n << format.mantissa, format.bias << format.mantissa
    found = bits(k, x) + shifted
    if not is_normal:
        # z = x * 2 ** (n + bias - 1); of 1 + z and 2 z, whose bits these are, the greater is meant.
        # From n = 2 on the sum is infinite, then wraps around, to what makes the bits negative.
        up = k.bitcast(shifted + ((2 * format.bias - 1) << format.mantissa), x.dtype)
        found = k.max(found, bits(k, k.fma(x, up, 1.0)) - one)
    return k.bitcast(k.min(found, format.infinity), x.dtype)


def scale(k: KernelBuilder, x: Value, n: Value) -> Value:
    """Return x * 2 ** n for n that may leave the exponents, in two steps, of which one is exact."""
    half = n >> 1
    return x * power_of_two(k, half, x.dtype) * power_of_two(k, n - half, x.dtype)


def polynomial(k: KernelBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return the sum of coefficients[i] * x ** i, by Horner's rule."""
    total: Operand = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = k.fma(total, x, coefficient)
    assert isinstance(total, Value), "a polynomial has two coefficients or more"
    return total
