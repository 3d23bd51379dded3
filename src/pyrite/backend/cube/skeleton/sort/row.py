"""The rows that are sorted, as kernels see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.operand import Layout, Operand, unravel
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.extent import EXTENT
from pyrite.types import DType, Shape, element_count


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows along an axis: their shape merged to few axes, their size, and where elements lie."""

    shape: Shape = field(metadata=EXTENT)
    size: int = field(metadata=EXTENT)
    layout: Layout

    @property
    def count(self) -> int:
        """The number of rows."""
        return element_count(self.shape)

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.layout.dtype


def room_of(size: int, most: int) -> int:
    """Return for how many elements memory is made that holds a row: few rooms serve all sizes.

    >>> [room_of(size, 3000) for size in (3, 64, 65, 2000)]
    [256, 256, 256, 3000]
    """
    room = 256
    while room < size:
        room *= 4
    return min(room, most)


def rows_of(x: CubeTensor) -> Rows:
    """Return the rows of a tensor along its last axis."""
    ((shape, strides),) = merged(x.shape[:-1], [x.strides[:-1]])
    layout = Layout(x.dtype, (*strides, x.strides[-1]), x.offset != 0)
    return Rows(shape, x.shape[-1], layout)


class KeySource:
    """Rows inside a kernel: the key of an element by its row and position."""

    def __init__(self, b: KernelBuilder, rows: Rows, key: Key) -> None:
        self.builder, self.rows, self.key = b, rows, key
        self.operand = Operand(b, "x", rows.layout, "read")

    def row(self, number: Value) -> Sequence[Value | int]:
        """Return the coordinates of a row."""
        return unravel(self.builder, number, self.rows.shape)

    def load(
        self, row: Sequence[Value | int], i: Value, *, width: int = 1, mask: Value | None = None
    ) -> Value:
        """Return the keys of elements of a row from i on; where masked the highest."""
        b = self.builder
        place = self.operand.at([*row, i])
        key = self.key.of(b, self.operand.load_along(place, width, mask=mask))
        return key if mask is None else b.select(mask, key, self.key.highest)
