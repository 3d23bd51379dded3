"""Matrix products.

Candle multiplies float32 and float64; the narrow floats come as float32, and integers are
multiplied exactly in pieces that floats hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pyrite.backend.candle.native import Native, native
from pyrite.backend.candle.tensor import CandleTensor, number
from pyrite.types import DType, element_count, float64, int64

Product = Callable[[CandleTensor, CandleTensor], CandleTensor]


class Contraction(Native):
    """Matrix products."""

    @native("matmul")
    def matmul(self, x: CandleTensor, y: CandleTensor) -> CandleTensor:
        return product(x, y)

    @native("linear")
    def linear(
        self, x: CandleTensor, weight: CandleTensor, bias: CandleTensor | None
    ) -> CandleTensor:
        found = product(x, weight.permute((1, 0)))
        return found if bias is None else found + bias


def product(x: CandleTensor, y: CandleTensor) -> CandleTensor:
    """Return the matrix product: (..., M, K), (..., K, N) -> (..., M, N), broadcasting."""
    if not x.dtype.is_float:
        return _exact(x, y)
    if y.ndim == 2:
        # One product of two matrices instead of one for every leading index.
        rows = x.reshape((element_count(x.shape[:-1]), x.shape[-1]))
        return _of_stacks(rows, y).reshape((*x.shape[:-1], y.shape[-1]))
    if x.ndim == 1:
        return product(x.reshape((1, *x.shape)), y).reshape((*y.shape[:-2], y.shape[-1]))
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    of_x, of_y = (
        v.broadcast_to((*batch, *v.shape[-2:])).reshape((element_count(batch), *v.shape[-2:]))
        for v in (x, y)
    )
    return _of_stacks(of_x, of_y).reshape((*batch, x.shape[-2], y.shape[-1]))


def _of_stacks(x: CandleTensor, y: CandleTensor) -> CandleTensor:
    """Return the products of two matrices, or of two stacks of them, dense for Candle's sake."""
    return CandleTensor(x.data.contiguous().matmul(y.data.contiguous()), x.dtype)


def _exact(x: CandleTensor, y: CandleTensor) -> CandleTensor:
    """Return a product of integers, wrapped around, by products of floats that are exact.

    Each integer is cut into limbs so short that sums of products of two fit the 53 bits of a
    float64; limbs whose product is beyond 64 bits are left out, for integers wrap around.
    """
    width = 64 if x.dtype is int64 else x.dtype.bits
    limb = min(width, (53 - math.ceil(math.log2(max(x.shape[-1], 2)))) // 2)
    count = -(-width // limb)
    of_x, of_y = (_limbs(v.store(int64), limb, count) for v in (x, y))
    total: CandleTensor | None = None
    for i, left in enumerate(of_x):
        for j, right in enumerate(of_y[: count - i]):
            part = product(left, right).store(int64) * _power(limb * (i + j))
            total = part if total is None else total + part
    assert total is not None
    return total.store(x.dtype)


def _limbs(whole: CandleTensor, limb: int, count: int) -> list[CandleTensor]:
    """Return the digits to base 2 ** limb, each with the sign of the number."""
    digits, base = [], _power(limb)
    for _ in range(count):
        rest = whole / base
        digits.append((whole - rest * base).store(float64))
        whole = rest
    return digits


def _power(exponent: int) -> CandleTensor:
    """Return 2 ** exponent as an int64, whose lowest value 2 ** 63 is."""
    dtype: DType = int64
    return number(-(2**63) if exponent == 63 else 2**exponent % 2**64, dtype)
