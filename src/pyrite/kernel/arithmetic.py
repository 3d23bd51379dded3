"""The opcodes of the IR on NumPy arrays, exactly as `ir.OPCODES` states them.

The interpreter and constant folding share them.  What is unspecified gives some fixed value.
Division of integers by zero is the caller's to avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.types import Array, DType, Number, int32


def cast(x: Array, dtype: DType) -> Array:
    """Convert; a float that an integer dtype does not hold becomes its lowest value."""
    if not dtype.is_integer or x.dtype.kind in "iub":
        return x.astype(dtype.numpy)
    wide = np.trunc(x.astype(np.float64))
    # 2.0 ** bits is exact in float64 while the largest 64-bit integer is not.
    fits = (wide >= float(dtype.lowest)) & (wide < float(dtype.highest) + 1.0)
    inside = np.where(fits, wide, 0.0).astype(dtype.numpy)
    return np.where(fits, inside, dtype.numpy.type(dtype.lowest))


def neutral(reduction: str, dtype: DType) -> Number:
    """Return the neutral element of a reduction."""
    if reduction in ("min", "max"):
        return dtype.highest if reduction == "min" else dtype.lowest
    if reduction == "and":
        return True if dtype.is_bool else dtype.highest if dtype.kind == "uint" else -1
    return 1 if reduction == "mul" else 0


def _div(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    quotient: Array = (x - np.fmod(x, y)) // y
    return quotient


def _min(x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


def _max(x: Array, y: Array) -> Array:
    return np.where(x > y, x, y)


def _fma(x: Array, y: Array, z: Array) -> Array:
    """Rounded once for float32, whose products are exact in float64; twice for float64."""
    if x.dtype == np.float64:
        return x * y + z
    wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    return wide.astype(x.dtype)


def _mulhi(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        return (x.astype(wide) * y.astype(wide) >> wide(bits)).astype(x.dtype)
    product = x.astype(object) * y.astype(object)
    return np.asarray(product >> 64, dtype=x.dtype)


def _shift(operation: Any) -> Callable[[Array, Array], Array]:
    def shifted(x: Array, y: Array) -> Array:
        result: Array = operation(x, y & y.dtype.type(8 * x.dtype.itemsize - 1))
        return result

    return shifted


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == bool else np.bitwise_not(x)


def _popcount(x: Array) -> Array:
    counts: Array = np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)
    return counts


def _clz(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    rest = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    length = np.zeros(x.shape, dtype=np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step)
        length += np.where(high > 0, step, 0)
        rest = np.where(high > 0, high, rest)
    length += rest > 0
    return (bits - length).astype(x.dtype)


def _keep_nan(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x), x, y)


def _ldexp(x: Array, y: Array) -> Array:
    exponent = cast(np.clip(np.nan_to_num(y), -(2**14), 2**14), int32)
    result: Array = np.ldexp(x, exponent)
    return result


ALU: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _div,
    "rem": np.fmod,
    "neg": np.negative,
    "abs": np.abs,
    "min": _min,
    "max": _max,
    "fma": _fma,
    "fence": lambda x: x,
    "mulhi": _mulhi,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "ldexp": _ldexp,
    "ldexp_normal": _ldexp,
    "keep_nan": _keep_nan,
    "exp2": np.exp2,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": _not,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "popcount": _popcount,
    "clz": _clz,
}
