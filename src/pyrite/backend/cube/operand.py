"""A tensor as a kernel sees it: a binding, strides that are constants, an offset that is not.

Coordinates are values of the kernel or Python ints; places are element indices of a buffer.  How
far apart neighbours lie is said by the layout alone: `Operand.load_along` and `Operand.store_along`
are the only vectors that kernels read and write of tensors, and take whatever stride there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.layout import Strides, is_row_major
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import cached
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import Access, scalar, vector
from pyrite.kernel.machine import Machine
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number, bool_


@dataclass(frozen=True, slots=True)
class Layout:
    """What a kernel is compiled for of a tensor: all but the buffer and the value of its offset.

    ``alignment`` is a number of which the place of every row's first element is a multiple.
    """

    dtype: DType
    strides: Strides = extent()
    has_offset: bool = False
    alignment: int = 1


def layout_of(tensor: CubeTensor, width: int = 1) -> Layout:
    """Return the layout of a tensor, for a kernel whose vectors have so many elements."""
    strides, offset = tensor.strides, tensor.offset
    # Kernels of an application ask at each launch, and have no vectors.
    alignment = 1 if width == 1 else alignment_of(strides, offset, width)
    return Layout(tensor.dtype, strides, offset != 0, alignment)


@cached(4096)
def alignment_of(strides: Strides, offset: int, width: int, axis: int = -1) -> int:
    """Return a width where it divides the offset and all strides but one axis', else 1.

    No kernel gains by half of a vector: that would be one more kernel, and class of sizes.

    >>> alignment_of((16, 8, 1), 0, 8), alignment_of((16, 8, 1), 4, 8)
    (8, 1)
    """
    if width == 1:
        return 1
    others = [stride for n, stride in enumerate(strides) if n != axis % len(strides)]
    return 1 if any(number % width for number in (offset, *others)) else width


def word_of(width: int, machine: Machine) -> int:
    """Return how many elements are read at once if they begin at a multiple of so many.

    Processors read vectors from any place as fast.
    """
    return width if machine.kind == "gpu" else 1


class Operand:
    """A tensor inside a kernel: elements by their coordinates, widened to the compute dtype."""

    def __init__(self, b: KernelBuilder, name: str, layout: Layout, access: Access) -> None:
        self.builder = b
        self.layout = layout
        self.memory: Memory = b.buffer(name, layout.dtype, access)
        index = b.index_type.dtype
        self.offset = b.scalar(f"{name}_offset", index) if layout.has_offset else None
        #: The coordinates in whose space it is dense, and the number of the element there.
        self._dense: tuple[Sequence[Value | int], Value] | None = None

    def meets(self, coordinates: Sequence[Value | int], index: Value, shape: Sequence[int]) -> None:
        """Note that the element at coordinates has that number in row-major order in a shape.

        Where the elements lie so too, the number is the place, and no sum has to be seen through.
        """
        if is_row_major(tuple(shape), self.layout.strides):
            self._dense = (coordinates, index)

    def at(self, coordinates: Sequence[Value | int]) -> Value:
        """Return where an element lies in the buffer, or each of those at a vector of coordinates.

        There is a place for each, also where a stride of 0 makes them the same.
        """
        b = self.builder
        place: Value | int = 0 if self.offset is None else self.offset
        if self._dense is not None and _are_same(coordinates, self._dense[0]):
            return b.index(place + self._dense[1])
        for coordinate, stride in zip(coordinates, self.layout.strides, strict=True):
            if stride == 0 or (isinstance(coordinate, int) and coordinate == 0):
                continue
            place = place + (coordinate if stride == 1 else coordinate * stride)
        width = max((c.width for c in coordinates if not isinstance(c, int)), default=1)
        return self._spread(b.index(place), width)

    def load(self, place: Value, *, mask: Value | None = None) -> Value:
        """Return the element at a place, or those at a vector of places; 0 where masked."""
        return self._widened(self.memory.load(place, mask=mask))

    def load_along(
        self, place: Value, width: int, *, axis: int = -1, step: int = 1,
        mask: Value | None = None, exists: Value | None = None, is_aligned: bool = False,
    ) -> Value:  # fmt: skip
        """Return so many elements along an axis, ``step`` apart, of which the first is at a place.

        They are 0 where the ``mask`` along the axis is false, and all where there are no such
        coordinates on the other axes, that is, ``exists`` is false.  ``is_aligned`` says that the
        coordinate on the axis is a multiple of the width.
        """
        stride = step * self.layout.strides[axis] if width > 1 else 1
        if stride == 0:
            return self._repeated(place, width, mask, exists)
        if exists is not None:
            mask = exists if mask is None else mask & self._spread(exists, mask.width)
        if stride != 1 and mask is None:
            # Places that are a vector would be taken apart again, each into a register of its own.
            # Of a number that is known a processor reads the vectors between which they lie.
            stride = next((near for near in NEAR if stride == near), stride)
            lanes = [self.memory.load(place + i * stride if i else place) for i in range(width)]
            return self._widened(self.builder.make(lanes))
        if stride != 1:
            return self.load(self._places(place, width, stride), mask=mask)
        is_aligned = is_aligned and self.layout.alignment % width == 0
        return self._widened(self.memory.load(place, width=width, mask=mask, is_aligned=is_aligned))

    def _repeated(
        self, place: Value, width: int, mask: Value | None, exists: Value | None
    ) -> Value:
        """Return one element as often as it is wanted; its place is on the axis wherever it is."""
        b = self.builder
        x = b.splat(self.load(place, mask=exists), width)
        if mask is None:
            return x
        return b.select(self._spread(mask, width), x, b.const(0, x.type))

    def _spread(self, x: Value, width: int) -> Value:
        return x if x.width == width else self.builder.splat(x, width)

    def _places(self, first: Value, width: int, stride: int) -> Value:
        """Return places a stride apart."""
        return first if width == 1 else first + iota(self.builder, width) * stride

    def _widened(self, x: Value) -> Value:
        return self.builder.cast(x, x.dtype.compute)

    def __getitem__(self, coordinates: Sequence[Value | int]) -> Value:
        return self.load(self.at(coordinates))

    def prefetch(self, place: Value) -> None:
        """Ask for what lies at a place and will be read soon."""
        self.memory.prefetch(place)

    def store(self, place: Value, value: Value, *, mask: Value | None = None) -> None:
        """Write an element in the tensor's dtype at a place, or several at a vector of places.

        Where several stand at one place, the others are its neighbours on the last axis.
        """
        if place.width < value.width:
            self.store_along(place, value, mask=mask)
        else:
            self.memory.store(place, self._narrowed(value), mask=mask)

    def store_along(
        self, place: Value, value: Value, *, axis: int = -1, mask: Value | None = None,
        is_aligned: bool = False,
    ) -> None:  # fmt: skip
        """Write neighbours on an axis, of which the first is at a place; as `load_along`."""
        width = value.width
        stride = self.layout.strides[axis] if width > 1 else 1
        assert stride, "nothing is written to elements that share a place"
        if stride != 1:
            self.store(self._places(place, width, stride), value, mask=mask)
            return
        is_aligned = is_aligned and self.layout.alignment % width == 0
        self.memory.store(place, self._narrowed(value), mask=mask, is_aligned=is_aligned)

    def _narrowed(self, value: Value) -> Value:
        return self.builder.cast(value, self.layout.dtype)

    def __setitem__(self, coordinates: Sequence[Value | int], value: Value) -> None:
        self.store(self.at(coordinates), value)

    def const(self, value: Number) -> Value:
        """Return a number in the compute dtype."""
        return self.builder.const(value, scalar(self.layout.dtype.compute))


#: Strides that are built into kernels which read along them.
NEAR: Final = (2, 3, 4)


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


def _are_same(x: Sequence[Value | int], y: Sequence[Value | int]) -> bool:
    return len(x) == len(y) and all(a is b for a, b in zip(x, y, strict=True))


def iota(b: KernelBuilder, width: int) -> Value:
    """Return the indices 0, 1, … as a vector."""
    return b.const(range(width), vector(b.index_type.dtype, width))


def halves(b: KernelBuilder, state: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return the first and the second halves of vectors of one width.

    Vectors that are joined by halves take a third of the instructions of their elements one by one.
    """
    width = state[0].width // 2

    def part(x: Value, first: int) -> Value:
        elements = [x[first + i] for i in range(width)]
        return b.make(elements) if width > 1 else elements[0]

    return [part(x, 0) for x in state], [part(x, width) for x in state]


def added(x: Value, y: Value) -> Value:
    """Return x + y; of bools whether either holds, as in NumPy."""
    return x | y if x.dtype is bool_ else x + y


def truth(b: KernelBuilder, x: Value) -> Value:
    """Return whether x is not zero."""
    return x if x.dtype is bool_ else b.alu("ne", x, 0)
