"""Batches of items of similar length, so that little of a padded batch is padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyrite.data.order import Indices, batch_order, epoch_order
from pyrite.errors import ArgumentError, ShapeError


class BatchSampler(Protocol):
    """What decides which items each batch of an epoch has: `DataLoader(batch_sampler=...)`.

    Its repr tells its settings: a run that is resumed within an epoch compares it.
    """

    def __len__(self) -> int:
        """Return how many batches an epoch has, the same for every epoch."""
        ...

    def batches(self, seed: int, epoch: int, *, shuffle: bool) -> Sequence[Indices]:
        """Return the indices of each batch, which depend on the arguments only."""
        ...


class LengthBuckets:
    """Batches whose items are all of one bucket of lengths; with shuffle, in random order.

    lengths (n,) are those of the dataset's items.  bounds are the largest lengths of the buckets,
    ascending, or how many buckets of about equally many items there are.  A batch has batch_size
    items, or as many as keep it within max_elements elements once padded; the last of a bucket has
    what is left.

    Raises ArgumentError unless exactly one of batch_size and max_elements is given and positive,
    bounds ascend and hold every length, and no item alone exceeds max_elements; ShapeError unless
    lengths are integers (n,).

    >>> buckets = LengthBuckets([3, 9, 2, 8, 4], batch_size=2, bounds=[4, 16])
    >>> [batch.tolist() for batch in buckets.batches(0, 0, shuffle=False)]
    [[0, 2], [4], [1, 3]]
    """

    def __init__(
        self,
        lengths: ArrayLike,
        *,
        batch_size: int | None = None,
        max_elements: int | None = None,
        bounds: int | Sequence[int] = 8,
    ) -> None:
        self._lengths = _checked_lengths(lengths)
        limit = batch_size if batch_size is not None else max_elements
        if (batch_size is None) == (max_elements is None) or limit is None or limit < 1:
            raise ArgumentError(
                "LengthBuckets requires batch_size >= 1 or max_elements >= 1, one of them, "
                f"got batch_size={batch_size}, max_elements={max_elements}"
            )
        self.bounds = _checked_bounds(bounds, self._lengths)
        if max_elements is not None and self._lengths.size and self._lengths.max() > max_elements:
            raise ArgumentError(
                f"LengthBuckets requires items of max_elements={max_elements} elements at most, "
                f"got {self._lengths.max()} for item {self._lengths.argmax()}"
            )
        self.batch_size = batch_size
        self.max_elements = max_elements
        self._bucket = np.searchsorted(self.bounds, self._lengths)

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        counts = np.bincount(self._bucket, minlength=len(self.bounds))
        sizes = [self._size(bucket) for bucket in range(len(self.bounds))]
        return sum(-(-int(count) // size) for count, size in zip(counts, sizes, strict=True))

    def __repr__(self) -> str:
        """Return the settings."""
        size = f"batch_size={self.batch_size}"
        if self.max_elements is not None:
            size = f"max_elements={self.max_elements}"
        return f"LengthBuckets({len(self._lengths)} items, {size}, bounds={self.bounds.tolist()})"

    def batches(self, seed: int, epoch: int, *, shuffle: bool) -> list[Indices]:
        """Return the indices of each batch: the buckets in turn, or mixed if shuffled."""
        n = len(self._lengths)
        order = epoch_order(n, seed, epoch) if shuffle else np.arange(n, dtype=np.int64)
        buckets = self._bucket[order]
        found = []
        for bucket in range(len(self.bounds)):
            members, size = order[buckets == bucket], self._size(bucket)
            found += [members[first : first + size] for first in range(0, len(members), size)]
        return [found[i] for i in batch_order(len(found), seed, epoch)] if shuffle else found

    def _size(self, bucket: int) -> int:
        if self.batch_size is not None:
            return self.batch_size
        # The last item of a bucket may be shorter than its bound, but none is longer.
        return max(1, int(self.max_elements or 1) // max(1, int(self.bounds[bucket])))


def _checked_lengths(lengths: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(lengths)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ShapeError(
            f"LengthBuckets requires lengths as integers (n,), got {array.dtype} {array.shape}"
        )
    if array.size and array.min() < 0:
        raise ArgumentError(f"LengthBuckets requires lengths >= 0, got {array.min()}")
    return array.astype(np.int64)


def _checked_bounds(bounds: int | Sequence[int], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(bounds, int):
        if bounds < 1:
            raise ArgumentError(f"LengthBuckets requires bounds >= 1 buckets, got {bounds}")
        shares = np.arange(1, bounds + 1) / bounds
        return np.unique(np.quantile(lengths, shares, method="higher")) if lengths.size else lengths
    array = np.asarray(bounds, np.int64)
    if array.ndim != 1 or (np.diff(array) <= 0).any():
        raise ArgumentError(f"LengthBuckets requires bounds that ascend, got {bounds}")
    if lengths.size and (not array.size or lengths.max() > array[-1]):
        raise ArgumentError(
            f"LengthBuckets requires bounds that hold every length, got {bounds} "
            f"and {lengths.max()} for item {lengths.argmax()}; add a bound, or cut the item"
        )
    return array
