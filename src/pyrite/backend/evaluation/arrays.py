"""What evaluators ask of NumPy or PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyrite.types import DType


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

    def concat(self, arrays: Sequence[Any], axis: int) -> Any:
        """Return arrays joined along an axis."""
        ...

    def full(self, shape: Sequence[int], value: Any, dtype: DType, like: Any) -> Any:
        """Return an array of one value, on the device of ``like``."""
        ...

    def arange(self, stop: int, dtype: DType, like: Any) -> Any:
        """Return 0, 1, ... below stop, on the device of ``like``."""
        ...
