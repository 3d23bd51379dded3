"""Streams: items one after another, without length or positions, and how a loader reads them.

A stream is read by one reader, in its order; workers augment and collate what was read.  So
batches are the same for any number of workers, and no worker has to know which part is its own.

    IterableDataset[T]      __iter__, or epoch(number) if epochs differ
    ├── ResumableDataset    read(epoch, state) gives each item with the state after it
    │   └── LinesDataset    the lines of text files
    ├── MappedStream        .map(fn)
    └── ShuffledStream      .shuffle(size, seed)

map and shuffle of a ResumableDataset are one, too.

PyTorch's and Hugging Face's iterable datasets, and any object with `__iter__`, are streams too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from os import PathLike
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

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

    def reading(self, epoch: int, state: Any) -> Read:
        """Return the items after state, each with a function of the state after it.

        A subclass whose states cost more than its items defines it, so that only those are made
        that a loader asks for, at the ends of batches.
        """
        return ((item, partial(_itself, after)) for item, after in self.read(epoch, state))

    def map(self, fn: Callable[[T], U]) -> ResumableDataset[U]:
        """Return the stream of fn(item), which goes on where this one does."""
        return MappedResumableStream(self, fn)

    def shuffle(self, size: int, seed: int = 0) -> ResumableDataset[T]:  # type: ignore[override]
        """Return the items in the order of IterableDataset.shuffle, which goes on where it was."""
        return ShuffledResumableStream(self, size, seed)


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

    def reading(self, epoch: int, state: Any) -> Read:
        """Return fn of the items after state, with functions of the states of their source."""
        return ((self._fn(item), after) for item, after in self._source.reading(epoch, state))


class ShuffledStream(IterableDataset[T]):
    """The items of a stream, each drawn from `size` that were read ahead of it.

    Draws are counted from (seed, epoch, position), so an epoch has one order.  It declares no
    state, because its source has none.

    Raises ArgumentError unless size >= 1.
    """

    def __init__(self, source: IterableDataset[T], size: int, seed: int) -> None:
        self._source = source
        self._size = _checked_size(size)
        self._seed = seed

    def __iter__(self) -> Iterator[T]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[T]:
        """Return the items of epoch `number`."""
        items = self._source.epoch(number)
        return _drawn(items, list(islice(items, self._size)), self._seed, number, 0)


class ShuffledResumableStream(ResumableDataset[T]):
    """The items of a resumable stream in the order of ShuffledStream.

    A state holds no items, which JSON may not: it says where in the source the oldest item began
    that is held, and which ones after it are.  To go on, the source is read again from there, which
    is of about size * ln(size) items.

    Raises ArgumentError unless size >= 1; reading, for a state of another size or seed.
    """

    def __init__(self, source: ResumableDataset[T], size: int, seed: int) -> None:
        self._source = source
        self._size = _checked_size(size)
        self._seed = seed

    def read(self, epoch: int, state: Any) -> Iterator[tuple[T, Any]]:
        """Yield each item after state, with the state after it."""
        return ((item, after()) for item, after in self.reading(epoch, state))

    def reading(self, epoch: int, state: Any) -> Read:
        """Return the items after state, each with a function of the state after it."""
        self._require_same(state)
        origin, first = (None, 0) if state is None else (state["origin"], state["position"])
        entries = _Entries(self._source.reading(epoch, origin), origin)
        if state is None:
            held = list(islice(entries, self._size))
        else:
            read = {entry.number: entry for entry in islice(entries, state["read"])}
            held = [read[number] for number in state["held"]]
        drawn = _drawn(entries, held, self._seed, epoch, first)
        for position, entry in enumerate(drawn, first):
            yield entry.item, partial(self._state, entries, held, position + 1)

    def _state(self, entries: _Entries, held: list[_Entry], position: int) -> dict[str, Any]:
        oldest = min(held, key=lambda entry: entry.number, default=entries.end())
        return {
            "size": self._size,
            "seed": self._seed,
            "position": position,
            "origin": oldest.before,
            "read": entries.count - oldest.number,
            "held": [entry.number - oldest.number for entry in held],
        }

    def _require_same(self, state: Any) -> None:
        if state is not None and (state["size"], state["seed"]) != (self._size, self._seed):
            raise ArgumentError(
                f"resume requires the shuffle of its state, size={state['size']} and "
                f"seed={state['seed']}, got size={self._size} and seed={self._seed}"
            )


class _Entry(NamedTuple):
    """An item of a stream: the how manieth that was read, and the stream's state before it."""

    number: int
    before: Any
    item: Any


class _Entries:
    """The entries of a stream that is read from a state on, and how many were read."""

    def __init__(self, items: Read, state: Any) -> None:
        self._items = items
        self._before = state
        self.count = 0

    def __iter__(self) -> Iterator[_Entry]:
        return self

    def __next__(self) -> _Entry:
        item, after = next(self._items)
        entry = _Entry(self.count, self._before, item)
        self.count += 1
        self._before = after()
        return entry

    def end(self) -> _Entry:
        """Return the place after the last entry that was read."""
        return _Entry(self.count, self._before, None)


def _drawn(items: Iterator[T], held: list[T], seed: int, epoch: int, first: int) -> Iterator[T]:
    """Yield one of held and put the next of items in its place, until none is left.

    held is changed in place; position `first` is the first one's.
    """
    for position in count(first):
        if not held:
            return
        chosen = Draws(seed, epoch, position).integer(len(held))
        item = held[chosen]
        following = next(items, _END)
        if following is _END:
            held[chosen] = held[-1]
            held.pop()
        else:
            held[chosen] = following  # type: ignore[assignment]
        yield item


def _checked_size(size: int) -> int:
    if size < 1:
        raise ArgumentError(f"shuffle requires size >= 1, got {size}")
    return size


def _itself(state: Any) -> Any:
    return state


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
        yield from dataset.reading(epoch, state)
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
