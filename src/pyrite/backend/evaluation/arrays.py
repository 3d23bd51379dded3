"""What evaluators ask of NumPy or PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyrite.op.index import IndexMap
from pyrite.types import Array, DType, TensorType


class Arrays(Protocol):
    """The functions that rules are evaluated with, by the names of the array API standard."""

    @property
    def algebra(self) -> Any:
        """The intrinsics of `pyrite.algebra`, on arrays."""
        ...

    def permute_dims(self, x: Any, axes: Sequence[int]) -> Any:
        """Return x with its axes in another order."""
        ...

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return the elements in row-major order in another shape."""
        ...

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        """Return x stretched to a shape."""
        ...

    def slice(self, x: Any, axis: int, start: int, stop: int) -> Any:
        """Return the elements start <= i < stop along an axis."""
        ...

    def flip(self, x: Any, axis: int) -> Any:
        """Return x with its elements along an axis in reverse."""
        ...

    def concat(self, arrays: Sequence[Any], axis: int) -> Any:
        """Return arrays joined along an axis."""
        ...

    def full(self, shape: Sequence[int], value: Any, dtype: DType, like: Any) -> Any:
        """Return an array of one value, on the device of ``like``."""
        ...

    def arange(self, stop: int, dtype: DType, like: Any) -> Any:
        """Return 0, 1, ... below stop, on the device of ``like``."""
        ...

    # ---- reads and writes by place ----

    def type_of(self, x: Any) -> TensorType:
        """Return the shape, and the dtype in which it is computed."""
        ...

    def as_index(self, x: Any) -> Any:
        """Return integers as int64, the greatest of those that are beyond."""
        ...

    def take(self, x: Any, places: Any) -> Any:
        """Return the elements of a one-dimensional array at places of any shape."""
        ...

    def put(self, x: Any, places: Any, values: Any) -> Any:
        """Return a one-dimensional array with values at places, of which no two are equal."""
        ...

    def compress(self, x: Any, mask: Any) -> Any:
        """Return the elements of a one-dimensional array where a mask holds."""
        ...

    def argsort(self, x: Any) -> Any:
        """Return the places that sort a one-dimensional array; equal ones keep their order."""
        ...

    def cumulative_sum(self, x: Any) -> Any:
        """Return the sums of the elements of a one-dimensional array up to each."""
        ...

    def zeros_like(self, x: Any, shape: Sequence[int]) -> Any:
        """Return zeros of another shape in the dtype of an array."""
        ...

    def fail(self, failed: Any, message: str) -> None:
        """Raise IndexRangeError where one of the bools holds: at once, or at the next read."""
        ...

    # ---- sums of products ----

    def einsum(self, equation: str, *operands: Any) -> Any:
        """Return the sum of products that an equation of letters says, in their dtype."""
        ...

    def is_any(self, mask: Any) -> bool:
        """Return whether one of the bools holds."""
        ...

    # ---- maps of indices ----

    def asarray(self, values: Array, like: Any) -> Any:
        """Return NumPy's indices or bools as an array on the device of ``like``."""
        ...

    def strided(self, x: Any, index: IndexMap) -> Any | None:
        """Return what a map without bounds reads as a view, or None where that takes a copy."""
        ...
