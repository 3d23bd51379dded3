"""NumPy as evaluators of rules ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.errors import IndexRangeError
from pyrite.op.index import IndexMap
from pyrite.types import Array, DType, Number, TensorType, dtype


class NumPyArrays:
    """The functions of `pyrite.backend.evaluation.Arrays`."""

    algebra = NumPyAlgebra()

    def permute_dims(self, x: Array, axes: Sequence[int]) -> Array:
        return np.transpose(x, axes)

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        return np.reshape(x, tuple(shape))

    def broadcast_to(self, x: Array, shape: Sequence[int]) -> Array:
        return np.broadcast_to(x, tuple(shape))

    def slice(self, x: Array, axis: int, start: int, stop: int) -> Array:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    def flip(self, x: Array, axis: int) -> Array:
        return np.flip(x, axis)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return np.concatenate(arrays, axis)

    def full(self, shape: Sequence[int], value: Number, dtype: DType, like: Array) -> Array:
        return np.full(tuple(shape), value, dtype.numpy)

    def arange(self, stop: int, dtype: DType, like: Array) -> Array:
        return np.arange(stop, dtype=dtype.numpy)

    # ---- reads and writes by place ----

    def type_of(self, x: Array) -> TensorType:
        return TensorType(x.shape, dtype(x.dtype))

    def as_index(self, x: Array) -> Array:
        highest = np.iinfo(np.int64).max
        return (np.minimum(x, highest) if x.dtype == np.uint64 else x).astype(np.int64)

    def take(self, x: Array, places: Array) -> Array:
        return x[places]

    def put(self, x: Array, places: Array, values: Array) -> Array:
        found = np.array(x)
        found[places] = values
        return found

    def compress(self, x: Array, mask: Array) -> Array:
        return x[mask]

    def argsort(self, x: Array) -> Array:
        return np.argsort(x, stable=True)

    def cumulative_sum(self, x: Array) -> Array:
        return np.cumsum(x)

    def zeros_like(self, x: Array, shape: Sequence[int]) -> Array:
        return np.zeros(tuple(shape), x.dtype)

    def fail(self, failed: Array, message: str) -> None:
        if np.any(failed):
            raise IndexRangeError(message)

    # ---- sums of products ----

    def einsum(self, equation: str, *operands: Array) -> Array:
        return np.asarray(np.einsum(equation, *operands, optimize=True))

    def is_any(self, mask: Array) -> bool:
        return bool(np.any(mask))

    # ---- maps of indices ----

    def asarray(self, values: Array, like: Array) -> Array:
        return values

    def strided(self, x: Array, index: IndexMap) -> Array | None:
        found = index.strides([stride // x.itemsize for stride in x.strides])
        if found is None or not x.size:
            return None
        first = x[*index.at((0,) * len(index.shape)), ...]
        strides = [stride * x.itemsize for stride in found[0]]
        return np.lib.stride_tricks.as_strided(first, index.shape, strides, writeable=False)
