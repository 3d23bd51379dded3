"""Memory: device buffers, who holds them, and parts of them; see also pool.py.

A `Storage` is one ``wgpu.GPUBuffer``; a `Buffer` is a part of one that somebody holds.  When nobody
holds a buffer any more its storage goes back to the pool, and may be given away at once: the queue
is in order, so whoever gets it comes later.  Storages are never parted among tensors, because
WebGPU forbids to read and write one buffer in the same dispatch through different bindings.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, ClassVar, Final

import wgpu

from pyrite.columns import Column, Maker
from pyrite.errors import DeviceError, PyriteError
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.native import NativeError, Pointer

#: Offsets of views: WebGPU's default min-storage-buffer-offset-alignment.
ALIGNMENT = 256

_KINDS = wgpu.BufferUsage
USAGE = int(_KINDS.STORAGE | _KINDS.COPY_SRC | _KINDS.COPY_DST)

#: What an application's passes may take a tensor for.
SHARED_USAGE = int(USAGE | _KINDS.VERTEX | _KINDS.INDEX | _KINDS.INDIRECT | _KINDS.UNIFORM)

#: Empty unless some storage of the process is lent, or was: for machine code.
lends: Final[list[bool]] = []

_serials = itertools.count(1)
_new = object.__new__


class Storage:
    """One device buffer.  ``serial`` is its name in caches and is never used again."""

    __slots__ = (
        "__weakref__", "capacity", "gpu", "home", "is_external", "is_free", "is_lent", "is_listed",
        "last_use", "raw", "serial", "whole",
    )  # fmt: skip

    #: Whether some storage of the process is lent, or was.
    is_any_lent: ClassVar[bool] = False

    def __init__(self, gpu: Any, capacity: int, *, is_external: bool = False) -> None:
        self.gpu = gpu
        self.raw: Pointer = gpu._internal
        self.capacity = capacity
        self.serial = next(_serials)
        self.is_external = is_external
        #: Whether an application has the ``wgpu.GPUBuffer`` in hand, and may destroy it.
        self.is_lent = False
        if is_external:
            self.lend()
        #: Whether nobody holds it, and whether it stands in the pool's list of its size.
        self.is_free = self.is_listed = False
        #: The submission in which it was last used, or will be.
        self.last_use = 0
        #: The free storages of its size, in a pool; and the key of the last buffer of all of it.
        self.home: Free = []
        self.whole: tuple[int, int, int] | None = None

    def lend(self) -> None:
        """Note that an application has the ``wgpu.GPUBuffer`` in hand."""
        self.is_lent = Storage.is_any_lent = True
        if not lends:
            lends.append(self.is_lent)


#: Free storages of one size, a heap by their serials.
Free = list[tuple[int, Storage]]


class Contents:
    """What a storage holds for the time of one lease; commands hold it, and so do not the lease.

    ``error`` is why it is not to be trusted: a command that was to write it failed.  ``gone`` is
    why later commands cannot have it: others write there.  Those from before it still do.
    """

    __slots__ = ("error", "gone", "storage")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.error: PyriteError | None = None
        self.gone: PyriteError | None = None


class Lease:
    """The right to a storage; when nobody holds it the storage returns to its pool, if any."""

    __slots__ = ("__weakref__", "contents", "nbytes", "origin")

    def __init__(self, storage: Storage, nbytes: int) -> None:
        contents = self.contents = _new(Contents)  # as by its name, in half the time
        contents.storage = storage
        contents.error = contents.gone = None
        self.nbytes = nbytes
        #: What made it, where that was noted.
        self.origin: object | None = None


class Expiry(weakref.ref[Lease]):
    """The end of a lease.  Its callback is not Python: Ctrl-C in a finalizer is lost."""

    __slots__ = ("storage",)

    storage: Storage


class Buffer:
    """A part of a storage, and a lease on the whole of it.  Sizes are in bytes."""

    __slots__ = ("contents", "key", "lease", "nbytes", "offset")

    #: Bytes behind it that its binding shows too, in the guarded mode.
    margin = 0

    def __init__(self, lease: Lease, offset: int, nbytes: int) -> None:
        self.lease = lease
        self.contents = lease.contents
        self.offset = offset
        self.nbytes = nbytes
        #: What a bind group depends on.
        self.key = (lease.contents.storage.serial, offset, nbytes)

    @property
    def owner(self) -> Lease:
        """The right to the whole."""
        return self.lease

    @property
    def storage(self) -> Storage:
        """The device buffer that it lies in."""
        return self.contents.storage

    def view(self, offset: int, nbytes: int) -> Buffer:
        """Return a part of it, which keeps the whole alive.

        Raises DeviceError unless the offset is a multiple of 256 and the part lies inside.
        """
        if offset % ALIGNMENT or offset < 0 or offset + nbytes > self.nbytes:
            raise DeviceError(
                f"view requires an offset that is a multiple of {ALIGNMENT} and a part inside "
                f"{self.nbytes} bytes, got {nbytes} bytes at {offset}"
            )
        # As by ``Buffer(...)``, in two thirds of the time: programs have a hundred.
        made = _new(Buffer)
        made.lease, made.contents = self.lease, self.contents
        made.nbytes = nbytes
        start = made.offset = self.offset + offset
        made.key = (made.contents.storage.serial, start, nbytes)
        return made

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes of storage {self.storage.serial} at {self.offset})"


def device_buffer(
    life: Life, size: int, usage: int | None = None, *, is_mapped: bool = False
) -> Any:
    """Return a new ``wgpu.GPUBuffer``; without another ``usage`` one for tensors.

    Raises MemoryError where there is no room, DeviceError if the device does not work.
    """
    life.check()
    gpu = life.device.gpu
    if usage is None:
        usage = SHARED_USAGE if life.device.is_external else USAGE
    try:
        return gpu.create_buffer(size=size, usage=usage, mapped_at_creation=is_mapped)
    except wgpu.GPUOutOfMemoryError as error:
        raise MemoryError(str(error)) from None
    except wgpu.GPUError as error:
        life.check_loss(NativeError("", str(error)))
        raise DeviceError(f"allocate requires a buffer of the device, got: {error}") from None


#: What launches ask of many buffers at once.
KEYS: Final = Column(Buffer, "key")
CONTENTS: Final = Column(Buffer, "contents")
LEASES: Final = Column(Buffer, "lease")
GONE: Final = Column(Contents, "gone")
STORAGES: Final = Column(Contents, "storage")
LAST_USES: Final = Column(Storage, "last_use")
#: Makes parts of buffers.
PARTS: Final = Maker(Buffer, "lease", "contents", "offset", "nbytes", "key")
