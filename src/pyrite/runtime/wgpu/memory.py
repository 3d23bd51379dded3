"""Memory: device buffers by size class, reused in the order of the queue, under an upper bound.

A `Storage` is one ``wgpu.GPUBuffer``; a `Buffer` is a part of one that somebody holds.  When nobody
holds a buffer any more its storage goes back to the pool, and may be given away at once: the queue
is in order, so whoever gets it comes later.  Storages are never parted among tensors, because
WebGPU forbids to read and write one buffer in the same dispatch through different bindings.

Size classes are four to each power of two, so a buffer wastes at most a fifth.
"""

from __future__ import annotations

import itertools
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any, ClassVar

import wgpu

from pyrite.errors import DeviceError, OutOfMemoryError, PyriteError
from pyrite.runtime.interruption import Uninterrupted
from pyrite.runtime.protocol import Held, MemoryReport
from pyrite.runtime.shortage import largest_of
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.native import NativeError, Pointer

#: Offsets of views: WebGPU's default min-storage-buffer-offset-alignment.
ALIGNMENT = 256

_KINDS = wgpu.BufferUsage
USAGE = int(_KINDS.STORAGE | _KINDS.COPY_SRC | _KINDS.COPY_DST)

#: What an application's passes may take a tensor for.
SHARED_USAGE = int(USAGE | _KINDS.VERTEX | _KINDS.INDEX | _KINDS.INDIRECT | _KINDS.UNIFORM)

_serials = itertools.count(1)
_new = object.__new__


