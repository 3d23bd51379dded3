"""The coordinates that scalar rules read, as arrays."""

from __future__ import annotations

from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.op import Op
from pyrite.types import Shape, element_count, int32, int64


class ArrayCoordinates:
    """The coordinates of all elements of a shape, on the device of ``like``."""

    def __init__(self, arrays: Arrays, shape: Shape, like: Any) -> None:
        self.shape = shape
        self._arrays, self._like = arrays, like

    def __getitem__(self, axis: int) -> Any:
        """Return the coordinates on an axis, of the shape's rank."""
        sizes = [1] * len(self.shape)
        sizes[axis] = self.shape[axis]
        return self._arrays.reshape(self._counted(self.shape[axis]), sizes)

    @property
    def index(self) -> Any:
        """The numbers of the elements in row-major order."""
        return self._arrays.reshape(self._counted(element_count(self.shape)), self.shape)

    def _counted(self, size: int) -> Any:
        return self._arrays.arange(size, int32 if size <= int32.highest else int64, self._like)


def coordinates_for(op: Op, arrays: Arrays, shape: Shape, like: Any) -> dict[str, Any]:
    """Return what an op's scalar rule reads of where its output elements lie, by keyword."""
    at = ArrayCoordinates(arrays, shape, like)
    return {name: at.index if name == "index" else at for name in op.coordinates}
