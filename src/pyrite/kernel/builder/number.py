"""Python numbers as constants of a dtype."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyrite.errors import KernelError
from pyrite.types import DType, Number, float32, float64, int32, int64


def exact(value: Number, dtype: DType) -> Number:
    """Return a Python number as the constant of the dtype: floats rounded to it.

    Raises KernelError for an integer that the dtype does not hold, or a fraction for an integer.
    Of floats beyond a dtype there is infinity.

    >>> from pyrite.types import int32
    >>> exact(0.1, float32), exact(1, float32), exact(True, int32)
    (0.10000000149011612, 1.0, 1)
    """
    if value.__class__ is int:  # of most arguments
        if dtype is int32 and -_INT32 <= value < _INT32:
            return value
        if dtype is int64 and -_INT64 <= value < _INT64:
            return value
    if dtype.is_float:
        return _rounded(_as_float(value, dtype), dtype)
    if dtype.is_bool:
        return bool(value)
    if value.__class__ is int and dtype.lowest <= value <= dtype.highest:
        return value
    whole = int(value) if math.isfinite(value) else None
    if whole is None or whole != value or not dtype.lowest <= whole <= dtype.highest:
        fix = "" if whole == value else "; cast what it meets: k.cast(x, 'float32')"
        raise KernelError(
            f"a constant requires a whole number between {dtype.lowest} and {dtype.highest} for "
            f"{dtype.name}, got {value}{fix}"
        )
    return whole


def arguments(values: Sequence[Number], dtypes: Sequence[DType]) -> list[Number]:
    """Return numbers as arguments of these dtypes: as `exact`, but that the runtime rounds them."""
    return [
        v if k is float32 and v.__class__ is float and -_LARGE < v < _LARGE else exact(v, k)
        for v, k in zip(values, dtypes, strict=True)
    ]


#: One more than the greatest int32, of which are most arguments made of sizes.
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
#: Less than the greatest float32.
_LARGE: Final = 3e38
#: Numbers of a class between these and their negatives are arguments of a dtype as they are.
ENDS: Final = {
    (float32, float): _LARGE, (float32, int): 2**24, (float64, float): 1.7e308,
    (float64, int): 2**53, (int32, int): 2**31,
}  # fmt: skip


def numbers_of(value: Any, width: int) -> Sequence[Number]:
    """Return the numbers of a constant: NumPy's number as Python's, or one for each element.

    >>> numbers_of(np.float32(0.5), 1), numbers_of([1, 2], 2)
    ([0.5], [1, 2])
    """
    numbers = [value.item()] if isinstance(value, np.generic) else value
    if not isinstance(numbers, Sequence) or not all(isinstance(n, int | float) for n in numbers):
        raise KernelError(
            f"a kernel requires numbers and values of its own, got {type(value).__name__}; make a "
            "tensor an input of the op, and read an element of it: x[i]"
        )
    if len(numbers) != width or (width == 1 and numbers is value):
        raise KernelError(
            f"a constant requires one number{f' or {width}' * (width > 1)}, got "
            f"{type(value).__name__} of {len(numbers)}"
        )
    return numbers


_SINGLE = struct.Struct("f")


def _as_float(value: Number, dtype: DType) -> float:
    try:
        return float(value)
    except OverflowError:
        raise KernelError(
            f"a constant requires a number below 2 ** 1024 for {dtype.name}, got an integer of "
            f"{int(value).bit_length()} bits"
        ) from None


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
