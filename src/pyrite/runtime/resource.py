"""The memory under a buffer of a runtime, as an application sees it.

    resource = runtime.get_resource(buffer).resource()
    resource.buffer()  # a wgpu.GPUBuffer, or on the host a memoryview
    resource.offset, resource.size  # where in it, in bytes

Whoever holds any of these objects holds the memory: it is not given to another tensor meanwhile.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from pyrite.errors import DeviceError


class Resource(Protocol):
    """Memory of a device and the part of it that is meant."""

    def buffer(self) -> Any:
        """The memory, as the device knows it."""
        ...

    @property
    def offset(self) -> int:
        """Where the part begins, in bytes."""
        ...

    @property
    def size(self) -> int:
        """How long it is, in bytes."""
        ...


R = TypeVar("R", bound=Resource, covariant=True)


class BindingResource(Generic[R]):
    """A lease on a binding's memory; `resource` is what an application uses."""

    def __init__(self, resource: R) -> None:
        self._resource = resource

    def resource(self) -> R:
        """The memory and the part of it that is meant."""
        return self._resource


class HostResource:
    """Bytes of the host, read-only: values never change."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory.cast("B").toreadonly()

    def buffer(self) -> memoryview:
        """The bytes themselves; the view keeps them."""
        return self._memory

    @property
    def offset(self) -> int:
        """Where the part begins: the view is all of it."""
        return 0

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._memory.nbytes


def own_memory(asked: str) -> DeviceError:
    """Return the error of ``invalidate`` or ``out`` for memory that is Pyrite's own."""
    why = "which nobody else writes to"
    if asked == "out":
        why = "which tensors share; take what is returned, whose memory is used again and again"
    return DeviceError(
        f"{asked} requires memory of the application (pyrite.wgpu.from_buffer, on cpu "
        f"pyrite.from_dlpack with copy=False), got Pyrite's own, {why}"
    )
