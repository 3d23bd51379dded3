"""Elementwise ops that Candle has for special inputs: powers, for exponents that are numbers."""

from __future__ import annotations

from typing import Any

from pyrite.backend.candle.native import ALGEBRA, Native, native
from pyrite.backend.candle.tensor import CandleTensor, number
from pyrite.op import Constant


class Elementwise(Native):
    """Powers."""

    @native("pow", given="untouched")
    def pow(self, x: Any, exponent: Any) -> CandleTensor:
        base, power = (_computed(v) for v in (x, exponent))
        if not isinstance(exponent, Constant) or not base.dtype.is_float:
            return ALGEBRA.pow(base, power)
        if exponent.value == 2:
            return base * base
        value = float(base.dtype.numpy.type(exponent.value))
        return CandleTensor(base.data.powf(value), base.dtype)


def _computed(value: CandleTensor | Constant) -> CandleTensor:
    if isinstance(value, Constant):
        return number(value.value, value.type.dtype.compute)
    return value.store(value.dtype.compute)
