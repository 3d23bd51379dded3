"""The device's own buffer under a tensor, for an application that knows WebGPU."""

from __future__ import annotations

from typing import Any

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.memory import Buffer


class BufferResource:
    """A ``wgpu.GPUBuffer`` and the part of it that is meant; holding it holds the memory."""

    def __init__(self, buffer: Buffer, start: int = 0, size: int | None = None) -> None:
        self._buffer = buffer
        self._start = start
        self._size = buffer.nbytes - start if size is None else size

    def buffer(self) -> Any:
        """The ``wgpu.GPUBuffer``.  Use it on the device's own queue, and do not destroy it."""
        storage = self._buffer.storage
        storage.lend()
        return storage.gpu

    def binding(self) -> dict[str, Any]:
        """Return it as a resource of ``create_bind_group``, for a storage or uniform buffer.

        Raises DeviceError for a slice that begins where the device binds nothing.
        """
        gpu = self.buffer()
        limits = gpu._device.limits
        least = max(
            limits[f"min-{kind}-buffer-offset-alignment"] for kind in ("storage", "uniform")
        )
        if self.offset % least:
            raise DeviceError(
                f"binding requires an offset that is a multiple of {least} bytes, got "
                f"{self.offset}; take buffer_of(x, alignment={least}), which copies such a slice"
            )
        return {"buffer": gpu, "offset": self.offset, "size": self.size}

    def memory(self) -> Buffer:
        """Return the runtime's buffer that has the part, from its beginning."""
        return Buffer(self._buffer.lease, self.offset, self.size)

    @property
    def offset(self) -> int:
        """Where the part begins, in bytes."""
        return self._buffer.offset + self._start

    @property
    def size(self) -> int:
        """How long it is, in bytes."""
        return self._size

    def __repr__(self) -> str:
        return f"BufferResource({self.size} bytes at {self.offset} of {self.buffer()!r})"
