"""Which items each batch of an epoch has: by positions, or as a stream gives them.

With a shard (i, n) each batch keeps every n-th of its items from the i-th on, so the k-th batches
of all shards together are the k-th batch of the whole, and all shards have as many batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Protocol

import numpy as np

from pyrite.data.batch import BatchTask
from pyrite.data.bucket import BatchSampler
from pyrite.data.dataset import Indexable
from pyrite.data.order import Indices, epoch_order
from pyrite.data.stream import Read, read_stream
from pyrite.errors import ArgumentError, ArgumentTypeError, DataError

Shard = tuple[int, int]
"""Which part, counted from 0, of how many."""


class Batching(Protocol):
    """How an epoch's items become batches."""

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        ...

    def order(self, epoch: int) -> Indices:
        """Return the indices of an epoch's items in turn: int64 (n,)."""
        ...

    def tasks(self, epoch: int, start: int, state: Any) -> Iterator[BatchTask]:
        """Yield the tasks of an epoch from batch start on."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return what decides which items each batch has, as JSON holds it."""
        ...


@dataclass(frozen=True)
class OrderedBatching:
    """batch_size items in turn, of a dataset with positions, or of a random order of them."""

    dataset: Indexable[Any]
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    shard: Shard | None

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def order(self, epoch: int) -> Indices:
        """Return the indices of an epoch's items in turn: int64 (n,)."""
        n = len(self.dataset)
        order = epoch_order(n, self.seed, epoch) if self.shuffle else np.arange(n, dtype=np.int64)
        return order[: len(self) * self.batch_size]

    def tasks(self, epoch: int, start: int, state: Any) -> Iterator[BatchTask]:
        """Yield the tasks of an epoch from batch start on."""
        order = self.order(epoch)
        for number in range(start, len(self)):
            first = number * self.batch_size
            indices = order[first : first + self.batch_size].tolist()
            yield BatchTask(epoch, number, _share(indices, self.shard))

    def settings(self) -> dict[str, Any]:
        """Return what decides which items each batch has."""
        return {
            "items": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "drop_last": self.drop_last,
            **_shard_setting(self.shard),
        }


@dataclass(frozen=True)
class SampledBatching:
    """The batches of a batch sampler, of a dataset with positions."""

    dataset: Indexable[Any]
    sampler: BatchSampler
    shuffle: bool
    seed: int
    shard: Shard | None

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        return len(self.sampler)

    def tasks(self, epoch: int, start: int, state: Any) -> Iterator[BatchTask]:
        """Yield the tasks of an epoch from batch start on."""
        batches = self._batches(epoch)
        for number in range(start, len(batches)):
            indices = np.asarray(batches[number]).tolist()
            yield BatchTask(epoch, number, _share(indices, self.shard))

    def order(self, epoch: int) -> Indices:
        """Return the indices of an epoch's items in turn: int64 (n,)."""
        return np.concatenate([np.empty(0, np.int64), *self._batches(epoch)])

    def settings(self) -> dict[str, Any]:
        """Return what decides which items each batch has."""
        return {
            "items": len(self.dataset),
            "batch_sampler": repr(self.sampler),
            "shuffle": self.shuffle,
            "seed": self.seed,
            **_shard_setting(self.shard),
        }

    def _batches(self, epoch: int) -> Sequence[Indices]:
        batches = self.sampler.batches(self.seed, epoch, shuffle=self.shuffle)
        if len(batches) != len(self.sampler):
            raise DataError(
                f"loader requires a batch sampler that gives as many batches as its length, got "
                f"{len(batches)} instead of {len(self.sampler)} from {self.sampler!r}"
            )
        return batches


@dataclass(frozen=True)
class StreamBatching:
    """batch_size items at a time as a stream gives them; at most max_batches of them an epoch."""

    dataset: Any
    batch_size: int
    drop_last: bool
    max_batches: int | None
    seed: int
    shard: Shard | None

    def __len__(self) -> int:
        """Return max_batches.  Raises ArgumentTypeError where there is none."""
        if self.max_batches is None:
            raise ArgumentTypeError(
                f"the number of batches requires a dataset with a length, got a stream, "
                f"{type(self.dataset).__name__}; pass max_batches= to end each epoch after so many"
            )
        return self.max_batches

    def order(self, epoch: int) -> Indices:
        """Raise ArgumentTypeError: a stream's items have no positions."""
        raise ArgumentTypeError("order requires a dataset with positions, got a stream")

    def tasks(self, epoch: int, start: int, state: Any) -> Iterator[BatchTask]:
        """Return the tasks of an epoch from batch start on.

        Raises ArgumentError if start is not 0 and the state there is not given; DataError if the
        stream ends before max_batches.
        """
        begins_within = start > 0 and start != self.max_batches
        if begins_within and state is None:
            raise ArgumentError(
                f"epoch requires the state of the stream after {start} batches to begin there, got "
                "none; pass state=loader.state as it was then (a ResumableDataset has one)"
            )
        return self._tasks(epoch, start, read_stream(self.dataset, epoch, state))

    def _tasks(self, epoch: int, start: int, items: Read) -> Iterator[BatchTask]:
        numbers = count(start) if self.max_batches is None else range(start, self.max_batches)
        for number in numbers:
            values, after = [], None
            for item, state_after in islice(items, self.batch_size):
                values.append(item)
                after = state_after() if len(values) == self.batch_size else None
            if not values or (len(values) < self.batch_size and self.drop_last):
                self._require_end(number)
                return
            first = number * self.batch_size
            indices = _share(list(range(first, first + len(values))), self.shard)
            own = [values[index - first] for index in indices]
            yield BatchTask(epoch, number, indices, own, after)

    def settings(self) -> dict[str, Any]:
        """Return what decides which items each batch has."""
        return {
            "batch_size": self.batch_size,
            "seed": self.seed,
            "drop_last": self.drop_last,
            "max_batches": self.max_batches,
            **_shard_setting(self.shard),
        }

    def _require_end(self, number: int) -> None:
        if self.max_batches is not None:
            raise DataError(
                f"loader requires a stream of max_batches={self.max_batches} batches, got "
                f"{number}; pass a smaller number, or none"
            )


def checked_shard(shard: Shard | None) -> Shard | None:
    """Return the shard itself.  Raises ArgumentError unless 0 <= i < n."""
    if shard is not None and not 0 <= shard[0] < shard[1]:
        raise ArgumentError(f"loader requires a shard (i, n) with 0 <= i < n, got {shard}")
    return shard


def _share(indices: list[int], shard: Shard | None) -> list[int]:
    if shard is None:
        return indices
    number, parts = shard
    if len(indices) < parts:
        raise DataError(
            f"loader requires batches of {parts} items or more to share among {parts}, got "
            f"{len(indices)} in the last; pass drop_last=True or another batch_size"
        )
    return indices[number::parts]


def _shard_setting(shard: Shard | None) -> dict[str, Any]:
    return {} if shard is None else {"shard": list(shard)}
