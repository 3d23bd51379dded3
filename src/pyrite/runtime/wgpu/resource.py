"""The device's own buffer under a tensor, for an application that knows WebGPU.

    resource = runtime.get_resource(buffer).resource()
    resource.buffer()  # the wgpu.GPUBuffer
    resource.offset, resource.size  # where in it, in bytes

Whoever holds either object holds the memory: it is not given to another tensor meanwhile.
"""

from __future__ import annotations

from typing import Any

from pyrite.runtime.wgpu.memory import Buffer


class BufferResource:
    """A ``wgpu.GPUBuffer`` and the part of it that is meant."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def buffer(self) -> Any:
        """The ``wgpu.GPUBuffer``.  Read it on the device's own queue, and do not destroy it."""
        return self._buffer.storage.gpu

    @property
    def offset(self) -> int:
        """Where the part begins, in bytes."""
        return self._buffer.offset

    @property
    def size(self) -> int:
        """How long it is, in bytes."""
        return self._buffer.nbytes


class BindingResource:
    """A lease on a binding's memory; `resource` is what an application binds."""

    def __init__(self, buffer: Buffer) -> None:
        self._resource = BufferResource(buffer)

    def resource(self) -> BufferResource:
        """The buffer and the part of it that is meant."""
        return self._resource
