"""A tensor of Candle's with the dtype that Pyrite sees, and Python's operators on it.

Candle lacks int32 and bool: they are *carried* in i64 and u8, and every operation leaves a value
that the narrow dtype can hold (integers wrap around, a bool is 0 or 1).

Its operators with Python numbers are not used: they compute a * x + b in floats, which loses the
sign of zero and the low bits of large integers.  Numbers become tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import candle
import numpy as np

from pyrite.backend.candle.transfer import CANDLE, NATIVE, received, sent
from pyrite.types import (
    Array,
    DType,
    Number,
    Shape,
    bool_,
    element_count,
    int32,
    int64,
    uint8,
)

#: Which of Candle's dtypes holds each of ours.
CARRIERS: dict[DType, DType] = {**{d: d for d in NATIVE}, int32: int64, bool_: uint8}

_HALF = 1 << 31


class CandleTensor:
    """A candle.Tensor and its dtype.  Nobody writes to either.

    Its operators broadcast, and take two tensors of one dtype, or a tensor and a number.
    """

    __slots__ = ("__weakref__", "data", "dtype")

    def __init__(self, data: Any, dtype: DType) -> None:
        self.data = data
        self.dtype = dtype

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.data.rank)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.data.nelement)

    # ---- the same values at other places ----

    def reshape(self, shape: Sequence[int]) -> CandleTensor:
        """Return the elements, in row-major order, in another shape."""
        if self.size == 0:
            return zeros(tuple(shape), self.dtype)  # Candle refuses sizes of 0 here
        return CandleTensor(self.data.reshape(tuple(shape)), self.dtype)

    def permute(self, axes: Sequence[int]) -> CandleTensor:
        """Return the axes in another order, by exchanging two at a time."""
        data, order = self.data, list(range(len(axes)))
        for to, axis in enumerate(axes):
            come = order.index(axis)
            if come != to:
                data = data.transpose(to, come)
                order[to], order[come] = order[come], order[to]
        return CandleTensor(data, self.dtype)

    def broadcast_to(self, shape: Shape) -> CandleTensor:
        """Return the elements stretched to a shape."""
        if self.shape == shape:
            return self
        if 0 in shape:
            return zeros(shape, self.dtype)
        return CandleTensor(self.data.broadcast_as(shape), self.dtype)

    def narrow(self, axis: int, start: int, size: int) -> CandleTensor:
        """Return the elements start <= i < start + size along an axis."""
        if size == 0:
            return zeros((*self.shape[:axis], 0, *self.shape[axis + 1 :]), self.dtype)
        return CandleTensor(self.data.narrow(axis, start, size), self.dtype)

    def select(self, axis: int, places: CandleTensor) -> CandleTensor:
        """Return the slices at places 0 <= i < size along an axis: a vector of them."""
        return CandleTensor(
            self.data.contiguous().index_select(places.data.contiguous(), axis), self.dtype
        )

    # ---- conversion ----

    def store(self, dtype: DType) -> CandleTensor:
        """Return the values converted as Rust's ``as``: floats saturate, integers wrap around."""
        if dtype is self.dtype:
            return self
        return carried(self.data.to_dtype(CANDLE[CARRIERS[dtype]]), dtype)

    # ---- operators ----

    def __add__(self, other: CandleTensor | Number) -> CandleTensor:
        return carried(self.data.broadcast_add(self._like(other)), self.dtype)

    __radd__ = __add__

    def __sub__(self, other: CandleTensor | Number) -> CandleTensor:
        return carried(self.data.broadcast_sub(self._like(other)), self.dtype)

    def __rsub__(self, other: Number) -> CandleTensor:
        return number(other, self.dtype) - self

    def __mul__(self, other: CandleTensor | Number) -> CandleTensor:
        return carried(self.data.broadcast_mul(self._like(other)), self.dtype)

    __rmul__ = __mul__

    def __truediv__(self, other: CandleTensor | Number) -> CandleTensor:
        return CandleTensor(self.data.broadcast_div(self._like(other)), self.dtype)

    def __rtruediv__(self, other: Number) -> CandleTensor:
        return number(other, self.dtype) / self

    def __neg__(self) -> CandleTensor:
        return self * -1 if self.dtype.is_float else 0 - self

    def __lt__(self, other: CandleTensor | Number) -> CandleTensor:
        return CandleTensor(self.data < self._like(other), bool_)

    def __le__(self, other: CandleTensor | Number) -> CandleTensor:
        return CandleTensor(self.data <= self._like(other), bool_)

    def __gt__(self, other: CandleTensor | Number) -> CandleTensor:
        return CandleTensor(self.data > self._like(other), bool_)

    def __ge__(self, other: CandleTensor | Number) -> CandleTensor:
        return CandleTensor(self.data >= self._like(other), bool_)

    def __eq__(self, other: CandleTensor | Number) -> CandleTensor:  # type: ignore[override]
        return CandleTensor(self.data == self._like(other), bool_)

    def __ne__(self, other: CandleTensor | Number) -> CandleTensor:  # type: ignore[override]
        return CandleTensor(self.data != self._like(other), bool_)

    __hash__ = object.__hash__

    def __and__(self, other: CandleTensor | Number) -> CandleTensor:
        self._require_bool()
        return CandleTensor(self.data.broadcast_mul(self._like(other)), bool_)

    __rand__ = __and__

    def __or__(self, other: CandleTensor | Number) -> CandleTensor:
        self._require_bool()
        return CandleTensor(self.data.broadcast_add(self._like(other)), bool_) != False  # noqa: E712

    __ror__ = __or__

    def __xor__(self, other: CandleTensor | Number) -> CandleTensor:
        self._require_bool()
        return self != other

    __rxor__ = __xor__

    def __invert__(self) -> CandleTensor:
        self._require_bool()
        return self == False  # noqa: E712

    def _like(self, other: CandleTensor | Number) -> Any:
        return (other if isinstance(other, CandleTensor) else number(other, self.dtype)).data

    def _require_bool(self) -> None:
        if not self.dtype.is_bool:
            raise Lacking("the bits of integers")


