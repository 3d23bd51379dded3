"""How one batch is made: read the items, augment and collate them, mix the batch.

Invariant: a batch depends on the task and the reader's settings only, not on who makes it or when,
so threads, processes and the consumer itself make the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pyrite.data.collate import ItemMismatchError
from pyrite.data.dataset import Indexable
from pyrite.data.draws import Draws
from pyrite.errors import DataError


class Stopped(Exception):
    """Nobody waits for the batch any more."""


class Flag(Protocol):
    """What says whether to stop: a threading.Event, or one that is never set."""

    def is_set(self) -> bool:
        """Return whether nobody waits any more."""
        ...


@dataclass(frozen=True)
class BatchTask:
    """One batch to be made: of the items at indices, or of items that a stream already gave.

    index i of an item and number of the batch, in this epoch, are what random numbers are counted
    by; of a stream's items it is how many came before.  state is the stream's after them.
    """

    epoch: int
    number: int
    indices: list[int]
    items: list[Any] | None = None
    state: Any = None


@dataclass(frozen=True)
class BatchReader:
    """Makes batches of a dataset: `reader(task, stopped)`."""

    dataset: Indexable[Any] | None
    collate: Callable[[list[Any]], Any]
    augment: Callable[[Any, Draws], Any] | None
    mix: Callable[[Any, Draws], Any] | None
    seed: int

    def __call__(self, task: BatchTask, stopped: Flag) -> Any:
        """Return the batch.

        Raises Stopped if nobody waits for it any more; DataError, naming the items, if one cannot
        be read or augmented, or they do not collate; ItemMismatchError if two do not fit.
        """
        items = []
        for position, index in enumerate(task.indices):
            if stopped.is_set():
                raise Stopped
            items.append(self._item(task, position, index))
        try:
            batch = self.collate(items)
            if self.mix is not None:
                batch = self.mix(batch, Draws(self.seed, task.epoch, task.number, batch=True))
            return batch
        except ItemMismatchError as error:
            raise error.renumbered(task.indices) from error
        except Exception as error:
            raise DataError(
                f"loader requires items that collate, got {_described(error)} "
                f"for the batch of items {_shown(task.indices)}"
            ) from error

    def _read(self, task: BatchTask, position: int, index: int) -> Any:
        if task.items is not None or self.dataset is None:
            return (task.items or [])[position]
        return self.dataset[index]

    def _item(self, task: BatchTask, position: int, index: int) -> Any:
        try:
            item = self._read(task, position, index)
            if self.augment is not None:
                item = self.augment(item, Draws(self.seed, task.epoch, index))
            return item
        except Exception as error:
            raise DataError(
                f"loader requires every item to load, got {_described(error)} for item {index}"
            ) from error


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _shown(indices: list[int]) -> str:
    """Return the indices as text, the first of them where there are many."""
    if len(indices) <= 16:
        return str(indices)
    return f"[{', '.join(map(str, indices[:16]))}, … {len(indices)} in all]"
