"""DataLoader: batches of a dataset, in an order that depends on seed and epoch only.

Workers read items and collate them ahead of the consumer; batches are handed over in their order,
whatever the number of workers and whichever of them is first.  Threads where nothing else is asked
for: NumPy, Pillow and file reads release the interpreter lock, items need not be pickled, and it
works where processes cannot be started.  Processes where items are made by Python's own code.

Invariant: at most workers + prefetch batches are being made or wait to be taken.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from itertools import count
from threading import Event
from typing import Any, Generic, TypeVar

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.data.ahead import ThreadWorkers, Workers, read_ahead
from pyrite.data.batch import BatchReader, BatchTask
from pyrite.data.collate import default_collate, to_tensors
from pyrite.data.dataset import Indexable
from pyrite.data.draws import Draws
from pyrite.data.order import Indices, checked_seed, epoch_order
from pyrite.data.process import ProcessPool
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

    Raises ArgumentError unless batch_size >= 1, workers >= 0, prefetch >= 0, 0 <= seed < 2**64.

    >>> [batch.tolist() for batch in DataLoader([3, 1, 2], 2, tensors=False)]
    [[3, 1], [2]]
    """

    @public
    def __init__(
        self,
        dataset: Indexable[T],
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
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
        if timeout is not None and not timeout > 0:
            raise ArgumentError(f"loader requires timeout > 0 seconds or None, got {timeout}")
        if batch_size < 1 or workers < 0 or prefetch < 0:
            raise ArgumentError(
                "loader requires batch_size >= 1, workers >= 0 and prefetch >= 0, "
                f"got batch_size={batch_size}, workers={workers}, prefetch={prefetch}"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = checked_seed(seed)
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
        self._epochs = count()
        self._pool: ProcessPool | None = None
        self._reader = BatchReader(dataset, collate, augment, mix, self.seed)

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    @property
    def num_items(self) -> int:
        """The number of items that an epoch visits."""
        return min(len(self.dataset), len(self) * self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Return the batches of the next epoch."""
        return self.epoch(next(self._epochs))

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Any]:
        """Return the batches of one epoch, from batch `start` on, where an interrupted run resumes.

        It does not count as an iteration: `for batch in loader` goes on where it was.

        Raises ArgumentError unless number >= 0 and 0 <= start <= len(self).
        """
        if not 0 <= start <= len(self):
            raise ArgumentError(f"epoch requires 0 <= start <= {len(self)} batches, got {start}")
        tasks = self._tasks(number, start)
        made = self._made(tasks)
        return (to_tensors(batch, self.device) for batch in made) if self.tensors else made

    def order(self, epoch: int) -> Indices:
        """Return the indices of items in the order in which this epoch visits them: int64 (n,)."""
        n = len(self.dataset)
        order = epoch_order(n, self.seed, epoch) if self.shuffle else np.arange(n, dtype=np.int64)
        return order[: self.num_items]

    def _tasks(self, epoch: int, start: int) -> Iterator[BatchTask]:
        order = self.order(epoch)
        for number in range(start, len(self)):
            first = number * self.batch_size
            yield BatchTask(epoch, number, order[first : first + self.batch_size].tolist())

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