class Storage:
    """One device buffer.  ``serial`` is its name in caches and is never used again."""

    __slots__ = (
        "__weakref__", "capacity", "gpu", "is_external", "is_free", "is_lent", "is_listed",
        "last_use", "raw", "serial",
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

    def lend(self) -> None:
        """Note that an application has the ``wgpu.GPUBuffer`` in hand."""
        self.is_lent = Storage.is_any_lent = True


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


@lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Return the capacity of the storage for so many bytes: a multiple of 256.

    >>> size_class(0), size_class(257), size_class(1025), size_class(1_000_000)
    (256, 512, 1280, 1048576)
    """
    size = max(nbytes, ALIGNMENT)
    step = max(ALIGNMENT, 1 << ((size - 1).bit_length() - 3))
    return -(-size // step) * step


#: What a result of a program is given again: its number, its bytes, and the storages it had.
Again = tuple[int, int, list[weakref.ref[Storage]]]


class Pool:
    """The storages of one device.  Its caller holds the runtime's lock.

    ``create`` makes a device buffer of a size and raises MemoryError where there is no room.
    ``drain`` gets the device to complete what it has been given, so that freed memory is free.
    ``is_usable`` says whether a storage that an application had in hand still is a good one.
    ``limit`` bounds what is reserved, in bytes; ``largest`` is the most that one buffer can have.
    """

    def __init__(
        self,
        create: Callable[[int], Any],
        drain: Callable[[], None],
        forget: Callable[[Storage], None],
        *,
        is_usable: Callable[[Storage], bool],
        limit: int | None,
        largest: int,
    ) -> None:
        self._create, self._drain, self._forget = create, drain, forget
        self._is_usable = is_usable
        self.limit = limit
        self.largest = largest
        self.live = self.reserved = self.peak = 0
        #: By size class, a heap of storages by serial: the oldest is given away first.  So a
        #: program that repeats itself soon gets the same buffers each time, and its bind groups are
        #: known; last in, first out would shuffle them, as a step keeps other ones than it frees.
        self._free: defaultdict[int, list[tuple[int, Storage]]] = defaultdict(list)
        #: The storages that somebody holds, by serial.  The pool must hold them too: garbage in a
        #: cycle, an exception's frames above all, is finalized all at once, a ``wgpu.GPUBuffer``
        #: with the lease that gives it back; what came back would be a buffer that is released.
        self._leases: dict[int, Expiry] = {}
        #: Leases that ended.  One may end at any moment, in any thread, inside the pool's own code;
        #: appending to a deque is atomic, and `collect` looks here before anything new is made.
        self._ended: deque[Expiry] = deque()
        #: Gives back what is held for whoever comes next, before `trim`.
        self.spared: Callable[[], None] = lambda: None

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of that many bytes with unspecified contents.

        Raises OutOfMemoryError, with a report, when there is no room even after `trim`.
        """
        capacity = self.capacity(nbytes)
        if self._ended:
            self.collect()
        return self._lend(self._taken(capacity) or self._reserve(capacity), nbytes)

    def allocate_all(self, sizes: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Return a buffer of each size, as `allocate` does, given capacities and bytes."""
        made: list[Buffer] = []
        for capacity, nbytes in sizes:
            if self._ended:
                self.collect()
            storage = self._taken(capacity) or self._reserve(capacity)
            made.append(self._lend(storage, nbytes))
        return made

    def capacity(self, nbytes: int) -> int:
        """Return the bytes of a storage for so many.  Raises DeviceError for too many."""
        capacity = size_class(nbytes)
        if capacity > self.largest:
            capacity = self.largest
        if nbytes > capacity:
            raise DeviceError(
                f"allocate requires at most {self.largest:,} bytes in one buffer of this device, "
                f"got {nbytes:,}; part the tensor"
            )
        return capacity

    def allocate_again(self, wanted: Sequence[Again], found: list[Buffer], most: int) -> None:
        """Do what `allocate` does for results, each in the first of its places that is free.

        Put them into ``found``, and note new places.
        """
        for n, nbytes, places in wanted:
            if self._ended:
                self.collect()
            for place in places:
                storage = place()
                if storage is not None and storage.is_free:
                    storage.is_free = False  # it stays in its list, where it is passed over
                    found[n] = self._lend(storage, nbytes)
                    break
            else:
                buffer = found[n] = self.allocate(nbytes)
                places.insert(0, weakref.ref(buffer.storage))
                del places[most:]

    def _taken(self, capacity: int) -> Storage | None:
        """Return a free storage of a capacity, if there is one."""
        free = self._free[capacity]
        while free:
            storage = heappop(free)[1]
            storage.is_listed = False
            if storage.is_free:
                storage.is_free = False
                return storage
        return None

    def _lend(self, storage: Storage, nbytes: int) -> Buffer:
        # As by ``Lease(...)`` and ``Buffer(...)``, in half the time: this is run for every op.
        lease = _new(Lease)
        contents = lease.contents = _new(Contents)
        contents.storage = storage
        contents.error = contents.gone = lease.origin = None
        lease.nbytes = nbytes
        serial = storage.serial
        expiry = self._leases[serial] = Expiry(lease, self._ended.append)
        expiry.storage = storage
        live = self.live = self.live + storage.capacity
        if live > self.peak:
            self.peak = live
        made = _new(Buffer)
        made.lease, made.contents = lease, contents
        made.offset, made.nbytes = 0, nbytes
        made.key = (serial, 0, nbytes)
        return made

    def collect(self) -> None:
        """Take back the storages that nobody holds any more."""
        ended = self._ended
        while ended:
            expiry = ended.popleft()
            storage = expiry.storage
            del self._leases[storage.serial]
            self.live -= storage.capacity
            if storage.is_lent and not self._is_usable(storage):
                with Uninterrupted():  # see trim
                    self._release(storage)
                    del storage, expiry
            else:
                storage.is_free = True
                if not storage.is_listed:
                    storage.is_listed = True
                    heappush(self._free[storage.capacity], (storage.serial, storage))

    def trim(self) -> None:
        """Give the free storages back to the device."""
        self.spared()
        self.collect()
        # wgpu-py releases a buffer in a finalizer, where Ctrl-C would be lost.
        with Uninterrupted():
            self._release_free()

    def _release_free(self) -> None:
        for storages in self._free.values():
            for _, storage in storages:
                storage.is_listed = False
                if storage.is_free:
                    storage.is_free = False
                    self._release(storage)
        self._free.clear()

    def _release(self, storage: Storage) -> None:
        self.reserved -= storage.capacity
        self._forget(storage)

    def report(self) -> MemoryReport:
        """Return how much memory is in use, rounding to size classes included."""
        self.collect()
        return MemoryReport(live=self.live, reserved=self.reserved, peak=self.peak)

    def held(self) -> list[Held]:
        """Return what somebody holds, the largest first."""
        self.collect()
        leases = [lease for expiry in self._leases.values() if (lease := expiry()) is not None]
        return sorted([Held(x.nbytes, x.origin) for x in leases], key=lambda x: -x.nbytes)

    def _reserve(self, capacity: int) -> Storage:
        try:
            gpu = self._create_within_limit(capacity)
        except MemoryError:
            self._drain()
            self.trim()
            self._drain()
            try:
                gpu = self._create_within_limit(capacity)
            except MemoryError as error:
                raise self._out_of_memory(capacity, str(error)) from None
        self.reserved += capacity
        return Storage(gpu, capacity)

    def _create_within_limit(self, capacity: int) -> Any:
        if self.limit is not None and self.reserved + capacity > self.limit:
            raise MemoryError(f"the limit of {self.limit:,} bytes")
        return self._create(capacity)

    def _out_of_memory(self, capacity: int, reason: str) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"allocate requires room for {capacity:,} bytes, got {reason}; in use are "
            f"{self.live:,} bytes, at most {self.peak:,}{largest_of(self.held())}; use a smaller "
            "batch, or let go of tensors"
        )
