"""The values of a backend on a runtime: how they come to a device, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyrite.backend.cube.inventory import memory_of, note_origin
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.read import Read
from pyrite.backend.cube.tensor import CubePrimitive, CubeTensor, MemoryHandle
from pyrite.backend.explanation import listeners
from pyrite.backend.memory import LARGE, DeviceMemory
from pyrite.backend.protocol import Backend
from pyrite.errors import DeviceError, DTypeError
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, DType, TensorType, array_type, dtype

#: Kernels count elements in int32, and the last workgroup may count beyond the end.
MOST_ELEMENTS = 2**31 - 2**20


class CubeValues(Backend):
    """What of `CubeBackend` moves and awaits values.  Nothing waits but who wants some."""

    runtime: Runtime
    launcher: Launcher

    def memory(self) -> DeviceMemory:
        """Return how much memory is in use, and by which tensors."""
        return memory_of(self.runtime)

    def upload(self, array: Array) -> CubeTensor:
        """Return a dense tensor with a copy of the array."""
        type = array_type(array.shape, dtype(array.dtype))
        require_dtype(self.runtime, "a tensor", type.dtype)
        require_indexable("upload", type)
        made = CubeTensor.dense(self.runtime.upload(array), type)
        if type.nbytes >= LARGE or listeners:
            note_origin(made.buffer, type)
        return made

    def adopt(self, array: Any) -> CubeTensor | None:
        """Return a `CubeTensor` of this runtime's memory as it is, or one of an array's memory."""
        if isinstance(array, CubeTensor):
            return array
        type = TensorType(array.shape, dtype(array.dtype))
        if not type.size:
            return self.upload(array)
        first, end = np.lib.array_utils.byte_bounds(array)
        buffer = None if end - first > MOST_ELEMENTS * array.itemsize else self.runtime.adopt(array)
        if buffer is None:
            return None
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return CubeTensor(buffer, type, strides, (array.ctypes.data - first) // array.itemsize)

    def host_view(self, handle: CubeTensor) -> Array:
        """Return the memory itself as a read-only array, where it is the host's; else a copy."""
        if not self.runtime.is_host or not handle.type.size:
            return self.download(handle)
        if handle.doubt is None:
            self.runtime.read_all([])
        else:
            look = self.launcher.faults.look([handle.doubt])
            look.take(self.runtime.read_all(look.wanted))
        memory = self.runtime.get_resource(handle.buffer).resource().buffer()
        size = handle.dtype.itemsize
        return np.ndarray(
            handle.shape, handle.dtype.numpy, memory, handle.offset * size,
            tuple(stride * size for stride in handle.strides),
        )  # fmt: skip

    def download(self, handle: CubeTensor) -> Array:
        """Return the values as a read-only array.

        Raises IndexRangeError, each time, if it comes of an index outside its axis.
        """
        return self.download_all([handle])[0]

    def download_all(self, handles: Sequence[CubeTensor]) -> list[Array]:
        """Return the values of several tensors by one read."""
        read = Read(self.launcher, handles)
        return read.arrays(self.runtime.read_all(read.wanted) if read.wanted else [])

    async def download_all_async(self, handles: Sequence[CubeTensor]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        read = Read(self.launcher, handles)
        return read.arrays(await self.runtime.read_all_async(read.wanted) if read.wanted else [])

    def type_of(self, handle: CubeTensor) -> TensorType:
        """Return the type of a handle."""
        return handle.type

    def synchronize(self) -> None:
        """Wait until all work is done.

        Raises IndexRangeError if that finds an index outside, which no read has found before.
        """
        look = self.launcher.faults.look_at_all()
        if not look.wanted or self.runtime.is_host:
            self.runtime.synchronize()
        if look.wanted:  # elsewhere this read comes after all work, and one wait is enough
            look.take(self.runtime.read_all(look.wanted))

    async def synchronize_async(self) -> None:
        """Wait as `synchronize` does, while the event loop runs on."""
        look = self.launcher.faults.look_at_all()
        if not look.wanted or self.runtime.is_host:
            await self.runtime.synchronize_async()
        if look.wanted:
            look.take(await self.runtime.read_all_async(look.wanted))

    def is_ready(self, handle: CubeTensor) -> bool:
        """Return whether a read of a tensor would not wait for the device; never waits itself."""
        return self.runtime.is_done(self._submission_of(handle))

    def wait(self, handle: CubeTensor) -> None:
        """Wait until the values of a tensor are computed."""
        self.runtime.wait(self._submission_of(handle))

    def _submission_of(self, handle: CubeTensor) -> int:
        """Return the submission after which its values are there: of when this is first asked."""
        try:
            return handle.awaited
        except AttributeError:
            handle.awaited = self.runtime.flush()
            return handle.awaited

    def primitive(self, handle: CubeTensor) -> CubePrimitive:
        """Return the memory of a tensor and how it lies there; what was asked for is flushed.

        Nothing waits, so it raises an IndexRangeError only if a read or `synchronize` found it.
        """
        if handle.doubt is not None:
            handle.doubt.require_sound()
        self.runtime.flush()
        return CubePrimitive(
            self.runtime,
            MemoryHandle(handle.buffer),
            handle.dtype,
            handle.shape,
            handle.strides,
            handle.offset,
        )

    def renew(self, handle: CubeTensor) -> CubeTensor:
        """Return the tensor as it is after the application wrote to its memory."""
        return replace(handle, buffer=self.runtime.renew(handle.buffer))


def require_dtype(runtime: Runtime, what: str, dtype: DType) -> None:
    """Raise DTypeError for a dtype with which a device cannot compute."""
    if dtype in runtime.lacking:
        narrow = {"float": "float32", "int": "int32", "uint": "uint32"}[dtype.kind]
        raise DTypeError(
            f"{what} requires a dtype that {runtime.name} computes with, got {dtype.name}; use "
            f"dtype={narrow!r}, or {runtime.lacking[dtype]}"
        )


def require_indexable(op: str, *types: TensorType) -> None:
    """Raise DeviceError for a tensor of more elements than kernels count."""
    for type in types:
        if type.size > MOST_ELEMENTS:
            raise DeviceError(
                f"{op} requires at most {MOST_ELEMENTS} elements in a tensor of this device, got "
                f"{type}; split it"
            )
