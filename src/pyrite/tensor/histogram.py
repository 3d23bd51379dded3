"""How many elements lie in each of some bins."""

from __future__ import annotations

from typing import NamedTuple

from pyrite.errors import ArgumentError
from pyrite.op import public
from pyrite.tensor.creation import arange, tensor
from pyrite.tensor.gradient import widened
from pyrite.tensor.tensor import Tensor
from pyrite.types import int32


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
    count = edges.size - 1
    at = edges.searchsorted(x, side="right") - 1
    at = x.equal(edges[-1])._where(count - 1, at)
    is_inside = x.greater_equal(edges[0]).logical_and(x.less_equal(edges[-1]))
    counts = is_inside._where(at, count).bincount(size=count + 1)[:count]
    return Histogram(counts.astype(int32), edges)


def _edges(x: Tensor, bins: int, range: tuple[float, float] | None) -> Tensor:
    """Return the edges of bins of one width; from a half below to a half above a single value."""
    if bins < 1:
        raise ArgumentError(f"histogram requires bins >= 1, got {bins}")
    if range is None and not x.size:
        range = (0.0, 1.0)
    if range is None:
        low, high = x.min(), x.max()
    else:
        if not range[0] <= range[1]:
            raise ArgumentError(f"histogram requires range[0] <= range[1], got {range}")
        low, high = (tensor(float(end), dtype=x.dtype, device=x.device) for end in range)
    is_one = low.equal(high).astype(x.dtype) * 0.5
    low, high = low - is_one, high + is_one
    steps = arange(bins + 1, dtype=x.dtype, device=x.device)
    return steps.equal(bins)._where(high, low + (high - low) * (steps / bins))
