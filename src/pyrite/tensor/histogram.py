"""How many elements lie in each of some bins."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from pyrite.backend.protocol import Backend
from pyrite.errors import ArgumentError
from pyrite.op import public
from pyrite.tensor.creation import arange, tensor
from pyrite.tensor.gradient import widened
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DType, TensorType, default_float


class Histogram(NamedTuple):
    """How many elements lie in each bin, and the bounds of the bins: one more than there are."""

    counts: Tensor
    edges: Tensor


@public
def histogram(
    x: Tensor, bins: int | Tensor = 10, range: tuple[float, float] | None = None
) -> Histogram:
    """Return how many elements lie in each of some bins, int32, and the bins' edges.

    bins: so many of one width within the range, by default from the least to the greatest
    element; or the edges, sorted.  A bin has its lower edge, and the last one both.

    >>> import pyrite
    >>> counts, edges = histogram(pyrite.tensor([1.0, 2.0, 1.0]), 2, (0.0, 2.0))
    >>> counts.tolist(), edges.tolist()
    ([0, 3], [0.0, 1.0, 2.0])
    """
    x = widened(x.flatten())
    edges = bins if not isinstance(bins, int) else _edges(x, bins, range)
    return Histogram(x._histogram_within(edges), edges)


def _edges(x: Tensor, bins: int, range: tuple[float, float] | None) -> Tensor:
    """Return the edges of bins of one width; from a half below to a half above a single value."""
    if bins < 1:
        raise ArgumentError(f"histogram requires bins >= 1, got {bins}")
    if range is None and not x.size:
        range = (0.0, 1.0)
    if range is not None:
        dtype = x.dtype if x.dtype.is_float else default_float
        return _edges_of_numbers(x, bins, range, dtype)
    low, high = x.min(), x.max()
    is_one = low.equal(high).astype(x.dtype) * 0.5
    low, high = low - is_one, high + is_one
    steps = arange(bins + 1, dtype=x.dtype, device=x.device)
    return steps.equal(bins)._where(high, low + (high - low) * (steps / bins))


def _edges_of_numbers(x: Tensor, bins: int, range: tuple[float, float], dtype: DType) -> Tensor:
    """Return the edges of bins of one width on the device of a tensor: those of before, if kept."""
    backend = x._backend
    if backend.level or bins > MOST_BINS or not backend.root.keeps_constants:
        return tensor(_edges_within(bins, range, dtype), device=x.device)
    kept = _kept.setdefault(backend, {})
    key = bins, *range, dtype
    handle = kept.get(key)
    if handle is None:
        handle = backend.upload(_edges_within(bins, range, dtype))
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[key] = handle
    return Tensor._wrap(handle, TensorType((bins + 1,), dtype), backend)


#: Edges that a device keeps, of so many bins at most, as handles: tensors would hold the device.
MOST_KEPT: Final = 16
MOST_BINS: Final = 4096
_kept: WeakKeyDictionary[Backend, dict[Hashable, Any]] = WeakKeyDictionary()


@lru_cache(maxsize=64)
def _edges_within(bins: int, range: tuple[float, float], dtype: DType) -> Array:
    """Return the edges of bins of one width, from numbers: here the device has nothing to do."""
    if not range[0] <= range[1]:
        raise ArgumentError(f"histogram requires range[0] <= range[1], got {range}")
    low, high = (dtype.numpy.type(end) for end in range)
    if low == high:
        half = dtype.numpy.type(0.5)
        low, high = low - half, high + half
    edges: Array = low + (high - low) * (np.arange(bins + 1, dtype=dtype.numpy) / bins)
    edges[-1] = high
    return edges
