"""Streams: items one after another, without length or positions, and how a loader reads them.

A stream is read by one reader, in its order; workers augment and collate what was read.  So
batches are the same for any number of workers, and no worker has to know which part is its own.

    IterableDataset[T]      __iter__, or epoch(number) if epochs differ
    ├── ResumableDataset    read(epoch, state) gives each item with the state after it
    │   └── LinesDataset    the lines of text files
    ├── MappedStream        .map(fn), which keeps the states of a ResumableDataset
    └── ShuffledStream      .shuffle(size, seed), which has none

PyTorch's and Hugging Face's iterable datasets, and any object with `__iter__`, are streams too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyrite.data.draws import Draws
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)

Read = Iterator[tuple[Any, Callable[[], Any]]]
"""Items, each with a function of the state after it, asked for before the next is read."""


class IterableDataset(ABC, Generic[T_co]):
    """Items one after another.

    A subclass defines __iter__; or `epoch`, if epochs differ.  It has no state: a loader can read
    it from its beginning only.  One that can go on from within is a ResumableDataset.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]:
        """Return the items from the beginning."""

    def epoch(self, number: int) -> Iterator[T_co]:
        """Return the items of epoch `number`; here those of every epoch."""
        return iter(self)

    def map(self, fn: Callable[[T_co], U]) -> IterableDataset[U]:
        """Return the stream of fn(item); a loader's augment does the same in its workers."""
        return MappedStream(self, fn)

    def shuffle(self, size: int, seed: int = 0) -> ShuffledStream[T_co]:
        """Return the items in an order that mixes those less than about size apart."""
        return ShuffledStream(self, size, seed)


class ResumableDataset(IterableDataset[T]):
    """A stream that goes on where it was: its items come with states.

    A subclass defines `read`.  A state is what JSON holds, so that a checkpoint can.
    """

    @abstractmethod
    def read(self, epoch: int, state: Any) -> Iterator[tuple[T, Any]]:
        """Yield each item after state (None: from the beginning), with the state after it."""

    def __iter__(self) -> Iterator[T]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[T]:
        """Return the items of epoch `number`."""
        return (item for item, _ in self.read(number, None))

    def map(self, fn: Callable[[T], U]) -> ResumableDataset[U]:
        """Return the stream of fn(item), which goes on where this one does."""
        return MappedResumableStream(self, fn)


class LinesDataset(ResumableDataset[str]):
    """The lines of UTF-8 text files, one file after another, without their line ends.

    The state is which file, and the byte in it where the next line begins.

    Reading raises DataError, naming the file, if it cannot be read or is no UTF-8.
    """

    def __init__(self, paths: Sequence[str | PathLike[str]]) -> None:
        if isinstance(paths, str | PathLike):
            raise ArgumentError(f"LinesDataset requires a list of paths, got {paths!r}; [path]")
        self.paths = [Path(path) for path in paths]

    def read(self, epoch: int, state: Any) -> Iterator[tuple[str, Any]]:
        """Yield each line after state with the state after it."""
        first, offset = state or (0, 0)
        for number in range(first, len(self.paths)):
            for line, end in _lines(self.paths[number], offset):
                yield line, [number, end]
            offset = 0


class MappedStream(IterableDataset[U]):
    """fn of each item of a stream."""

    def __init__(self, source: IterableDataset[Any], fn: Callable[[Any], U]) -> None:
        self._source = source
        self._fn = fn

    def __iter__(self) -> Iterator[U]:
        return map(self._fn, self._source)

    def epoch(self, number: int) -> Iterator[U]:
        """Return the items of epoch `number`."""
        return map(self._fn, self._source.epoch(number))


class MappedResumableStream(ResumableDataset[U]):
    """fn of each item of a stream, with the states of that."""

    def __init__(self, source: ResumableDataset[Any], fn: Callable[[Any], U]) -> None:
        self._source = source
        self._fn = fn

    def read(self, epoch: int, state: Any) -> Iterator[tuple[U, Any]]:
        """Yield fn of each item after state, with the state after it."""
        return ((self._fn(item), after) for item, after in self._source.read(epoch, state))


class ShuffledStream(IterableDataset[T]):
    """The items of a stream, each drawn from `size` that were read ahead of it.

    Draws are counted from (seed, epoch, position), so an epoch has one order.

    Raises ArgumentError unless size >= 1.
    """

    def __init__(self, source: IterableDataset[T], size: int, seed: int) -> None:
        if size < 1:
            raise ArgumentError(f"shuffle requires size >= 1, got {size}")
        self._source = source
        self._size = size
        self._seed = seed

    def __iter__(self) -> Iterator[T]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[T]:
        """Return the items of epoch `number`."""
        items = self._source.epoch(number)
        held = list(islice(items, self._size))
        for position in count():
            if not held:
                return
            chosen = Draws(self._seed, number, position).integer(len(held))
            item = held[chosen]
            following = next(items, _END)
            if following is _END:
                held[chosen] = held[-1]
                held.pop()
            else:
                held[chosen] = following  # type: ignore[assignment]
            yield item


def is_stream(dataset: Any) -> bool:
    """Return whether a dataset is read item by item, for want of positions or a length."""
    if any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__):
        return True  # PyTorch's has an inherited __getitem__, which raises
    has_positions = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return hasattr(dataset, "__iter__") and not has_positions


def read_stream(dataset: Any, epoch: int, state: Any) -> Read:
    """Yield the items of an epoch after state, with functions of the states after them.

    Raises ArgumentError for a state of a stream that declares none.
    """
    if isinstance(dataset, ResumableDataset):
        for item, after in dataset.read(epoch, state):
            yield item, lambda after=after: after  # type: ignore[misc]
        return
    resumable = hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")
    if state is not None:
        if not resumable:
            raise ArgumentError(
                f"resume within an epoch requires a stream with a state, got "
                f"{type(dataset).__name__}, which declares none; derive it from ResumableDataset, "
                "or begin the epoch anew"
            )
        dataset.load_state_dict(state)
    elif hasattr(dataset, "set_epoch"):
        dataset.set_epoch(epoch)
    items = dataset.epoch(epoch) if isinstance(dataset, IterableDataset) else iter(dataset)
    if items is dataset and epoch:
        raise DataError(
            "loader requires a stream that begins anew for each epoch, got "
            f"{type(dataset).__name__}, an iterator that can be read once; give an object whose "
            "__iter__ makes a new one"
        )
    after = dataset.state_dict if resumable else _no_state
    for item in items:
        yield item, after


def _no_state() -> None:
    return None


_END = object()


def _lines(path: Path, offset: int) -> Iterator[tuple[str, int]]:
    """Yield the lines from a byte on, with where each ends."""
    try:
        with open_file(path) as file:
            file.seek(offset)
            while line := file.readline():
                offset += len(line)
                yield line.decode("utf-8").removesuffix("\n").removesuffix("\r"), offset
    except OSError as error:
        raise DataError(f"lines require a readable file, got {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"lines require UTF-8 text, got {error.reason} in the line that ends at byte {offset} "
            f"of {path}"
        ) from error
