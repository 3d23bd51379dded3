"""Python numbers as constants of a dtype."""

from __future__ import annotations

import math
import struct

from pyrite.errors import KernelError
from pyrite.types import DType, Number, float32, float64


def exact(value: Number, dtype: DType) -> Number:
    """Return a Python number as the constant of the dtype: floats rounded to it.

    Raises KernelError for an integer that the dtype does not hold, or a fraction for an integer.

    >>> exact(0.1, float32), exact(1, float32), exact(True, int32)
    (0.10000000149011612, 1.0, 1)
    """
    if dtype.is_float:
        return _rounded(float(value), dtype)
    if dtype.is_bool:
        return bool(value)
    whole = int(value) if math.isfinite(value) else None
    if whole is None or whole != value or not dtype.lowest <= whole <= dtype.highest:
        raise KernelError(
            f"a constant requires a whole number between {dtype.lowest} and {dtype.highest} for "
            f"{dtype.name}, got {value}"
        )
    return whole


_SINGLE = struct.Struct("f")


def _rounded(value: float, dtype: DType) -> float:
    if value != value:
        return math.nan
    if dtype is float64:
        return value
    if dtype is not float32:
        return float(dtype.numpy.type(value))
    try:
        single: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single
