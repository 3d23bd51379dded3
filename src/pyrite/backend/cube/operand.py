"""A tensor as a kernel sees it: a binding, strides that are constants, an offset that is not.

Coordinates are values of the kernel or Python ints; places are element indices of a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.layout import Strides
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Access, scalar, vector
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, bool_


@dataclass(frozen=True, slots=True)
class Layout:
    """What a kernel is compiled for of a tensor: all but the buffer and the value of its offset."""

    dtype: DType
    strides: Strides
    has_offset: bool = False


def layout_of(tensor: CubeTensor) -> Layout:
    """Return the layout of a tensor."""
    return Layout(tensor.dtype, tensor.strides, tensor.offset != 0)


class Operand:
    """A tensor inside a kernel: elements by their coordinates, widened to the compute dtype."""

    def __init__(self, b: KernelBuilder, name: str, layout: Layout, access: Access) -> None:
        self.builder = b
        self.layout = layout
        self.memory: Memory = b.buffer(name, layout.dtype, access)
        index = b.index_type.dtype
        self.offset = b.scalar(f"{name}_offset", index) if layout.has_offset else None

    def at(self, coordinates: Sequence[Value | int]) -> Value:
        """Return where an element lies in the buffer."""
        b = self.builder
        place: Value | int = 0 if self.offset is None else self.offset
        for coordinate, stride in zip(coordinates, self.layout.strides, strict=True):
            if stride == 0 or (isinstance(coordinate, int) and coordinate == 0):
                continue
            place = place + (coordinate if stride == 1 else coordinate * stride)
        return b.index(place)

    def load(
        self, place: Value, *, width: int = 1, mask: Value | None = None, is_aligned: bool = False
    ) -> Value:
        """Return the elements from a place on, or at a vector of places; 0 where masked."""
        x = self.memory.load(place, width=width, mask=mask, is_aligned=is_aligned)
        return self.builder.cast(x, x.dtype.compute)

    def __getitem__(self, coordinates: Sequence[Value | int]) -> Value:
        return self.load(self.at(coordinates))

    def prefetch(self, place: Value) -> None:
        """Ask for what lies at a place and will be read soon."""
        self.memory.prefetch(place)

    def store(
        self, place: Value, value: Value, *, mask: Value | None = None, is_aligned: bool = False
    ) -> None:
        """Write elements in the tensor's dtype from a place on, or at a vector of places."""
        narrow = self.builder.cast(value, self.layout.dtype)
        self.memory.store(place, narrow, mask=mask, is_aligned=is_aligned)

    def __setitem__(self, coordinates: Sequence[Value | int], value: Value) -> None:
        self.store(self.at(coordinates), value)

    def const(self, value: Number) -> Value:
        """Return a number in the compute dtype."""
        return self.builder.const(value, scalar(self.layout.dtype.compute))


def bindings_of(tensor: CubeTensor) -> list[Buffer | Number]:
    """Return what binds an `Operand`: the buffer, and the offset unless it is 0."""
    return [tensor.buffer, tensor.offset] if tensor.offset else [tensor.buffer]


def workgroup_of(b: KernelBuilder) -> Value:
    """Return which workgroup this is, counted along all axes of the grid."""
    if b.grid == 1:
        return b.workgroup_id(0)
    return b.workgroup_id(1) * b.num_workgroups(0) + b.workgroup_id(0)


def invocation_of(b: KernelBuilder) -> Value:
    """Return which invocation this is, counted along all axes of the grid."""
    size = b.workgroup_size[0]
    return workgroup_of(b) if size == 1 else workgroup_of(b) * size + b.local_id(0)


def unravel(b: KernelBuilder, index: Value, shape: Sequence[int]) -> list[Value | int]:
    """Return the coordinates of the element with that number in row-major order."""
    coordinates: list[Value | int] = []
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            coordinates.append(0)
        elif all(size == 1 for size in shape[:axis]):
            coordinates.append(index)
        else:
            coordinates.append(index % shape[axis])
            index = index // shape[axis]
    return list(reversed(coordinates))


def iota(b: KernelBuilder, width: int) -> Value:
    """Return the indices 0, 1, … as a vector."""
    return b.const(range(width), vector(b.index_type.dtype, width))


def added(x: Value, y: Value) -> Value:
    """Return x + y; of bools whether either holds, as in NumPy."""
    return x | y if x.dtype is bool_ else x + y


def truth(b: KernelBuilder, x: Value) -> Value:
    """Return whether x is not zero."""
    return x if x.dtype is bool_ else b.alu("ne", x, 0)
