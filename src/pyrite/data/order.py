"""Orders and splits as index arrays: how many, which, in what order; never the items themselves.

Every random choice of the data layer is made here, from Philox words, so that a seed means the same
items on every platform and a loader can recompute an epoch's order instead of storing it.

Invariant: a result depends on its arguments only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isclose

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError
from pyrite.philox import permutation, seed_key, words64

Indices = NDArray[np.int64]
"""Positions in a dataset, each counted from 0."""

# The high half of the draw ids belongs to datasets, the low half to a loader's epochs: a shuffled
# dataset inside a loader with the same seed is shuffled twice, independently.
_SHUFFLE_DRAW = 1 << 63
_SAMPLE_DRAW = _SHUFFLE_DRAW + 1
_BATCH_ORDER_DRAW = 0b1001 << 60


def epoch_order(n: int, seed: int, epoch: int) -> Indices:
    """Return the order in which epoch number `epoch` visits n items: int64 (n,).

    Raises ArgumentError unless 0 <= seed < 2**64 and 0 <= epoch < 2**63.

    >>> sorted(epoch_order(4, seed=0, epoch=1).tolist())
    [0, 1, 2, 3]
    """
    if not 0 <= epoch < _SHUFFLE_DRAW:
        raise ArgumentError(f"epoch requires 0 <= epoch < 2**63, got {epoch}")
    return permutation(n, seed_key(checked_seed(seed)), draw=epoch)


def batch_order(n: int, seed: int, epoch: int) -> Indices:
    """Return the order of an epoch's n batches, independent of its items' order: int64 (n,).

    Raises ArgumentError unless 0 <= seed < 2**64 and 0 <= epoch < 2**60.
    """
    if not 0 <= epoch < 1 << 60:
        raise ArgumentError(f"epoch requires 0 <= epoch < 2**60, got {epoch}")
    return permutation(n, seed_key(checked_seed(seed)), draw=_BATCH_ORDER_DRAW | epoch)


def shuffled_order(n: int, seed: int) -> Indices:
    """Return the order of a dataset of n items shuffled by seed: int64 (n,).

    Raises ArgumentError unless 0 <= seed < 2**64.
    """
    return permutation(n, seed_key(checked_seed(seed)), draw=_SHUFFLE_DRAW)


def sampled_order(n: int, size: int, seed: int, *, replacement: bool) -> Indices:
    """Return size random positions among n: int64 (size,).

    With replacement each is word mod n, which favours low positions by less than n / 2**64.

    Raises ArgumentError if size is negative, if it exceeds n without replacement, or if n is 0 and
    size is not.
    """
    key = seed_key(checked_seed(seed))
    if size < 0:
        raise ArgumentError(f"sample requires size >= 0, got {size}")
    if replacement:
        if size and not n:
            raise ArgumentError(f"sample requires a dataset with items, got none for size={size}")
        return (words64(size, key, draw=_SAMPLE_DRAW) % np.uint64(max(n, 1))).astype(np.int64)
    if size > n:
        raise ArgumentError(
            f"sample without replacement requires size <= {n} items, got {size}; "
            "pass replacement=True"
        )
    return permutation(n, key, draw=_SAMPLE_DRAW)[:size]


def split_bounds(n: int, parts: Sequence[float]) -> list[tuple[int, int]]:
    """Return where each part of a split of n items begins and ends.

    parts are lengths (all int, sum n) or fractions (all float, sum 1).  A fraction's bounds are the
    rounded partial sums, so every item is in exactly one part.

    Raises ArgumentError if parts are neither, or have the wrong sum.

    >>> split_bounds(10, [0.75, 0.25])
    [(0, 8), (8, 10)]
    """
    lengths = all(isinstance(part, int) for part in parts)
    if not parts or not (lengths or all(isinstance(part, float) for part in parts)):
        raise ArgumentError(
            f"split requires lengths (all int) or fractions (all float), got {list(parts)}"
        )
    total = n if lengths else 1.0
    if any(part < 0 for part in parts) or not isclose(sum(parts), total, abs_tol=1e-9):
        raise ArgumentError(
            f"split requires parts >= 0 that sum to {total}, got {list(parts)} = {sum(parts)}"
        )
    scale = 1 if lengths else n
    ends = [round(scale * end) for end in accumulate(parts)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def checked_seed(seed: int) -> int:
    """Return the seed itself.  Raises ArgumentError unless 0 <= seed < 2**64."""
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed requires 0 <= seed < 2**64, got {seed}")
    return seed
