"""Batches of sequences of different lengths: padded to the longest, with a mask of what is real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.data.collate import ItemShapeError, ItemTypeError, default_collate, item_fields
from pyrite.errors import ArgumentError, DTypeError


class Padded(NamedTuple):
    """values: (N, T, ...), T the longest length; mask: bool (N, T), True where an item has one."""

    values: Any
    mask: Any


class PadCollate:
    """A collate that pads: `PadCollate({"tokens": 0, "tags": -100})`, or `PadCollate(0)`.

    padding names the fields (of a plain tuple: positions) that are sequences (T, ...), arrays or
    lists of numbers, and what each is padded with; a number is for items that are one sequence
    themselves.  Such a field becomes Padded(values, mask); others are collated as by
    `default_collate`.  T is the longest length, rounded up to a multiple of multiple_of, which
    gives kernels fewer shapes.

    Raises ArgumentError if items have no such field, or multiple_of < 1; ItemShapeError or
    ItemTypeError if sequences differ in more than their length; DTypeError for what is no sequence
    of numbers.

    >>> batch = PadCollate(0)([[1, 2, 3], [4]])
    >>> batch.values.tolist(), batch.mask.tolist()
    ([[1, 2, 3], [4, 0, 0]], [[True, True, True], [True, False, False]])
    """

    def __init__(
        self, padding: float | Mapping[str, float] | Mapping[int, float], *, multiple_of: int = 1
    ) -> None:
        if multiple_of < 1:
            raise ArgumentError(f"PadCollate requires multiple_of >= 1, got {multiple_of}")
        self.padding = padding
        self.multiple_of = multiple_of

    def __call__(self, items: Sequence[Any], /) -> Any:
        """Return the batch of items."""
        if not isinstance(self.padding, Mapping):
            return self._padded(items, self.padding, "")
        if not items or not _has_fields(items[0]):
            return default_collate(items)
        keys, _, rebuild = item_fields(items[0])
        names = getattr(items[0], "_fields", keys)
        absent = [name for name in self.padding if name not in names and name not in keys]
        if absent:
            raise ArgumentError(
                f"PadCollate requires fields of the items, {list(names)}, got {absent}"
            )
        parts = []
        for key, name in zip(keys, names, strict=True):
            column = [item_fields(item)[1][key] for item in items]
            padding: Any = self.padding
            if name in padding or key in padding:
                value = padding[name] if name in padding else padding[key]
                parts.append(self._padded(column, value, f"[{name!r}]"))
            else:
                parts.append(default_collate(column))
        return rebuild(parts)

    def _padded(self, sequences: Sequence[Any], padding: float, path: str) -> Padded:
        arrays = [_sequence(sequence, path) for sequence in sequences]
        if not arrays:
            raise ArgumentError("collate requires at least one item, got none")
        first = arrays[0]
        for position, array in enumerate(arrays):
            places = (0, position)
            if array.dtype != first.dtype:
                requirement = f"PadCollate requires items{path} of one dtype"
                raise ItemTypeError(requirement, first.dtype, array.dtype, places)
            if array.shape[1:] != first.shape[1:]:
                requirement = f"PadCollate requires items{path} equal in all but their length"
                raise ItemShapeError(requirement, first.shape, array.shape, places)
        lengths = np.array([len(array) for array in arrays])
        longest = -(-int(lengths.max()) // self.multiple_of) * self.multiple_of
        values = _filled((len(arrays), longest, *first.shape[1:]), padding, first.dtype)
        for row, array in zip(values, arrays, strict=True):
            row[: len(array)] = array
        return Padded(values, np.arange(longest) < lengths[:, None])


def _filled(shape: tuple[int, ...], padding: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return np.full(shape, padding, dtype)
    except (OverflowError, ValueError, TypeError) as error:
        raise DTypeError(f"PadCollate requires padding of {dtype}, got {padding!r}") from error


def _sequence(value: Any, path: str) -> NDArray[Any]:
    """Return a sequence as an array (T, ...), lists in the dtypes that tensors have."""
    if isinstance(value, list | tuple):
        kinds = {type(element) for element in value} or {int}
        default: Any = {frozenset({int}): np.int32, frozenset({bool}): np.bool_}.get(
            frozenset(kinds), np.float32 if kinds <= {int, float} else None
        )
        try:
            value = np.array(value, default)
        except (ValueError, TypeError, OverflowError) as error:
            raise DTypeError(
                f"PadCollate requires items{path} as sequences of numbers, got {error}"
            ) from error
    elif not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.ndim == 0 or value.dtype.kind in "OUS":
        raise DTypeError(
            f"PadCollate requires items{path} as sequences of numbers, got {type(value).__name__}"
        )
    return value


def _has_fields(item: Any) -> bool:
    return isinstance(item, tuple | dict) or hasattr(type(item), "__dataclass_fields__")
