"""DataLoader: batches of a dataset, in an order that depends on seed and epoch only.

Worker threads read items and collate them ahead of the consumer; batches are handed over in their
order, whatever the number of workers and whichever of them is first.  Threads, not processes:
NumPy, Pillow and file reads release the interpreter lock, items need not be pickled, and it works
where processes cannot be started.

Invariant: at most workers + prefetch batches are being made or wait to be taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import Any, Generic, TypeVar

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.data.collate import ItemMismatchError, default_collate, to_tensors
from pyrite.data.dataset import Indexable
from pyrite.data.order import Indices, checked_seed, epoch_order
from pyrite.errors import ArgumentError, DataError
from pyrite.op import public

T = TypeVar("T")


class DataLoader(Generic[T]):
    """Batches of batch_size items of dataset, as tensors on device.

    Iterating gives one epoch, and each iteration the next: 0, 1, 2 …  With shuffle, the order of an
    epoch is a permutation keyed by (seed, epoch); `epoch(n)` gives the n-th again.

    workers threads keep up to `prefetch` batches ready; with workers=0 items are read when asked
    for.  Several workers call the dataset at the same time.  The threads of an iteration end with
    it: at its end, at an error, at Ctrl-C, or when the iterator is dropped.

    The last batch is smaller where batch_size does not divide the number of items, or left out with
    drop_last.  collate makes a batch of a list of items, in a worker; arrays in it then become
    tensors on device (None: the default device) in the consumer's thread, or stay with
    tensors=False.

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
        prefetch: int = 2,
        drop_last: bool = False,
        collate: Callable[[list[T]], Any] = default_collate,
        tensors: bool = True,
        device: DeviceLike = None,
    ) -> None:
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
        self.prefetch = prefetch
        self.drop_last = drop_last
        self.collate = collate
        self.tensors = tensors
        self.device = device
        self._epochs = count()

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
        batches = self._batch_indices(self.order(number), start)
        made = self._read_ahead(batches) if self.workers else self._read_now(batches)
        return (to_tensors(batch, self.device) for batch in made) if self.tensors else made

    def order(self, epoch: int) -> Indices:
        """Return the indices of items in the order in which this epoch visits them: int64 (n,)."""
        n = len(self.dataset)
        order = epoch_order(n, self.seed, epoch) if self.shuffle else np.arange(n, dtype=np.int64)
        return order[: self.num_items]

    def _batch_indices(self, order: Indices, start: int) -> Iterator[Indices]:
        firsts = range(start * self.batch_size, len(order), self.batch_size)
        return (order[first : first + self.batch_size] for first in firsts)

    def _read_now(self, batches: Iterator[Indices]) -> Iterator[Any]:
        stopped = Event()
        return (self._batch(indices, stopped) for indices in batches)

    def _read_ahead(self, batches: Iterator[Indices]) -> Iterator[Any]:
        """Yield the batches in order, made by the workers ahead of the consumer."""
        stopped = Event()
        executor = ThreadPoolExecutor(self.workers, thread_name_prefix="pyrite-loader")
        pending: deque[Future[Any]] = deque()
        try:
            for indices in batches:
                pending.append(executor.submit(self._batch, indices, stopped))
                if len(pending) == self.workers + self.prefetch:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except GeneratorExit:
            # The garbage collector may be what closes us, in any thread and while any lock is held:
            # only raise the flag.  Dropping the executor with this frame ends its threads.
            stopped.set()
            raise
        except BaseException:
            stopped.set()
            executor.shutdown(cancel_futures=True)
            raise
        executor.shutdown()

    def _batch(self, indices: Indices, stopped: Event) -> Any:
        """Return the collated items; CancelledError if nobody waits for them any more."""
        items: list[T] = []
        for index in indices.tolist():
            if stopped.is_set():
                raise CancelledError
            items.append(self._item(index))
        try:
            return self.collate(items)
        except ItemMismatchError as error:
            raise error.renumbered(indices.tolist()) from error
        except Exception as error:
            raise DataError(
                f"loader requires items that collate, got {_described(error)} "
                f"for the batch of items {indices.tolist()}"
            ) from error

    def _item(self, index: int) -> T:
        try:
            return self.dataset[index]
        except Exception as error:
            raise DataError(
                f"loader requires every item to load, got {_described(error)} for item {index}"
            ) from error


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
