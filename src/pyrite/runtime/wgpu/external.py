"""Buffers that an application has in hand: what they must be when they come, and at each use.

Its own stay its own, and it may map or destroy one at any time; it may destroy one of Pyrite's too
that it was shown.  wgpu-native aborts the process where a submission uses such a one, so each is
looked at before.
"""

from __future__ import annotations

from typing import Any

import wgpu

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.application_queue import queue_of
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.memory import ALIGNMENT, Buffer, Lease, Storage
from pyrite.runtime.wgpu.native import NativeError
from pyrite.runtime.wgpu.shader import Layouts
from pyrite.runtime.wgpu.texture import is_destroyed

_FLAGS = ("STORAGE", "COPY_SRC", "COPY_DST")


def external_buffer(life: Life, gpu: Any, offset: int, nbytes: int | None) -> Buffer:
    """Return a ``wgpu.GPUBuffer`` of the application, or a part of it, as a buffer.

    Raises DeviceError if it belongs to another device, lacks a usage flag, or is not cut at whole
    vectors.
    """
    name = life.name
    if not isinstance(gpu, wgpu.GPUBuffer) or gpu._device is not life.device.gpu:
        raise DeviceError(
            f"from_buffer requires a wgpu.GPUBuffer of the device of {name}, got "
            f"{type(gpu).__name__}; make {name} by init_device(your device)"
        )
    missing = [flag for flag in _FLAGS if not gpu.usage & getattr(wgpu.BufferUsage, flag)]
    if missing:
        raise DeviceError(
            f"from_buffer requires the usage flags {' | '.join(_FLAGS)}, got a buffer "
            f"without {' | '.join(missing)}; add them in create_buffer(usage=...)"
        )
    size = gpu.size - offset if nbytes is None else nbytes
    # Kernels may read whole vectors: see binding.bound_size.
    if offset % ALIGNMENT or offset + size > gpu.size or gpu.size % 16:
        raise DeviceError(
            f"from_buffer requires an offset that is a multiple of {ALIGNMENT} inside a buffer "
            f"of whole vectors of 16 bytes, got {size} bytes at {offset} of {gpu.size}; take what "
            f"begins at {offset // ALIGNMENT * ALIGNMENT} and slice the tensor"
        )
    queue_of(gpu._device).watch(gpu)
    return Buffer(Lease(Storage(gpu, gpu.size, is_external=True), gpu.size), offset, size)


def renewed(buffer: Buffer) -> Buffer:
    """Return the same part of the same storage, with contents of its own."""
    lease = Lease(buffer.storage, buffer.lease.nbytes)
    return Buffer(lease, buffer.offset, buffer.nbytes)


def why_unusable(storage: Storage, layouts: Layouts) -> str | None:
    """Return why a submission must not use a lent storage now, or None if it may."""
    if isinstance(storage.gpu, wgpu.GPUTexture):
        return "was destroyed" if is_destroyed(storage.gpu) else None
    if storage.gpu.map_state != "unmapped":
        return "is mapped; unmap it before Pyrite uses it"
    probe = (storage.raw, 0, min(storage.capacity, ALIGNMENT))
    try:
        layout = layouts.get((True,), immediate_size=0, uniform_size=0)
        layout.create_group(layouts.device, [probe])
    except NativeError as error:
        if error.is_loss:
            return "belongs to a device that was lost"
        return "was destroyed; keep it for as long as tensors in it are used"
    return None


def unusable(name: str, storage: Storage, why: str) -> DeviceError:
    """Return the error of a command of that name on a storage that it cannot use."""
    label = f" '{storage.gpu.label}'" if storage.gpu.label else ""
    if isinstance(storage.gpu, wgpu.GPUTexture):
        return DeviceError(
            f"{name} requires a texture that it can use, got a wgpu.GPUTexture{label} that {why}"
        )
    return DeviceError(
        f"{name} requires buffers that it can use, got a wgpu.GPUBuffer{label} of "
        f"{storage.capacity} bytes that {why}"
    )
