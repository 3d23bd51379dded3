"""DataLoader: batches of a dataset, in an order that depends on seed and epoch only.

Workers read items and collate them ahead of the consumer; batches are handed over in their order,
whatever the number of workers and whichever of them is first.  Threads where nothing else is asked
for: NumPy, Pillow and file reads release the interpreter lock, items need not be pickled, and it
works where processes cannot be started.  Processes where items are made by Python's own code.

Invariant: at most workers + prefetch batches are being made or wait to be taken.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from threading import Event
from typing import Any, Generic, TypeVar

from pyrite.backend.device import DeviceLike
from pyrite.data.ahead import ThreadWorkers, Workers, read_ahead
from pyrite.data.batch import BatchReader, BatchTask
from pyrite.data.batching import (
    Batching,
    OrderedBatching,
    SampledBatching,
    Shard,
    StreamBatching,
    checked_shard,
)
from pyrite.data.bucket import BatchSampler
from pyrite.data.collate import default_collate, to_tensors
from pyrite.data.dataset import Indexable
from pyrite.data.draws import Draws
from pyrite.data.order import Indices, checked_seed
from pyrite.data.process import ProcessPool
from pyrite.data.stream import is_stream
from pyrite.errors import ArgumentError
from pyrite.op import public

T = TypeVar("T")


class DataLoader(Generic[T]):
    """Batches of batch_size items of dataset, as tensors on device.

    Iterating gives one epoch, and each iteration the next: 0, 1, 2 …  With shuffle, the order of an
    epoch is a permutation keyed by (seed, epoch); `epoch(n)` gives the n-th again.

    workers threads keep up to `prefetch` batches ready; with workers=0 items are read when asked
    for.  Several workers call the dataset at the same time.  The threads of an iteration end with
    it: at its end, at an error, at Ctrl-C, or when the iterator is dropped.

    With processes=True they are other processes, for items that are made by Python's own code: the
    dataset, augment, collate and mix must pickle, a script's work must be under `if __name__ ==
    "__main__":`, and arrays come back through shared memory.  They are started once and end with
    the loader, or by `close()`; one that takes longer than timeout seconds for a batch is an error.

    The last batch is smaller where batch_size does not divide the number of items, or left out with
    drop_last.  In a worker augment(item, draws) changes an item (`pyrite.data.augment`), collate
    makes a batch of a list of items, and mix(batch, draws) changes that; draws are random numbers
    counted from (seed, epoch, index of the item or number of the batch), so a resumed epoch has the
    same ones.  Arrays then become tensors on device (None: the default device) in the consumer's
    thread, or stay with tensors=False.

    A batch_sampler in the place of batch_size says which items each batch has (`LengthBuckets`).  A
    stream (`IterableDataset`, or any object with __iter__ and no positions) is read in its order,
    by the consumer, and needs no length; max_batches ends an epoch of it, and `state` is where it
    is after the last batch, None where it declares none.  shard=(i, n) keeps every n-th item of
    each batch from the i-th on, for one of n processes or devices that train together.

    Raises ArgumentError unless batch_size >= 1, workers >= 0, prefetch >= 0, 0 <= seed < 2**64,
    0 <= i < n, and for settings that do not go together.

    >>> [batch.tolist() for batch in DataLoader([3, 1, 2], 2, tensors=False)]
    [[3, 1], [2]]
    """

    @public
    def __init__(
        self,
        dataset: Indexable[T] | Iterable[T],
        batch_size: int | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        batch_sampler: BatchSampler | None = None,
        max_batches: int | None = None,
        shard: Shard | None = None,
        workers: int = 0,
        processes: bool = False,
        timeout: float | None = None,
        prefetch: int = 2,
        drop_last: bool = False,
        augment: Callable[[T, Draws], Any] | None = None,
        collate: Callable[[list[Any]], Any] = default_collate,
        mix: Callable[[Any, Draws], Any] | None = None,
        tensors: bool = True,
        device: DeviceLike = None,
    ) -> None:
        _check(batch_size, batch_sampler, workers, prefetch, timeout)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = checked_seed(seed)
        self.batch_sampler = batch_sampler
        self.max_batches = max_batches
        self.shard = checked_shard(shard)
        self.workers = workers
        self.processes = processes
        self.timeout = timeout
        self.prefetch = prefetch
        self.drop_last = drop_last
        self.augment = augment
        self.collate = collate
        self.mix = mix
        self.tensors = tensors
        self.device = device
        self.state: Any = None
        self._epochs = count()
        self._pool: ProcessPool | None = None
        self._is_stream = is_stream(dataset)
        self._batching = self._new_batching()
        # A stream is read here, and workers get its items.
        positions: Any = None if self._is_stream else dataset
        self._reader = BatchReader(positions, collate, augment, mix, self.seed)

    def _new_batching(self) -> Batching:
        dataset: Any = self.dataset
        if self._is_stream:
            if self.shuffle or self.batch_sampler is not None:
                raise ArgumentError(
                    "loader requires a dataset with positions for shuffle and batch_sampler, got a "
                    f"stream, {type(dataset).__name__}; shuffle it itself: stream.shuffle(1000)"
                )
            return StreamBatching(
                dataset,
                self.batch_size or 1,
                self.drop_last,
                self.max_batches,
                self.seed,
                self.shard,
            )
        if self.max_batches is not None:
            raise ArgumentError("max_batches requires a stream, got a dataset with a length")
        if self.batch_sampler is not None:
            return SampledBatching(dataset, self.batch_sampler, self.shuffle, self.seed, self.shard)
        return OrderedBatching(
            dataset, self.batch_size or 1, self.shuffle, self.seed, self.drop_last, self.shard
        )

    def __len__(self) -> int:
        """Return how many batches an epoch has.

        Raises ArgumentTypeError for a stream without max_batches.
        """
        return len(self._batching)

    @property
    def num_items(self) -> int:
        """The number of items that an epoch visits."""
        return len(self.order(0))

    @property
    def settings(self) -> dict[str, Any]:
        """What decides which items each batch has: equal settings, equal batches."""
        return self._batching.settings()

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of the next epoch."""
        return self.epoch(next(self._epochs))

    def epoch(self, number: int, *, start: int = 0, state: Any = None) -> Iterator[Any]:
        """Return the batches of one epoch, from batch `start` on, where an interrupted run resumes.

        Of a stream that is after `state`: what `loader.state` was after so many batches.  It does
        not count as an iteration: `for batch in loader` goes on where it was.

        Raises ArgumentError unless number >= 0 and 0 <= start <= len(self), or if a stream begins
        within and there is no state.
        """
        most = None if self._is_stream and self.max_batches is None else len(self)
        if start < 0 or (most is not None and start > most):
            raise ArgumentError(f"epoch requires 0 <= start <= {most} batches, got {start}")
        self.state, states = state, deque[Any]()
        made = self._made(_noted(self._batching.tasks(number, start, state), states))
        return map(partial(self._handed_over, states), made)

    def order(self, epoch: int) -> Indices:
        """Return the indices of items in the order in which this epoch visits them: int64 (n,).

        Raises ArgumentTypeError for a stream.
        """
        return self._batching.order(epoch)

    def split(self, devices: Sequence[DeviceLike]) -> tuple[DataLoader[T], ...]:
        """Return a loader for each device; their k-th batches together are this one's k-th batch.

        A batch's items are dealt out in turn, so each loader has as many batches as this one.

        Raises ArgumentError if there is no device, or this loader is such a part itself.
        """
        if not devices or self.shard is not None:
            raise ArgumentError(
                "split requires at least one device and a loader that is not itself a part, got "
                f"{list(devices)} and shard={self.shard}"
            )
        return tuple(
            self._with(device=device, shard=(number, len(devices)))
            for number, device in enumerate(devices)
        )

    def _with(self, **changes: Any) -> DataLoader[T]:
        arguments = {name: getattr(self, name) for name in _ARGUMENTS}
        return DataLoader(self.dataset, self.batch_size, **{**arguments, **changes})

    def _handed_over(self, states: deque[Any], batch: Any) -> Any:
        self.state = states.popleft()
        return to_tensors(batch, self.device) if self.tensors else batch

    def _made(self, tasks: Iterator[BatchTask]) -> Iterator[Any]:
        """Return the batches of tasks, made here or by the workers."""
        if not self.workers:
            never = Event()
            return (self._reader(task, never) for task in tasks)
        return read_ahead(tasks, self._new_workers(), self.workers + self.prefetch)

    def _new_workers(self) -> Workers:
        if not self.processes:
            return ThreadWorkers(self._reader, self.workers)
        if self._pool is None:
            self._pool = ProcessPool(self._reader, self.workers, self.timeout)
            weakref.finalize(self, self._pool.close)
        return self._pool

    def close(self) -> None:
        """End the worker processes, if there are any; the next iteration starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


_ARGUMENTS = (
    "shuffle", "seed", "batch_sampler", "max_batches", "workers", "processes", "timeout",
    "prefetch", "drop_last", "augment", "collate", "mix", "tensors",
)  # fmt: skip


def _check(
    batch_size: int | None,
    batch_sampler: BatchSampler | None,
    workers: int,
    prefetch: int,
    timeout: float | None,
) -> None:
    if (batch_size is None) == (batch_sampler is None):
        raise ArgumentError(
            f"loader requires batch_size or batch_sampler, one of them, got {batch_size} and "
            f"{batch_sampler}"
        )
    if timeout is not None and not timeout > 0:
        raise ArgumentError(f"loader requires timeout > 0 seconds or None, got {timeout}")
    if (batch_size is not None and batch_size < 1) or workers < 0 or prefetch < 0:
        raise ArgumentError(
            "loader requires batch_size >= 1, workers >= 0 and prefetch >= 0, "
            f"got batch_size={batch_size}, workers={workers}, prefetch={prefetch}"
        )


def _noted(tasks: Iterator[BatchTask], states: deque[Any]) -> Iterator[BatchTask]:
    """Yield the tasks, and note the states after them for when their batches are handed over."""
    for task in tasks:
        states.append(task.state)
        yield task
