"""From a list of items to one batch of the same structure: first in NumPy, then in tensors.

A batch has the type of its items, with an array where an item has a number or an array: a list of
Image(pixels (C, H, W), label) becomes Image(pixels (N, C, H, W), label (N,)).

Invariant: nothing is converted to make items fit.  Items that differ in type, dtype or shape are an
error that names the first item that differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, DTypeError, PyriteError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.joining import stack
from pyrite.tensor.tensor import Tensor

# Pyrite's default dtypes, as pyrite.tensor gives them to Python numbers.
_NUMBERS: dict[type, type[np.generic]] = {bool: np.bool_, int: np.int32, float: np.float32}


class ItemMismatchError(PyriteError):
    """Two items do not fit in one batch; `positions` are theirs, counted within the batch."""

    def __init__(
        self, requirement: str, first: object, other: object, positions: tuple[int, int]
    ) -> None:
        super().__init__(
            f"{requirement}, got {first} for item {positions[0]} "
            f"and {other} for item {positions[1]}"
        )
        self.requirement = requirement
        self.first = first
        self.other = other
        self.positions = positions

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.requirement, self.first, self.other, self.positions)

    def renumbered(self, indices: Sequence[int]) -> Self:
        """Return the error with indices in the dataset in the place of positions in the batch."""
        first, other = self.positions
        numbers = (indices[first], indices[other])
        return type(self)(self.requirement, self.first, self.other, numbers)


class ItemShapeError(ItemMismatchError, ShapeError):
    """Items of one batch have different shapes; crop them, or pass collate=PadCollate(...)."""


class ItemTypeError(ItemMismatchError, DTypeError):
    """Items of one batch have different types, fields or dtypes."""


def default_collate(items: Sequence[Any]) -> Any:
    """Return one batch of NumPy arrays with the structure of the items.

    Arrays are stacked: N times (...) -> (N, ...).  Numbers become arrays (N,): bool, int32, float32
    for Python's, their own dtype for NumPy's.  Tuples, NamedTuples, dataclasses and dicts are
    collated field by field; lists are sequences and are stacked: N times T times (...) -> (N, T,
    ...).  Strings stay a list.  Tensors are stacked to one on their device; arrays of other
    libraries (PyTorch's tensors, Pillow's images) are what NumPy reads in them.

    Raises ItemShapeError (a ShapeError) or ItemTypeError (a DTypeError) naming the first item that
    differs from item 0; DTypeError for a type that has no batch; ArgumentError for no items.

    >>> default_collate([(1, "a"), (2, "b")])
    (array([1, 2], dtype=int32), ['a', 'b'])
    """
    if not items:
        raise ArgumentError("collate requires at least one item, got none")
    return _collate(items, "")


def to_tensors(batch: Any, device: DeviceLike = None) -> Any:
    """The batch with each NumPy array replaced by a tensor on device; anything else as it is.

    A tensor goes to the device if one is given, and stays where it is with None.

    >>> to_tensors({"x": np.zeros((2, 3), np.float32)})["x"].shape
    (2, 3)
    """
    if isinstance(batch, np.ndarray):
        return tensor(batch, device=device)
    if isinstance(batch, Tensor):
        return batch if device is None else batch.to(device)
    if isinstance(batch, tuple | dict) or _is_record(batch):
        names, values, rebuild = item_fields(batch)
        return rebuild([to_tensors(values[name], device) for name in names])
    return batch


def _collate(items: Sequence[Any], path: str) -> Any:
    """Return the batch of items, which are found at path within each item of the loader."""
    first = items[0]
    _require_one(f"items{path} of one type", [type(item).__name__ for item in items], ItemTypeError)
    if isinstance(first, str):
        return list(items)
    if isinstance(first, np.ndarray | np.generic):
        return _stack(items, path)
    if isinstance(first, Tensor):
        return _stack_tensors(items, path)
    if type(first) in _NUMBERS:
        return _numbers(items, path)
    if isinstance(first, list):
        return _collate([_sequence(item, path, i) for i, item in enumerate(items)], path)
    if isinstance(first, tuple | dict) or _is_record(first):
        return _collate_fields(items, path)
    if _is_array_of_others(first):
        return _stack([_as_array(item, path) for item in items], path)
    raise DTypeError(
        "collate requires arrays, tensors, numbers, strings, or tuples, dataclasses, dicts or "
        f"lists of them, got {type(first).__name__} for item{path}; pass collate"
    )


def _collate_fields(items: Sequence[Any], path: str) -> Any:
    parts = [item_fields(item) for item in items]
    _require_one(
        f"items{path} of equal fields", [sorted(map(str, part[0])) for part in parts], ItemTypeError
    )
    names, _, rebuild = parts[0]
    return rebuild(
        [_collate([values[name] for _, values, _ in parts], f"{path}[{name!r}]") for name in names]
    )


def item_fields(value: Any) -> tuple[list[Any], Any, Callable[[list[Any]], Any]]:
    """Return the names of value's fields, what to index by them, and how to make another one."""
    kind = type(value)
    if isinstance(value, dict):
        names = list(value)
        return names, value, lambda parts: dict(zip(names, parts, strict=True))
    if isinstance(value, tuple):
        make = kind if hasattr(kind, "_fields") else lambda *parts: kind(parts)
        return list(range(len(value))), value, lambda parts: make(*parts)
    names = [field.name for field in dataclasses.fields(value) if field.init]
    by_name = {name: getattr(value, name) for name in names}
    return names, by_name, lambda parts: kind(**dict(zip(names, parts, strict=True)))


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_array_of_others(value: object) -> bool:
    """Return whether value is an array of another library: PyTorch's tensor, Pillow's image."""
    is_array = hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    return is_array and not isinstance(value, type)


def _as_array(value: Any, path: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception as error:
        raise DTypeError(
            f"collate requires arrays that NumPy can read, got {type(value).__name__} for "
            f"item{path}: {error}; convert it in the dataset, or pass collate"
        ) from error


def _sequence(elements: Sequence[Any], path: str, position: int) -> Any:
    """The elements of the list that is item `position`, stacked: T times (...) -> (T, ...)."""
    try:
        return default_collate(elements)
    except ItemMismatchError as error:
        requirement = f"{error.requirement} within each list{path}"
        raise type(error)(requirement, error.first, error.other, (position, position)) from error


def _stack(arrays: Sequence[Any], path: str) -> NDArray[Any]:
    _require_one_type(arrays, path)
    return np.stack(arrays)


def _stack_tensors(tensors: Sequence[Tensor], path: str) -> Tensor:
    _require_one_type(tensors, path)
    _require_one(f"items{path} on one device", [item.device for item in tensors], ItemTypeError)
    return stack(tensors)


def _require_one_type(arrays: Sequence[Any], path: str) -> None:
    _require_one(f"items{path} of one dtype", [array.dtype for array in arrays], ItemTypeError)
    _require_one(f"items{path} of one shape", [array.shape for array in arrays], ItemShapeError)


def _numbers(items: Sequence[Any], path: str) -> NDArray[Any]:
    try:
        return np.array(items, dtype=_NUMBERS[type(items[0])])
    except OverflowError as error:
        raise DTypeError(
            f"collate requires int{path} within int32, got {max(items, key=abs)}; "
            "give np.int64 items"
        ) from error


def _require_one(requirement: str, found: Sequence[object], error: type[ItemMismatchError]) -> None:
    for position, other in enumerate(found):
        if other != found[0]:
            raise error(f"collate requires {requirement}", found[0], other, (0, position))
