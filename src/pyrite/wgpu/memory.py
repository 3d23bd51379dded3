"""Tensors from an application's buffers, and the buffers under tensors; nothing is copied."""

from __future__ import annotations

from typing import Any

import wgpu

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.tensor import CubePrimitive, CubeTensor
from pyrite.backend.cube.values import require_dtype
from pyrite.backend.device import Device, DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from pyrite.op import instead, public
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.resource import BufferResource
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike, Shape, TensorType, normalize_shape
from pyrite.types import dtype as as_dtype
from pyrite.wgpu.device import device_of


@public
def from_buffer(
    buffer: Any, shape: Shape, dtype: DTypeLike, *, offset: int = 0, device: DeviceLike = None
) -> Tensor:
    """Return the elements that lie in a ``wgpu.GPUBuffer`` from ``offset`` bytes on, as a tensor.

    The memory stays the application's: Pyrite reads it, writes it only by ``op(x, out=...)``, and
    never gives it away.  Ops that were called before the application submits a write see the values
    from before it, also when they run later; after it, call `Tensor.invalidate`.  ``device`` is
    needed for a buffer of a device that Pyrite opened itself.

    Raises DeviceError if the buffer belongs to another device, is too small, or lacks one of the
    usage flags STORAGE, COPY_SRC and COPY_DST; ShapeError and ArgumentError for a shape or an
    offset below 0.
    """
    type = TensorType(normalize_shape("from_buffer", shape), as_dtype(dtype))
    where = as_device(device) if device is not None else _known_device(buffer)
    runtime: Any = runtime_of(where, "from_buffer")
    require_dtype(runtime, "from_buffer", type.dtype)
    if not isinstance(offset, int) or offset < 0:
        raise ArgumentError(f"from_buffer requires an offset of 0 bytes or more, got {offset!r}")
    room = getattr(buffer, "size", 0) - offset
    if isinstance(buffer, wgpu.GPUBuffer) and type.nbytes > room:
        raise DeviceError(
            f"from_buffer requires {type.nbytes} bytes for {type}, got {room} from offset {offset} "
            f"of a buffer of {buffer.size}"
        )
    memory: Any = runtime.from_buffer(buffer, offset, type.nbytes)
    return Tensor(where.backend.adopt(CubeTensor.dense(memory, type)), type, where.backend)


@public
def buffer_of(x: Tensor, *, alignment: int = 1) -> BufferResource:
    """Return the part of a ``wgpu.GPUBuffer`` where a tensor's elements lie in row-major order.

    All that was asked for is submitted before, so what the application submits next to the same
    queue sees the values.  Who holds the result holds the memory; it must not be written to.  On
    the device of an application it may be bound as a storage, uniform, vertex, index and indirect
    buffer.

    ``alignment`` is in bytes: a slice that does not begin at a multiple of it is copied, on the
    device, and the copy is the result's: hold it until what uses it was submitted.  WebGPU asks 256
    of storage and uniform buffers, 4 of the others.

    Raises DeviceError if the tensor is on another device, ShapeError if it is a strided view,
    ArgumentError for an alignment that is no power of two up to 256.
    """
    if alignment not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        raise ArgumentError(
            f"buffer_of requires an alignment of a power of two up to 256, got {alignment!r}"
        )
    if not isinstance(x, Tensor):
        raise DTypeError(f"buffer_of requires a tensor of a wgpu device, {instead(x)}")
    runtime_of(x.device, "buffer_of")
    found: CubePrimitive = x.primitive()
    if not found.is_contiguous:
        raise ShapeError(
            f"buffer_of requires elements in row-major order, got strides {found.strides} of shape "
            f"{found.shape}; take the buffer of the tensor that it is a view of"
        )
    memory: Any = found.handle.binding()
    start = found.offset * found.dtype.itemsize
    if (memory.offset + start) % alignment:
        root: Any = x.device.backend.root
        part = CubeTensor(memory, TensorType(found.shape, found.dtype), found.strides, found.offset)
        memory, start = dense(root.launcher, part, part.type).buffer, 0
        root.runtime.flush()
    return BufferResource(memory, start, x.size * found.dtype.itemsize)


def _known_device(buffer: Any) -> Device:
    if not isinstance(buffer, wgpu.GPUBuffer):
        raise DeviceError(f"from_buffer requires a wgpu.GPUBuffer, got {type(buffer).__name__}")
    found = device_of(buffer._device)
    if found is None:
        raise DeviceError(
            "from_buffer requires a buffer of a device that Pyrite knows, got one of another; call "
            "init_device(your device) first and keep what it returns, or say device='wgpu'"
        )
    return found


def runtime_of(where: Device, asked: str) -> WgpuRuntime:
    """Return the runtime of a wgpu device.  Raises DeviceError for another device."""
    root = where.backend.root
    runtime: Any = root.runtime if isinstance(root, CubeBackend) else None
    if not isinstance(runtime, WgpuRuntime):
        raise DeviceError(
            f"{asked} requires a tensor of a wgpu device, got {root.name}; move it: x.to('wgpu')"
        )
    return runtime
