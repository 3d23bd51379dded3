"""What `pyrite.algebra` fixes beyond the machine: division, shifts, casts, order, signs.

Integer division by zero is 0 and never executed; the remainder of floats is exact, by long division
of the mantissas as integers.
"""

from __future__ import annotations

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.floats import (
    any_of,
    bits,
    copysign,
    format_of,
    isinf,
    isnan,
    magnitude,
    nan_where,
    scale,
    sign_of,
    with_sign,
)
from pyrite.types import DType, float32, uint32, uint64

# ---- division ----


def _safe_divisor(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return y, or 1 where x / y does not exist: y = 0, or the overflow of lowest / -1."""
    is_faulty = y == 0
    if x.dtype.kind == "int":
        is_faulty = is_faulty | ((y == -1) & (x == int(x.dtype.lowest)))
    return k.select(is_faulty, k.const(1, y.type), y)


def truncated_remainder(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return x - trunc(x / y) * y with the sign of x; exact; of integers 0 for y = 0."""
    if x.dtype.is_float:
        return _float_remainder(k, x, y)
    # Of the lowest number and -1 it is 0, as it is of any number and 1.
    return x % _safe_divisor(k, x, y)


def _float_remainder(k: KernelBuilder, x: Value, y: Value) -> Value:
    format = format_of(x)
    unsigned = uint32 if x.dtype is float32 else uint64
    ex, mx = _mantissa(k, x, unsigned)
    ey, my = _mantissa(k, y, unsigned)
    is_zero = my == 0
    my = k.select(is_zero, k.const(1, my.type), my)
    is_less = ex < ey
    # x = mx 2 ** ex: shift mx up by as many bits as the word has room for, and reduce, in turns.
    room = unsigned.bits - format.mantissa - 1
    distance = k.select(is_less, k.const(0, ex.type), ex - ey)
    with k.while_([mx % my, distance]) as loop:
        loop.condition(any_of(k, loop.carried[1] > 0))
        rest, left = loop.carried
        step = k.min(left, room)
        loop.yield_((rest << k.cast(step, unsigned)) % my, left - step)
    rest = k.cast(k.cast(loop.results[0], format.bits), x.dtype)
    result = scale(k, rest, ey - (format.bias + format.mantissa))
    result = with_sign(k, k.select(is_less, abs(x), result), sign_of(k, x))
    result = k.select(isinf(k, y), x, result)
    return nan_where(k, is_zero | isinf(k, x) | isnan(k, x) | isnan(k, y), result)


def _mantissa(k: KernelBuilder, x: Value, unsigned: DType) -> tuple[Value, Value]:
    """Return the biased exponent, at least 1, and the mantissa, a whole number."""
    format = format_of(x)
    pattern = magnitude(k, x)
    exponent = pattern >> format.mantissa
    fraction = pattern & ((1 << format.mantissa) - 1)
    whole = k.select(exponent == 0, fraction, fraction | (1 << format.mantissa))
    return k.max(exponent, 1), k.bitcast(whole, unsigned)


def remainder(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return x - floor(x / y) * y with the sign of y; of integers 0 for y = 0."""
    if x.dtype.kind == "int":
        # Not of the remainder: an H200's driver makes rest + y where rest is y's alone (int64).
        whole = x - floor_divide(k, x, y) * y
        return k.select(y == 0, k.const(0, x.type), whole)
    rest = truncated_remainder(k, x, y)
    if x.dtype.is_float:
        return _floored(k, rest, y)
    return k.select(y == 0, k.const(0, x.type), rest)


def _floored(k: KernelBuilder, rest: Value, y: Value) -> Value:
    is_other = (rest < 0.0) != (y < 0.0)
    nonzero = k.select(is_other, rest + y, rest)
    return k.select(rest == 0.0, copysign(k, rest, y), nonzero)


def floor_divide(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Floor of the exact quotient; of integers 0 for y = 0, and wrapped around on overflow."""
    if x.dtype.is_float:
        return _float_floor_divide(k, x, y)
    divisor = _safe_divisor(k, x, y)
    quotient = x // divisor
    if x.dtype.kind == "uint":
        return k.select(y == 0, k.const(0, x.type), quotient)
    rest = x % divisor
    is_below = (rest != 0) & ((rest ^ divisor) < 0)
    floored = k.select(is_below, quotient - 1, quotient)
    return k.select(y == 0, k.const(0, x.type), floored)


def _float_floor_divide(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return (x - remainder) / y, rounded: it is whole but for rounding, as in NumPy."""
    rest = _float_remainder(k, x, y)
    whole = (x - rest) / y
    whole = k.select((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), whole - 1.0, whole)
    floor = k.floor(whole)
    floor = k.select(whole - floor > 0.5, floor + 1.0, floor)
    exact = k.select(whole == 0.0, copysign(k, k.const(0.0, x.type), x / y), floor)
    is_nan = isnan(k, x) | isnan(k, y)
    return k.select(y == 0.0, x / y, nan_where(k, is_nan | isinf(k, x), exact))


# ---- shifts ----


def shift_left(k: KernelBuilder, x: Value, n: Value) -> Value:
    """Return x * 2 ** n modulo 2 ** width; 0 when n is not within the width."""
    inside, amount = _amount(k, x, n)
    return k.select(inside, x << amount, 0)


def shift_right(k: KernelBuilder, x: Value, n: Value) -> Value:
    """Floor of x / 2 ** n; when n is not within the width, all sign bits, 0 for unsigned."""
    inside, amount = _amount(k, x, n)
    if x.dtype.kind == "uint":
        return k.select(inside, x >> amount, 0)
    return x >> k.select(inside, amount, x.dtype.bits - 1)


def _amount(k: KernelBuilder, x: Value, n: Value) -> tuple[Value, Value]:
    inside = n < x.dtype.bits
    if n.dtype.kind == "int":
        inside = inside & (n >= 0)
    return inside, k.select(inside, n, 0)


# ---- casts ----


def cast(k: KernelBuilder, x: Value, dtype: DType) -> Value:
    """Convert: floats to integers truncated and saturated, NaN to 0; to bool x != 0."""
    if x.dtype is dtype:
        return x
    if dtype.is_bool:
        return magnitude(k, x) != 0 if x.dtype.is_float else x != 0
    if not x.dtype.is_float or not dtype.is_integer:
        return k.cast(x, dtype)
    # The float next above the highest integer is a power of 2, which it holds exactly.
    highest, lowest = int(dtype.highest), int(dtype.lowest)
    too_high, too_low = x >= float(highest + 1), x < float(lowest)
    inside = k.cast(k.select(too_high | too_low | isnan(k, x), 0.0, x), dtype)
    bounded = k.select(too_high, highest, k.select(too_low, lowest, inside))
    return k.select(isnan(k, x), 0, bounded)


# ---- order and sign ----


def minimum(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the lesser; NaN if either is; -0.0 before 0.0."""
    return _ordered(k, x, y, "min", "and", "or")


def maximum(k: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the greater; NaN if either is; 0.0 after -0.0."""
    return _ordered(k, x, y, "max", "or", "and")


def _ordered(
    k: KernelBuilder, x: Value, y: Value, name: str, of_bools: str, of_zeros: str
) -> Value:
    if x.dtype.is_bool:
        return k.alu(of_bools, x, y)
    chosen = k.alu(name, x, y)
    if not x.dtype.is_float:
        return chosen
    # Equal floats differ in the sign of a zero at most: joining their bits keeps the wanted one.
    joined = k.bitcast(k.alu(of_zeros, bits(k, x), bits(k, y)), x.dtype)
    chosen = k.select(x == y, joined, chosen)
    return nan_where(k, isnan(k, x) | isnan(k, y), chosen)


def sign(k: KernelBuilder, x: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN, both zeros are 0.0."""
    if not x.dtype.is_float:
        one = k.const(1, x.type)
        upward = k.select(x > 0, one, 0)
        return upward if x.dtype.kind == "uint" else k.select(x < 0, -1, upward)
    one = k.bitcast(sign_of(k, x) | bits(k, k.const(1.0, x.type)), x.dtype)
    return k.select(isnan(k, x), x, k.select(magnitude(k, x) == 0, 0.0, one))
