"""Items that are all in memory: rows of arrays, or a sequence, from CSV or JSON rows as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

from numpy.typing import NDArray

from pyrite.data.dataset import Dataset, checked_index
from pyrite.data.draws import Draws
from pyrite.data.source.csv import Missing, read_csv
from pyrite.data.source.json import read_json_rows
from pyrite.errors import ArgumentError, ShapeError

T = TypeVar("T")


class ArrayDataset(Dataset[tuple[Any, ...]]):
    """The rows of arrays, as tuples of views: item i is (arrays[0][i], arrays[1][i], ...).

    Raises ShapeError unless the arrays have one first length; ArgumentError if there are none.

    >>> import numpy as np
    >>> ArrayDataset(np.zeros((3, 4)), np.arange(3))[2][1]
    np.int64(2)
    """

    def __init__(self, *arrays: NDArray[Any]) -> None:
        shapes = [array.shape for array in arrays]
        if not arrays:
            raise ArgumentError("ArrayDataset requires at least one array, got none")
        if not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(f"ArrayDataset requires arrays of equal length, got shapes {shapes}")
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int, /) -> tuple[Any, ...]:
        index = checked_index(index, len(self))
        return tuple(array[index] for array in self.arrays)


class FakeDataset(Dataset[T]):
    """size items that make(draws) makes, item i from draws of (seed, 0, i): the same each time.

    For tests and for measuring without data.  Raises ArgumentError if size is negative.

    >>> fake = FakeDataset(8, lambda draws: (draws.uniforms(3, 32, 32), draws.integer(10)))
    >>> fake[7][0].shape, fake[7][1] == fake[7][1]
    ((3, 32, 32), True)
    """

    def __init__(self, size: int, make: Callable[[Draws], T], *, seed: int = 0) -> None:
        if size < 0:
            raise ArgumentError(f"FakeDataset requires size >= 0, got {size}")
        self._size = size
        self._make = make
        self._seed = seed

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int, /) -> T:
        return self._make(Draws(self._seed, 0, checked_index(index, self._size)))


class InMemoryDataset(Dataset[T]):
    """The given items, held in a list.

    >>> InMemoryDataset(["a", "b"])[1]
    'b'
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int, /) -> T:
        return self._items[checked_index(index, len(self._items))]

    @classmethod
    def from_arrays(
        cls, item: Callable[..., T], /, *columns: NDArray[Any], **named: NDArray[Any]
    ) -> InMemoryDataset[T]:
        """Items item(column[i], …, name=named[i], …), one per row of the columns' first axis.

        Rows of the arrays are views, not copies.

        Raises ShapeError unless all columns have the same, at least one, axis and first length.

        >>> import numpy as np
        >>> InMemoryDataset.from_arrays(complex, np.arange(3), np.ones(3))[2]
        (2+1j)
        """
        arrays = [*columns, *named.values()]
        shapes = [array.shape for array in arrays]
        if not arrays:
            raise ArgumentError("from_arrays requires at least one column, got none")
        if not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(f"from_arrays requires columns of equal length, got shapes {shapes}")
        rows = zip(*arrays, strict=True)
        count = len(columns)
        return cls(item(*row[:count], **dict(zip(named, row[count:], strict=True))) for row in rows)

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        row: type[T],
        *,
        columns: Mapping[str, str] | None = None,
        header: bool = True,
        delimiter: str = ",",
        missing: Missing = "error",
        missing_values: Collection[str] = ("",),
    ) -> InMemoryDataset[T]:
        """The rows of a CSV file as instances of a dataclass or NamedTuple; see `read_csv`."""
        return cls(
            read_csv(
                path,
                row,
                columns=columns,
                header=header,
                delimiter=delimiter,
                missing=missing,
                missing_values=missing_values,
            )
        )

    @classmethod
    def from_json_rows(cls, path: str | PathLike[str], row: type[T]) -> InMemoryDataset[T]:
        """Return the rows of a JSON Lines file, as instances of a dataclass or NamedTuple.

        See `read_json_rows`.
        """
        return cls(read_json_rows(path, row))
