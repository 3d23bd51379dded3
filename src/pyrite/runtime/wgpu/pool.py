"""The memory of a device: storages by size class, reused in the order of the queue.

Size classes are four to each power of two, so a buffer wastes at most a fifth.
"""

from __future__ import annotations

import weakref
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

from pyrite.errors import DeviceError, OutOfMemoryError
from pyrite.runtime.interruption import Uninterrupted
from pyrite.runtime.protocol import Held, MemoryReport
from pyrite.runtime.shortage import largest_of
from pyrite.runtime.wgpu.memory import ALIGNMENT, Buffer, Contents, Expiry, Free, Lease, Storage

_new = object.__new__


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
        self.reserved = 0
        #: Bytes in use, and at most; machine code counts there too.
        self.totals = array("q", [0, 0])
        #: By size class, a heap of storages by serial: the oldest is given away first.  So a
        #: program that repeats itself soon gets the same buffers each time, and its bind groups are
        #: known; last in, first out would shuffle them, as a step keeps other ones than it frees.
        self._free: defaultdict[int, Free] = defaultdict(list)
        #: The storages that somebody holds, by serial.  The pool must hold them too: garbage in a
        #: cycle, an exception's frames above all, is finalized all at once, a ``wgpu.GPUBuffer``
        #: with the lease that gives it back; what came back would be a buffer that is released.
        self.leases: dict[int, Expiry] = {}
        #: Leases that ended.  One may end at any moment, in any thread, inside the pool's own code;
        #: appending to a deque is atomic, and `collect` looks here before anything new is made.
        self.ended: deque[Expiry] = deque()
        #: Gives back what is held for whoever comes next, before `trim`.
        self.spared: Callable[[], None] = lambda: None
        #: What does the same as `allocate_again_by_python`, maybe by machine code.
        self.allocate_again = self.allocate_again_by_python

    @property
    def live(self) -> int:
        """The bytes of the storages that somebody holds."""
        return self.totals[0]

    @property
    def peak(self) -> int:
        """The most that `live` was."""
        return self.totals[1]

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of that many bytes with unspecified contents.

        Raises OutOfMemoryError, with a report, when there is no room even after `trim`.
        """
        capacity = self.capacity(nbytes)
        if self.ended:
            self.collect()
        return self._lend(self._taken(capacity) or self._reserve(capacity), nbytes)

    def allocate_all(self, sizes: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Return a buffer of each size, as `allocate` does, given capacities and bytes."""
        made: list[Buffer] = []
        for capacity, nbytes in sizes:
            if self.ended:
                self.collect()
            storage = self._taken(capacity) or self._reserve(capacity)
            made.append(self._lend(storage, nbytes))
        return made

    def free(self, nbytes: int) -> Free:
        """Return the free storages of the size for so many bytes: always the same list."""
        return self._free[self.capacity(nbytes)]

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

    def allocate_again_by_python(
        self, wanted: Sequence[Again], found: list[Buffer], most: int
    ) -> None:
        """Do what `allocate` does for results, each in the first of its places that is free.

        Put them into ``found``, and note new places.
        """
        for each in wanted:
            if self.ended:
                self.collect()
            self.allocate_one_again(each, found, most)

    def allocate_one_again(self, wanted: Again, found: list[Buffer], most: int) -> None:
        """Do what `allocate_again` does for one result."""
        n, nbytes, places = wanted
        for place in places:
            storage = place()
            if storage is not None and storage.is_free:
                storage.is_free = False  # it stays in its list, where it is passed over
                found[n] = self._lend(storage, nbytes)
                return
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
        expiry = self.leases[serial] = Expiry(lease, self.ended.append)
        expiry.storage = storage
        totals = self.totals
        live = totals[0] = totals[0] + storage.capacity
        if live > totals[1]:
            totals[1] = live
        made = _new(Buffer)
        made.lease, made.contents = lease, contents
        made.offset, made.nbytes = 0, nbytes
        made.key = (serial, 0, nbytes)
        return made

    def collect(self) -> None:
        """Take back the storages that nobody holds any more."""
        ended = self.ended
        while ended:
            expiry = ended.popleft()
            storage = expiry.storage
            del self.leases[storage.serial]
            self.totals[0] -= storage.capacity
            if storage.is_lent and not self._is_usable(storage):
                with Uninterrupted():  # see trim
                    self._release(storage)
                    del storage, expiry
            else:
                storage.is_free = True
                if not storage.is_listed:
                    storage.is_listed = True
                    heappush(storage.home, (storage.serial, storage))

    def trim(self) -> None:
        """Give the free storages back to the device."""
        self.spared()
        self.collect()
        # wgpu-py releases a buffer in a finalizer, where Ctrl-C would be lost.
        with Uninterrupted():
            self._release_free()

    def _release_free(self) -> None:
        for storages in self._free.values():
            # Emptied, not replaced: it stays the list of its size.
            while storages:
                self._release_listed(storages.pop()[1])

    def _release_listed(self, storage: Storage) -> None:
        storage.is_listed = False
        if storage.is_free:
            storage.is_free = False
            self._release(storage)

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
        leases = [lease for expiry in self.leases.values() if (lease := expiry()) is not None]
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
        storage = Storage(gpu, capacity)
        storage.home = self._free[capacity]
        return storage

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
