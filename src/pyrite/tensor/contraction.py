"""Contractions: sums of products."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pyrite.errors import ShapeError
from pyrite.op import primitive, sample
from pyrite.tensor.sorting import Sorting
from pyrite.types import TensorType, broadcast


def _matmul_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ShapeError(f"matmul requires x.shape[-1] == y.shape[-2], got {x.shape} @ {y.shape}")
    batch = broadcast("matmul", x.shape[:-2], y.shape[:-2])
    return TensorType((*batch, x.shape[-2], y.shape[-1]), x.dtype)


def _swap(x: Any) -> Any:
    return x.permute_dims((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


class Contraction(Sorting):
    """Matrix products."""

    __slots__ = ()

    @primitive(
        reference=lambda x, y: np.matmul(x, y),
        infer=_matmul_type,
        vjp=(lambda g, _, _x, y: g @ _swap(y), lambda g, _, x: _swap(x) @ g),
        promotes="all",
        samples=(sample((2, 3), (3, 4)), sample((2, 1, 3, 4), (5, 4, 2))),
    )
    def _matmul(self, other: Self, /) -> Self:
        """Matrix product over the last two axes: (..., M, K) @ (..., K, N) -> (..., M, N)."""
        ...

    __matmul__ = _matmul
