"""The language of ``x[...]``, read into a plan: NumPy's, for reading and for writing alike.

A subscript is a slice of every axis, then a change of shape (integers drop their axis, None adds
one), then index arrays for some of the axes.  Where the axes of the arrays go is NumPy's rule: in
the place of the axes that they index when these, integers included, stand side by side in the
subscript, else in front.  A bool array is as many index arrays as it has axes: the positions where
it holds.

Invariant: whatever the host knows is checked here; only index tensors are checked by the device.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pyrite.errors import ArgumentError, AxisError, DTypeError, IndexRangeError, ShapeError
from pyrite.op import TensorBase, instead
from pyrite.op.calls import items_key
from pyrite.recent import Recent
from pyrite.sized import has_symbol, is_size
from pyrite.tensor.gathering import checked_indices, positions_of, require_mask
from pyrite.types import Array, Shape, broadcast

#: What indexes an axis: integers of the host or of the device.
Index = Array | TensorBase


@dataclass(frozen=True, slots=True)
class Subscript:
    """What ``x[key]`` selects; see the module's docstring."""

    #: The slice of every axis of x.
    start: Shape
    size: Shape
    step: tuple[int, ...]
    #: The shape of that slice without the axes of integers and with those of None.
    shape: Shape
    #: The axes of that shape that have index arrays, and the arrays.
    axes: tuple[int, ...]
    arrays: tuple[Index, ...]
    #: The first axis of the result that comes from the arrays.
    place: int

    @property
    def broadcast_shape(self) -> Shape:
        """The shape to which the index arrays broadcast."""
        return broadcast("indexing", *(tuple(a.shape) for a in self.arrays))

    def is_whole(self, shape: Shape) -> bool:
        """Whether the slice is all of x, in order."""
        return self.size == shape and not any(self.start) and all(s == 1 for s in self.step)


def read_subscript(key: Any, shape: Shape) -> Subscript:
    """Return what a key selects of a tensor of some shape.

    Raises AxisError for too many indices, IndexRangeError for one outside its axis, DTypeError for
    what is no index, ShapeError for a mask or arrays that do not fit.

    >>> read_subscript((0, ..., None), (2, 3)).shape
    (3, 1)
    """
    plain = items_key(key, shape)
    if plain is None:
        return read_anew(key, shape)
    found = _READ.young.get((shape, plain)) or _READ.get((shape, plain))
    if found is None:
        found = read_anew(key, shape)
        _READ.put((shape, plain), found)
    return found


def read_anew(key: Any, shape: Shape) -> Subscript:
    """Return what `read_subscript` does, of a key that nobody looks for again."""
    reader = _Reader(shape)
    for item in _complete(key, len(shape)):
        reader.take(item)
    return reader.subscript()


#: What was read lately, without arrays: to read it takes as long as three ops.
_READ: Final[Recent[Any, Subscript]] = Recent(2048)
#: What the ends and the step of a slice may be.
_ENDS: Final = frozenset({int, type(None)})


def _indices(item: slice, n: int) -> tuple[int, int, int]:
    """Return the start, the size and the step of a slice of so many elements."""
    start, stop, step = item.indices(n)
    return start, len(range(start, stop, step)), step


def _part_of(item: slice, n: int) -> tuple[int, int, int] | None:
    """Return the same of neighbours where a size is not known, by questions that many share.

    None for known ones and another step, and where an end is none of Python's own numbers.
    """
    ends = (item.start, item.stop)
    if not has_symbol((n, *ends)) or item.step not in (None, 1):
        return None
    if not all(type(end) in _ENDS or is_size(end) for end in ends):
        return None
    first, last = (
        otherwise if end is None else _within(end, n)
        for end, otherwise in zip(ends, (0, n), strict=True)
    )
    return (first, last - first, 1) if first < last else (first, 0, 1)


def _within(end: int, n: int) -> int:
    """Return an end of a slice as a place from 0 to n, counted from there if it is negative."""
    if end < 0:
        return n + end if n + end > 0 else 0
    return end if end < n else n


@dataclass(frozen=True, slots=True)
class _Mask:
    """A bool array of the host, or a tensor, among the items of a key."""

    value: Any

    @property
    def ndim(self) -> int:
        return len(self.value.shape)


