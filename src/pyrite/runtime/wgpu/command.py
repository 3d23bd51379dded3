"""Commands that wait to be submitted, what encodes them, and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyrite.errors import PyriteError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.memory import Buffer, Contents
from pyrite.runtime.wgpu.native import Pointer, ffi, lib
from pyrite.runtime.wgpu.timestamps import Timestamps

_ENCODER = ffi.new("WGPUCommandEncoderDescriptor *")
_PASS = ffi.new("WGPUComputePassDescriptor *")
_COMMANDS = ffi.new("WGPUCommandBufferDescriptor *")


class Result(Protocol):
    """Where a command writes; ``error`` is why that is not to be trusted."""

    error: PyriteError | None


class Command(Protocol):
    """So many things for the device to do, one or more; ``name`` is for messages.

    ``touched`` are what it reads or writes.
    """

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def touched(self) -> Sequence[Contents]: ...
    def written(self) -> Sequence[Result]: ...  # wrong if it does not run
    def encode(self, encoder: Encoder) -> None: ...


class Encoder:
    """A command encoder and its compute pass, if one is open."""

    def __init__(self, device: Device, timestamps: Timestamps | None) -> None:
        self.raw: Pointer = lib.wgpuDeviceCreateCommandEncoder(device.raw, _ENCODER)
        self.pipeline: Any = None
        self.timestamps = timestamps
        self._pass: Any = None

    def compute_pass(self, name: str) -> Pointer:
        """Return the open compute pass, or begin one; where passes are timed, one of that name."""
        if self.timestamps is not None:
            self.end_pass()
            self._pass = self.timestamps.begin_kernel(self.raw, name)
        elif self._pass is None:
            self._pass = lib.wgpuCommandEncoderBeginComputePass(self.raw, _PASS)
        return self._pass

    def end_pass(self) -> None:
        """End the compute pass, if one is open."""
        if self._pass is not None:
            lib.wgpuComputePassEncoderEnd(self._pass)
            lib.wgpuComputePassEncoderRelease(self._pass)
            self._pass = self.pipeline = None

    def finish(self) -> Pointer:
        """Return the command buffer."""
        self.end_pass()
        buffer = lib.wgpuCommandEncoderFinish(self.raw, _COMMANDS)
        lib.wgpuCommandEncoderRelease(self.raw)
        return ffi.gc(buffer, lib.wgpuCommandBufferRelease)


class Staged:
    """A place in a staging buffer, a ``wgpu.GPUBuffer``, which is always good and held here.

    ``error`` is why what was to be read there did not come.
    """

    __slots__ = ("error", "gpu", "offset", "raw")

    def __init__(self, gpu: Any, offset: int) -> None:
        self.gpu = gpu
        self.raw: Pointer = gpu._internal
        self.offset = offset
        self.error: PyriteError | None = None


class StorageRange:
    """A place in a storage."""

    __slots__ = ("contents", "offset", "raw")

    def __init__(self, buffer: Buffer, offset: int = 0) -> None:
        self.contents = buffer.contents
        self.raw: Pointer = buffer.storage.raw
        self.offset = buffer.offset + offset


class Copy:
    """A copy of bytes on the device, of whole words."""

    __slots__ = ("name", "nbytes", "source", "target", "touched")

    count = 1

    def __init__(
        self, name: str, source: Staged | StorageRange, target: Staged | StorageRange, nbytes: int
    ) -> None:
        self.name = name
        self.source, self.target = source, target
        self.nbytes = (nbytes + 3) & ~3
        self.touched = [p.contents for p in (source, target) if isinstance(p, StorageRange)]

    def written(self) -> Sequence[Result]:
        """Return what it writes."""
        return [self.target.contents if isinstance(self.target, StorageRange) else self.target]

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        encoder.end_pass()
        source, target = self.source, self.target
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder.raw, source.raw, source.offset, target.raw, target.offset, self.nbytes
        )
