"""``x[...]`` for reading and ``x.at[...]`` for writing, in NumPy's language.

Both carry out the same `Subscript`: slice, reshape, gather; or back the same way with
updates.  A tensor never changes: ``x.at[i].set(v)`` is a new tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NoReturn, Self, TypeVar

import numpy as np

from pyrite.backend.protocol import Backend
from pyrite.errors import DTypeError, ZeroRankError
from pyrite.op import Attributes, Op, TensorBase, bind, instead, located, public
from pyrite.op.calls import of_subscripts
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.joining import concat
from pyrite.tensor.movement import Movement
from pyrite.tensor.scattering import Reduction, Scattering
from pyrite.tensor.subscript import Index, Subscript, read_anew, read_subscript
from pyrite.types import Number, Shape, TensorType, dtype

T = TypeVar("T", bound="Indexing")


def _calls_of(type: TensorType, subscript: Subscript) -> list[tuple[Op, Attributes]]:
    """Return the calls of views that a subscript without its arrays stands for."""
    calls: list[tuple[Op, Attributes]] = []
    if not subscript.is_whole(type.shape):
        ends = {"start": subscript.start, "size": subscript.size, "step": subscript.step}
        calls.append((Movement._slice.op, ends))  # type: ignore[attr-defined]
    if subscript.shape != subscript.size:
        calls.append((Movement._reshape.op, {"shape": subscript.shape}))  # type: ignore[attr-defined]
    return calls


def _calls_of_key(type: TensorType, key: Any) -> list[tuple[Op, Attributes]]:
    return _calls_of(type, read_anew(key, type.shape))


class Indexing(Scattering, Arithmetic):
    """Reading and writing by subscripts."""

    __slots__ = ()

    _backend: Backend

    @of_subscripts(_calls_of_key)
    def __getitem__(self, key: Any) -> Self:
        """Return what a subscript selects, as NumPy does: ints, slices, None, ..., arrays, masks.

        Bool masks on the device wait for it.  Raises IndexRangeError for an index outside its axis.

        >>> import pyrite
        >>> pyrite.tensor([[1, 2, 3], [4, 5, 6]])[:, ::-2].numpy().tolist()
        [[3, 1], [6, 4]]
        """
        found = read_anew(key, self.shape)
        selected = self._selected(found)
        if not found.arrays:
            return selected
        gathered = selected._arrays_first(found).gather_nd(self._index_vectors(found))
        return gathered._moved(0, found.place, len(found.broadcast_shape))

    def __setitem__(self, key: Any, values: Any) -> NoReturn:
        error = DTypeError(
            "item assignment requires an array that changes, got a tensor, which does not; "
            "make a new one: x = x.at[key].set(values)"
        )
        raise located(error)

    @property
    def at(self) -> At[Self]:
        """Places to write to: ``x.at[1:, 0].add(v)`` is x with v added there."""
        return At(self)

    @public
    def __iter__(self) -> Iterator[Self]:
        if self.ndim == 0:
            raise ZeroRankError("iteration requires at least one axis, got shape ()")
        return iter(self.unstack())

    # ---- the steps of a subscript ----

    def _selected(self, subscript: Subscript) -> Self:
        found: Self = self
        for op, attributes in _calls_of(self._type, subscript):
            found = bind(op, (found,), attributes)
        return found

    def _arrays_first(self, subscript: Subscript) -> Self:
        first = tuple(range(len(subscript.axes)))
        return self if subscript.axes == first else self.moveaxis(subscript.axes, first)

    def _moved(self, source: int, to: int, count: int) -> Self:
        """Return it with ``count`` neighbouring axes moved."""
        if source == to or count == 0:
            return self
        return self.moveaxis(range(source, source + count), range(to, to + count))

    def _index_vectors(self, subscript: Subscript) -> Self:
        """Return the index arrays as one tensor, a vector of indices for each element."""
        shape = subscript.broadcast_shape
        if not any(isinstance(a, TensorBase) for a in subscript.arrays):
            arrays = [np.asarray(a) for a in subscript.arrays]
            if len(arrays) == 1:
                return self._uploaded(arrays[0].reshape((*shape, 1)))
            return self._uploaded(np.stack([np.broadcast_to(a, shape) for a in arrays], -1))
        tensors = [self._as_tensor(a) for a in subscript.arrays]
        columns: list[Self] = [_stretched(t, shape).expand_dims(-1) for t in tensors]
        # One tensor would be copied, which takes longer than to read or write by it.
        return columns[0] if len(columns) == 1 else concat(columns, -1)

    def _as_tensor(self, index: Index) -> Self:
        return index if isinstance(index, Indexing) else self._uploaded(np.asarray(index))  # type: ignore[return-value]

    def _uploaded(self, indices: np.ndarray[Any, Any]) -> Self:
        narrow = np.int32 if max(self.shape, default=0) < 2**31 else np.int64
        array = indices.astype(narrow)
        handle = self._backend.upload(array)
        return self._wrap(handle, TensorType(array.shape, dtype(narrow)), self._backend)

    def _written(self, subscript: Subscript, values: Self | Number, reduction: Reduction) -> Self:
        """Return x with values at what a subscript selects."""
        selected = self._selected(subscript)
        if subscript.arrays:
            updated = selected._scattered(
                subscript, self._index_vectors(subscript), values, reduction
            )
        elif reduction == "assign":
            return self._with_slice(subscript, _fitted(values, selected.shape))
        else:
            updated = _COMBINE[reduction](selected, _fitted(values, selected.shape))
        is_whole = subscript.shape == subscript.size and subscript.is_whole(self.shape)
        return updated if is_whole else self._with_slice(subscript, updated)

    def _with_slice(self, subscript: Subscript, values: Self | Number) -> Self:
        region = values if isinstance(values, Number) else values.reshape(subscript.size)
        return self._slice_update(
            region, shape=self.shape, start=subscript.start, size=subscript.size,
            step=subscript.step,
        )  # fmt: skip

    def _scattered(
        self, subscript: Subscript, indices: Self, values: Self | Number, reduction: Reduction
    ) -> Self:
        front = self._arrays_first(subscript)
        rank = len(subscript.broadcast_shape)
        if not isinstance(values, Number):
            rest = front.shape[len(subscript.axes) :]
            result = rest[: subscript.place] + subscript.broadcast_shape + rest[subscript.place :]
            values = _stretched(values, result)._moved(subscript.place, 0, rank)
        written = front.scatter_nd(indices, values, reduction=reduction)
        first = tuple(range(len(subscript.axes)))
        return written if subscript.axes == first else written.moveaxis(first, subscript.axes)


def _stretched(x: Any, shape: Shape) -> Any:
    """Return a tensor in a shape, itself if it is its own: a view is an op that costs its call."""
    return x if x.shape == shape else x.broadcast_to(shape)


def _fitted(values: Any, shape: Shape) -> Any:
    return values if isinstance(values, Number) else _stretched(values, shape)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": Indexing.add,
    "mul": Indexing.multiply,
    "min": Indexing.minimum,
    "max": Indexing.maximum,
}


class At(Generic[T]):
    """``x.at``: takes a subscript."""

    __slots__ = ("_x",)

    def __init__(self, x: T) -> None:
        self._x = x

    @public
    def __getitem__(self, key: Any) -> IndexUpdate[T]:
        return IndexUpdate(self._x, read_subscript(key, self._x.shape))


class IndexUpdate(Generic[T]):
    """``x.at[key]``: what x becomes when values are written there.

    Values broadcast to ``x[key]``.  Where a place is selected more than once, all values count; for
    ``set`` the last in row-major order wins.  Gradients flow to x and to the values.
    """

    __slots__ = ("_subscript", "_x")

    def __init__(self, x: T, subscript: Subscript) -> None:
        self._x = x
        self._subscript = subscript

    @public
    def set(self, values: T | Number, /) -> T:
        """Return x with the values there.

        >>> import pyrite
        >>> pyrite.zeros((3,)).at[1:].set(5).numpy().tolist()
        [0.0, 5.0, 5.0]
        """
        return self._write(values, "assign")

    @public
    def add(self, values: T | Number, /) -> T:
        """Return x with the values added there.

        >>> import pyrite
        >>> pyrite.zeros((3,)).at[[0, 0, 2]].add(1).numpy().tolist()
        [2.0, 0.0, 1.0]
        """
        return self._write(values, "add")

    @public
    def multiply(self, values: T | Number, /) -> T:
        """Return x with what is there multiplied by the values."""
        return self._write(values, "mul")

    mul = multiply

    @public
    def min(self, values: T | Number, /) -> T:
        """Return x with the lesser of the values and what is there."""
        return self._write(values, "min")

    @public
    def max(self, values: T | Number, /) -> T:
        """Return x with the greater of the values and what is there."""
        return self._write(values, "max")

    def _write(self, values: T | Number, reduction: Reduction) -> T:
        if isinstance(values, np.generic):
            values = values.item()
        if not isinstance(values, Number | Indexing):
            raise DTypeError(f"x.at[...] requires a tensor or number to write, {instead(values)}")
        return self._x._written(self._subscript, values, reduction)
