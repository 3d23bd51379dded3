"""Elementwise ops that are better than by their rules: powers, which Candle has for constants."""

from __future__ import annotations

from typing import Any

from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.tensor import CandleTensor, Lacking, filled
from pyrite.op import Constant
from pyrite.types import DType


class Elementwise(Native):
    """Powers."""

    @native("pow", given="untouched")
    def pow(self, x: Any, exponent: Any) -> CandleTensor:
        if not isinstance(exponent, Constant) or isinstance(x, Constant):
            raise Lacking("powers whose exponents are tensors")
        wide, value = x.store(x.dtype.compute), exponent.value
        if x.dtype.is_float:
            return _power(wide, float(number_of(value, wide.dtype)))
        if value < 0:
            raise Lacking("negative powers of integers")
        return _whole_power(wide, int(value))


def number_of(value: Any, dtype: DType) -> float:
    """Return a number as a dtype rounds it."""
    return float(dtype.numpy.type(value))


def _power(x: CandleTensor, exponent: float) -> CandleTensor:
    return CandleTensor(x.data.powf(exponent), x.dtype) if exponent != 2 else x * x


def _whole_power(x: CandleTensor, exponent: int) -> CandleTensor:
    """Return x to a power >= 0 by repeated squaring."""
    result = filled(1, x.shape, x.dtype)
    while exponent:
        if exponent & 1:
            result = result * x
        x, exponent = x * x, exponent >> 1
    return result
