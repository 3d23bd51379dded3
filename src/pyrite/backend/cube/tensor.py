"""Handles of `CubeBackend`: a buffer, and where the elements lie in it.

Views share the buffer and make no kernel.  Nothing writes to a buffer after the op that made it,
so a tensor is a value, and its memory is given back when no tensor holds the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyrite.backend.cube.fault import AnyDoubt
from pyrite.backend.cube.layout import (
    Strides,
    broadcast_strides,
    is_row_major,
    layout_key,
    reshaped_strides,
    row_major,
)
from pyrite.columns import Column
from pyrite.runtime.protocol import Buffer, Runtime
from pyrite.types import DType, Shape, TensorType


@dataclass(slots=True, eq=False, weakref_slot=True)
class CubeTensor:
    """A buffer seen as a tensor.  ``offset`` and ``strides`` count elements.

    ``doubt`` is the launch whose failure would make it wrong, None where no index could be outside.
    Nobody assigns to its fields; frozen, it would take twice as long to make.
    """

    buffer: Buffer
    type: TensorType
    strides: Strides
    offset: int = 0
    doubt: AnyDoubt | None = None
    #: The key of strides and offset, by `layout_of`, once somebody asked.
    layout: int = field(default=0, init=False, repr=False)
    #: The submission after which its values are there, once somebody asked; else not set.
    awaited: int = field(init=False, repr=False)

    def layout_of(self) -> int:
        """Return a number for its strides and offset: equal numbers mean equal layouts."""
        found = self.layout = layout_key(self.strides, self.offset)
        return found

    @classmethod
    def dense(cls, buffer: Buffer, type: TensorType) -> CubeTensor:
        """Return the tensor whose elements fill the buffer in row-major order."""
        return cls(buffer, type, row_major(type.shape))

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps, from the offset on."""
        return is_row_major(self.shape, self.strides)

    # ---- views ----

    def _view(self, shape: Shape, strides: Strides, offset: int | None = None) -> CubeTensor:
        start = self.offset if offset is None else offset
        type = TensorType(shape, self.dtype)
        return CubeTensor(self.buffer, type, strides, start, self.doubt)

    def reshaped(self, shape: Shape) -> CubeTensor | None:
        """Return it as another shape, or None where the strides do not allow that."""
        strides = reshaped_strides(self.shape, self.strides, shape)
        return None if strides is None else self._view(shape, strides)

    def strided(self, shape: Shape, strides: Strides, offset: int | None = None) -> CubeTensor:
        """Return elements of it that lie so far apart, from its own first one or an offset on."""
        return self._view(shape, strides, offset)

    def permuted(self, axes: tuple[int, ...]) -> CubeTensor:
        """Return it with its axes in another order."""
        shape, strides = self.shape, self.strides
        return self._view(tuple(shape[a] for a in axes), tuple(strides[a] for a in axes))

    def broadcast_to(self, shape: Shape) -> CubeTensor:
        """Return it stretched to a shape."""
        return self._view(shape, broadcast_strides(self.shape, self.strides, shape))

    def sliced(self, start: Shape, size: Shape, step: tuple[int, ...]) -> CubeTensor:
        """Return the elements start + i * step of each axis, 0 <= i < size."""
        first = sum(i * stride for i, stride in zip(start, self.strides, strict=True))
        strides = tuple(n * stride for n, stride in zip(step, self.strides, strict=True))
        offset = self.offset if 0 in size else self.offset + first
        return self._view(size, strides, offset)

    def windowed(self, axis: int, size: int, step: int) -> CubeTensor:
        """Return the windows along an axis, in a new last axis."""
        count = (self.shape[axis] - size) // step + 1
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :], size)
        stride = self.strides[axis]
        strides = (*self.strides[:axis], stride * step, *self.strides[axis + 1 :], stride)
        return self._view(shape, strides)


#: What many tensors hold.
BUFFERS: Final = Column(CubeTensor, "buffer")
DOUBTS: Final = Column(CubeTensor, "doubt")
_LAYOUTS: Final = Column(CubeTensor, "layout")


def layouts_of(tensors: Sequence[CubeTensor]) -> tuple[int, ...]:
    """Return the keys of the tensors' layouts."""
    found = tuple(_LAYOUTS.read(tensors))
    return found if 0 not in found else tuple([x.layout or x.layout_of() for x in tensors])


def without_memory(x: Any) -> Any:
    """Return a tensor of the same type and layout, for what may outlive a call; others as such."""
    if not isinstance(x, CubeTensor):
        return x
    return CubeTensor(None, x.type, x.strides, x.offset)  # type: ignore[arg-type]


def unstored(type: TensorType) -> CubeTensor:
    """Return a dense tensor without memory, for who asks where its elements would lie."""
    return CubeTensor.dense(None, type)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class MemoryHandle:
    """The memory of a tensor; holding it keeps the memory."""

    buffer: Buffer

    def binding(self) -> Buffer:
        """Return the runtime's buffer: what a kernel, or ``client.get_resource``, is given."""
        return self.buffer


@dataclass(frozen=True, slots=True)
class CubePrimitive:
    """What ``Tensor.primitive()`` gives: the memory itself, and how the elements lie in it.

    ``offset`` and ``strides`` count elements, from the beginning of the handle's binding.
    ``client`` is the runtime that owns the memory.
    """

    client: Runtime
    handle: MemoryHandle
    dtype: DType
    shape: Shape
    strides: Strides
    offset: int

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps, from the offset on."""
        return is_row_major(self.shape, self.strides)
