"""What attention remembers of the tokens before, for decoding token by token.

Caches are values: decoding takes one and returns the next, so branches of a beam share their past.
`KeyValueCache` grows; `FixedKeyValueCache` keeps its size, so each token is the same computation
and a device compiles it once.
"""

from __future__ import annotations

from typing import NamedTuple

from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import arange, full, zeros
from pyrite.tensor.joining import concat
from pyrite.tensor.mask import causal_mask
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike, default_int


class KeyValueCache(NamedTuple):
    """What attention remembers of the tokens so far: keys and values, each (N, K, S, D)."""

    key: Tensor
    value: Tensor

    @property
    def length(self) -> int:
        """Number of tokens remembered."""
        return self.key.shape[-2]

    def extended(self, other: KeyValueCache) -> KeyValueCache:
        """Return the cache with more tokens at its end."""
        key, value = (concat(pair, axis=-2) for pair in zip(self, other, strict=True))
        return KeyValueCache(key, value)

    def allowed(self, count: int) -> Tensor:
        """Return whether each of the last tokens may attend to each of all: (count, S)."""
        causal = causal_mask(count, device=self.key.device)
        past = self.length - count
        if not past:
            return causal
        return concat((full((count, past), True, device=self.key.device), causal), axis=-1)


class FixedKeyValueCache(NamedTuple):
    """A cache of a fixed size: keys and values (N, K, S, D), of which the first ``length`` count.

    length: the number of tokens remembered, an int32 tensor (), so that no size depends on it.
    """

    key: Tensor
    value: Tensor
    length: Tensor

    @classmethod
    def empty(
        cls,
        shape: tuple[int, int, int, int],
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> FixedKeyValueCache:
        """Return a cache of no tokens with room for S: (N, K, S, D)."""
        room = zeros(shape, dtype=dtype, device=device)
        return cls(room, room, zeros((), dtype=default_int, device=device))

    def extended(self, other: KeyValueCache) -> FixedKeyValueCache:
        """Return the cache with more tokens behind those that count.

        IndexRangeError is raised at a read of what comes of tokens for which there is no room.
        """
        count = other.length
        places = (self.length + arange(count, device=self.key.device)).reshape((count, 1))
        key = self.key.scatter(2, places.expand_dims((0, 1)), other.key.astype(self.key.dtype))
        value = self.value.scatter(
            2, places.expand_dims((0, 1)), other.value.astype(self.value.dtype)
        )
        return FixedKeyValueCache(key, value, self.length + count)

    def allowed(self, count: int) -> Tensor:
        """Return whether each of the last tokens may attend to each place: (count, S)."""
        device = self.key.device
        token = self.length - count + arange(count, device=device).reshape((count, 1))
        return arange(self.key.shape[-2], device=device) <= token


#: Either kind of cache.
Cache = KeyValueCache | FixedKeyValueCache