class _Reader:
    """Takes the items of a key one by one; ``axis`` is the axis of x that the next one is for."""

    def __init__(self, shape: Shape) -> None:
        self.x_shape = shape
        self.axis = 0
        self.slices: list[tuple[int, int, int]] = []
        self.shape: list[int] = []
        self.arrays: list[tuple[int, Index]] = []
        # Where in the key integers and arrays stand, and how many axes come before the first.
        self.advanced: list[int] = []
        self.before_first = 0
        self.count = 0

    def take(self, item: Any) -> None:
        """Read one item."""
        if item is None:
            self.shape.append(1)
        elif isinstance(item, slice):
            self._slice(item)
        elif item is not Ellipsis:
            self._advanced(item)
        self.count += 1

    def subscript(self) -> Subscript:
        """Return the plan, when all items are read."""
        first, last = (self.advanced[0], self.advanced[-1]) if self.advanced else (0, -1)
        side_by_side = last - first + 1 == len(self.advanced)
        start, size, step = zip(*self.slices, strict=True) if self.slices else ((), (), ())
        found = Subscript(
            start, size, step, tuple(self.shape),
            tuple(axis for axis, _ in self.arrays), tuple(array for _, array in self.arrays),
            self.before_first if side_by_side else 0,
        )  # fmt: skip
        _ = found.broadcast_shape  # raises where the arrays do not fit each other
        return found

    def _advanced(self, item: Any) -> None:
        if not self.advanced:
            self.before_first = len(self.shape)
        self.advanced.append(self.count)
        if isinstance(item, _Mask):
            self._mask(item)
        elif isinstance(item, int):
            self._integer(item)
        else:
            self._array(item)

    def _slice(self, item: slice) -> None:
        n = self.x_shape[self.axis]
        try:
            start, size, step = _part_of(item, n) or _indices(item, n)
        except TypeError:
            raise DTypeError(f"indexing requires slices of integers, got {item}") from None
        except ValueError:
            raise ArgumentError(f"indexing requires a step other than 0, got {item}") from None
        self.slices.append((start, size, step) if size else (0, 0, 1))
        self.shape.append(size)
        self.axis += 1

    def _integer(self, index: int) -> None:
        n = self.x_shape[self.axis]
        if not -n <= index < n:
            raise IndexRangeError(
                f"indexing requires {-n} <= index < {n} on axis {self.axis}, got index {index}"
            )
        self.slices.append((index if index >= 0 else index + n, 1, 1))
        self.axis += 1

    def _array(self, array: Index) -> None:
        n = self.x_shape[self.axis]
        if not isinstance(array, TensorBase):
            array = checked_indices("indexing", array, n, self.axis)
        self._whole_axis(array)

    def _whole_axis(self, array: Index) -> None:
        n = self.x_shape[self.axis]
        self.arrays.append((len(self.shape), array))
        self.slices.append((0, n, 1))
        self.shape.append(n)
        self.axis += 1

    def _mask(self, mask: _Mask) -> None:
        covered = self.x_shape[self.axis : self.axis + mask.ndim]
        columns = _columns(mask.value, covered)
        if mask.ndim == 0:
            # A flag selects its one element or none of it: along a new axis of size 1.
            self.arrays.append((len(self.shape), columns[0]))
            self.shape.append(1)
        for column in columns[: mask.ndim]:
            self._whole_axis(column)


def _columns(mask: Any, covered: Shape) -> list[Index]:
    """Return the positions where a mask holds, one array per axis; one for a mask without axes."""
    if isinstance(mask, TensorBase):
        require_mask("indexing", mask, covered)
        positions = positions_of("indexing", mask if mask.ndim else _as_vector(mask))
        return [_column(positions, axis) for axis in range(max(1, mask.ndim))]
    if mask.shape != covered:
        raise ShapeError(
            f"indexing requires a mask of the shape of the axes it covers, got mask {mask.shape} "
            f"for axes of sizes {covered}"
        )
    return list(np.nonzero(np.atleast_1d(mask)))


def _as_vector(mask: Any) -> Any:
    return mask.reshape(1)


def _column(positions: Any, axis: int) -> Any:
    return positions.narrow(1, axis, 1).squeeze(1)


def _complete(key: Any, ndim: int) -> list[Any]:
    """Return the items of a key as slices, ints, None, masks and arrays, for every axis."""
    items = [_item(i) for i in (key if isinstance(key, tuple) else (key,))]
    taken = sum(_axes_taken(i) for i in items)
    if taken > ndim:
        raise AxisError(f"indexing requires at most {ndim} indices, one per axis, got {taken}")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError(f"indexing requires at most one ellipsis, got {len(dots)}")
    rest = [slice(None)] * (ndim - taken)
    if not dots:
        return items + rest
    at = dots[0]
    # The ellipsis stays: it parts what stands beside it even where it is no axis long.
    return items[: at + 1] + rest + items[at + 1 :]


def _axes_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, _Mask) else 1


def _item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, TensorBase):
        return _tensor_item(item)
    if not isinstance(item, bool | list | np.ndarray | np.bool_):
        try:
            return operator.index(item)
        except TypeError:
            raise DTypeError(
                "indexing requires integers, slices, None, ..., or arrays of integers or bools, "
                f"{instead(item)}"
            ) from None
    return _host_item(item)


def _tensor_item(tensor: TensorBase) -> Any:
    if tensor.dtype.is_bool:
        return _Mask(tensor)
    if not tensor.dtype.is_integer:
        raise DTypeError(
            f"indexing requires tensors of integers or bools, got {tensor.dtype.name}; cast it"
        )
    return tensor


def _host_item(item: Any) -> Any:
    try:
        array = np.asarray(item)
    except ValueError:
        raise ShapeError("indexing requires lists of equal lengths, got a ragged list") from None
    if array.dtype.kind == "b":
        return _Mask(array)
    if isinstance(item, list) and array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"indexing requires arrays of integers or bools, got {array.dtype}")
    return array if array.ndim else int(array)
