"""NumPy as evaluators of rules ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.types import Array, DType, Number


class NumPyArrays:
    """The functions of `pyrite.backend.evaluation.Arrays`."""

    algebra = NumPyAlgebra()

    def permute_dims(self, x: Array, axes: Sequence[int]) -> Array:
        return np.transpose(x, axes)

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        return np.reshape(x, tuple(shape))

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return np.concatenate(arrays, axis)

    def full(self, shape: Sequence[int], value: Number, dtype: DType, like: Array) -> Array:
        return np.full(tuple(shape), value, dtype.numpy)

    def arange(self, stop: int, dtype: DType, like: Array) -> Array:
        return np.arange(stop, dtype=dtype.numpy)
