"""Dataset, and the datasets that are views of others: mapped, shuffled, split, windowed, joined.

A dataset is what has a length and gives an item by position.  A transform holds its source and
answers by index arithmetic, so chaining copies no items and nothing is computed before an item is
asked for.  They share this file because each is made by a method of Dataset and is one itself.

    Dataset[T]
    ├── MapperDataset       .map(fn)            fn of each item
    ├── SelectionDataset    .select(indices)    these positions, in this order
    │   ├── ShuffledDataset .shuffle(seed)      all, in random order
    │   └── SamplerDataset  .sample(size)       some, with or without replacement
    ├── PartialDataset      .split(parts)       a contiguous part
    ├── WindowsDataset      .windows(size)      runs of neighbours
    └── ComposedDataset     .concatenate(…)     one after another

Invariant: reading an item changes nothing, so several threads may read at once.
Source: the transforms and their names follow Burn's burn-dataset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pyrite.data.order import Indices, sampled_order, shuffled_order, split_bounds
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


class Indexable(Protocol[T_co]):
    """What transforms and loaders read from: a Dataset, a list, or anyone's dataset class."""

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def __getitem__(self, index: int, /) -> T_co:
        """Return the item at index, 0 <= index < len(self)."""
        ...


class Dataset(ABC, Generic[T_co]):
    """Items by position, and the transforms of them.

    A subclass defines __len__ and __getitem__; the latter raises IndexError outside its range
    (`checked_index` does that).  Items are plain Python or NumPy values, never tensors.

    >>> from pyrite.data import InMemoryDataset
    >>> list(InMemoryDataset([3, 1, 2]).map(lambda item: item * 10).select([2, 0]))
    [20, 30]
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""

    @abstractmethod
    def __getitem__(self, index: int, /) -> T_co:
        """Return the item at index; negative indices count from the end."""

    def __iter__(self) -> Iterator[T_co]:
        """Return the items in order."""
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        """Return the class and the number of items."""
        return f"{type(self).__name__}({len(self)} items)"

    def map(self, fn: Callable[[T_co], U]) -> MapperDataset[U]:
        """Return the dataset of fn(item), computed each time that an item is read."""
        return MapperDataset(self, fn)

    def select(self, indices: ArrayLike) -> SelectionDataset[T_co]:
        """Return the items at these positions, in this order; positions may repeat.

        Raises IndexRangeError if a position is outside the dataset, DTypeError if not an integer.
        """
        return SelectionDataset(self, indices)

    def shuffle(self, seed: int) -> ShuffledDataset[T_co]:
        """Return all items in the random order of seed, the same on every platform."""
        return ShuffledDataset(self, seed)

    def sample(
        self,
        size: int | None = None,
        *,
        ratio: float | None = None,
        replacement: bool = False,
        seed: int = 0,
    ) -> SamplerDataset[T_co]:
        """Return size random items, or ratio times the number of items.

        Raises ArgumentError unless exactly one of size and ratio is given, and if more items are
        asked for than there are and replacement is False.
        """
        return SamplerDataset(self, size, ratio=ratio, replacement=replacement, seed=seed)

    def split(
        self, parts: Sequence[float], *, seed: int | None = None
    ) -> tuple[PartialDataset[T_co], ...]:
        """Disjoint parts that together hold every item, in order or in the random order of seed.

        parts are lengths ([80, 20]) or fractions ([0.8, 0.2]).

        Raises ArgumentError if lengths do not sum to len(self), or fractions to 1.

        >>> from pyrite.data import InMemoryDataset
        >>> [list(part) for part in InMemoryDataset("abcd").split([0.75, 0.25])]
        [['a', 'b', 'c'], ['d']]
        """
        source = self if seed is None else self.shuffle(seed)
        return tuple(PartialDataset(source, *bounds) for bounds in split_bounds(len(self), parts))

    def windows(self, size: int, *, stride: int = 1) -> WindowsDataset[T_co]:
        """Lists of size neighbours, each starting stride items after the one before.

        Raises ArgumentError unless size and stride are positive.

        >>> from pyrite.data import InMemoryDataset
        >>> list(InMemoryDataset("abcde").windows(3, stride=2))
        [['a', 'b', 'c'], ['c', 'd', 'e']]
        """
        return WindowsDataset(self, size, stride=stride)

    def concatenate(self, *others: Indexable[T_co]) -> ComposedDataset[T_co]:
        """Return the items of this dataset, then those of each other in turn."""
        return ComposedDataset([self, *others])


class MapperDataset(Dataset[U]):
    """fn of each item of source, computed when read."""

    def __init__(self, source: Indexable[T], fn: Callable[[T], U]) -> None:
        # The type of source's items is not part of the class's type.
        self._source: Indexable[Any] = source
        self._fn: Callable[[Any], U] = fn

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int, /) -> U:
        return self._fn(self._source[checked_index(index, len(self))])


class SelectionDataset(Dataset[T]):
    """The items of source at indices, in that order."""

    def __init__(self, source: Indexable[T], indices: ArrayLike) -> None:
        self._source = source
        self._indices = checked_positions(indices, len(source), "select")

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> T:
        return self._source[int(self._indices[checked_index(index, len(self))])]


class ShuffledDataset(SelectionDataset[T]):
    """All items of source in the random order of seed."""

    def __init__(self, source: Indexable[T], seed: int) -> None:
        super().__init__(source, shuffled_order(len(source), seed))


class SamplerDataset(SelectionDataset[T]):
    """size random items of source, or ratio * len(source) of them, rounded."""

    def __init__(
        self,
        source: Indexable[T],
        size: int | None = None,
        *,
        ratio: float | None = None,
        replacement: bool = False,
        seed: int = 0,
    ) -> None:
        n = len(source)
        if (size is None) == (ratio is None):
            raise ArgumentError(f"sample requires size or ratio, got size={size}, ratio={ratio}")
        count = size if size is not None else round(n * float(ratio or 0))
        super().__init__(source, sampled_order(n, count, seed, replacement=replacement))


class PartialDataset(Dataset[T]):
    """The items of source from start up to, not including, end."""

    def __init__(self, source: Indexable[T], start: int, end: int) -> None:
        if not 0 <= start <= end <= len(source):
            raise ArgumentError(
                f"partial dataset requires 0 <= start <= end <= {len(source)}, "
                f"got start={start}, end={end}"
            )
        self._source = source
        self._positions = range(start, end)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int, /) -> T:
        return self._source[self._positions[checked_index(index, len(self))]]


class WindowsDataset(Dataset[list[T]]):
    """Lists of size neighbouring items of source; a rest shorter than size is left out."""

    def __init__(self, source: Indexable[T], size: int, *, stride: int = 1) -> None:
        if size < 1 or stride < 1:
            raise ArgumentError(
                f"windows requires size >= 1 and stride >= 1, got size={size}, stride={stride}"
            )
        self._source = source
        self._size = size
        self._starts = range(0, len(source) - size + 1, stride)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int, /) -> list[T]:
        start = self._starts[checked_index(index, len(self))]
        return [self._source[position] for position in range(start, start + self._size)]


class ComposedDataset(Dataset[T]):
    """The items of each source, one source after another."""

    def __init__(self, sources: Sequence[Indexable[T]]) -> None:
        self._sources = tuple(sources)
        self._ends = list(accumulate(len(source) for source in self._sources))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> T:
        index = checked_index(index, len(self))
        which = bisect_right(self._ends, index)
        start = self._ends[which - 1] if which else 0
        return self._sources[which][index - start]


def checked_index(index: int, length: int) -> int:
    """Return the position 0 <= index < length that index means; negative ones count from the end.

    Raises IndexRangeError unless -length <= index < length.

    >>> checked_index(-1, 3)
    2
    """
    if not -length <= index < length:
        raise IndexRangeError(f"dataset requires {-length} <= index < {length}, got {index}")
    return index + length if index < 0 else index


def checked_positions(indices: ArrayLike, length: int, name: str) -> Indices:
    """Return indices as positions, none negative: int64 (n,).

    Raises DTypeError, for the op `name`, if they are no list of integers; IndexRangeError if one is
    outside of so many items.
    """
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DTypeError(
            f"{name} requires a list of integers, got {array.dtype} of shape {array.shape}"
        )
    outside = array[(array < -length) | (array >= length)] if array.size else array
    if outside.size:
        raise IndexRangeError(f"{name} requires {-length} <= index < {length}, got {outside[0]}")
    positions = array.astype(np.int64)
    return np.where(positions < 0, positions + length, positions)