class Lacking(Exception):
    """Candle has nothing to make a result of: `Candle.run` leaves the op to NumPy, loudly."""


def carried(data: Any, dtype: DType) -> CandleTensor:
    """Return what was computed in the carrier of a dtype, wrapped around to its range."""
    if dtype is int32:
        half = number(_HALF, int64).data
        data = data.broadcast_add(half).to_dtype(candle.u32).to_dtype(candle.i64)
        data = data.broadcast_sub(half)
    return CandleTensor(data, dtype)


def uploaded(array: Array, dtype: DType) -> CandleTensor:
    """Return the values of an array of a dtype."""
    carrier = CARRIERS[dtype]
    return CandleTensor(sent(array.astype(carrier.numpy, copy=False), carrier), dtype)


def downloaded(x: CandleTensor) -> Array:
    """Return the values as an array."""
    array = received(x.data, CARRIERS[x.dtype], x.shape)
    return array.astype(x.dtype.numpy, copy=False)


def number(value: Number, dtype: DType) -> CandleTensor:
    """Return a number as a zero-d tensor; of equal numbers it is sent once."""
    # Its bytes, because to a cache -0.0 would be 0.0, and NaN never found.
    array = np.asarray(value).astype(CARRIERS[dtype].numpy)
    return _number(array.tobytes(), dtype)


@functools.lru_cache(maxsize=4096)
def _number(value: bytes, dtype: DType) -> CandleTensor:
    carrier = CARRIERS[dtype]
    return CandleTensor(sent(np.frombuffer(value, carrier.numpy).reshape(()), carrier), dtype)


def zeros(shape: Shape, dtype: DType) -> CandleTensor:
    """Return zeros."""
    return CandleTensor(candle.zeros(shape, dtype=CANDLE[CARRIERS[dtype]]), dtype)


def filled(value: Number, shape: Shape, dtype: DType) -> CandleTensor:
    """Return a number stretched to a shape."""
    if element_count(shape) == 0:
        return zeros(shape, dtype)
    return number(value, dtype).broadcast_to(shape)


#: Up to how many bytes positions are kept, to be found again.
_KEPT = 1 << 16


def places(indices: Array) -> CandleTensor:
    """Return positions that the host knows; of equal ones, unless they are long, one is sent."""
    wide = np.ascontiguousarray(indices, np.int64)
    if wide.nbytes > _KEPT:
        return uploaded(wide, int64)
    return _places(wide.tobytes(), wide.shape)


@functools.lru_cache(maxsize=256)
def _places(values: bytes, shape: Shape) -> CandleTensor:
    return uploaded(np.frombuffer(values, np.int64).reshape(shape), int64)


def joined(parts: Sequence[CandleTensor], axis: int) -> CandleTensor:
    """Return tensors one after another along an axis."""
    given, dtype = [p for p in parts if p.size], parts[0].dtype
    if not given:
        length = sum(p.shape[axis] for p in parts)
        return zeros((*parts[0].shape[:axis], length, *parts[0].shape[axis + 1 :]), dtype)
    if len(given) == 1:
        return given[0]
    return CandleTensor(candle.cat([p.data.contiguous() for p in given], axis), dtype)


def where(
    condition: CandleTensor, x: CandleTensor | Number, y: CandleTensor | Number
) -> CandleTensor:
    """Return x where the condition holds, else y; one of them is a tensor."""
    if not isinstance(x, CandleTensor):
        assert isinstance(y, CandleTensor)
        x = number(x, y.dtype)
    elif not isinstance(y, CandleTensor):
        y = number(y, x.dtype)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    chosen, left, right = (v.broadcast_to(shape).data for v in (condition, x, y))
    return CandleTensor(chosen.where_cond(left, right), x.dtype)
