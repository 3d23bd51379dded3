"""How bytes pass between host and device: mapped buffers that are used again and again.

Uploads are written into chunks that are mapped while the host fills them; a copy inside the stream
moves them to where they belong, so that an upload takes its place among the launches.  A chunk is
unmapped before its submission and asked to be mapped again after it; the device grants that when
the copy is done.  Read-backs are copies the other way, into buffers that are then mapped.

`Upload.chunks` bounds what the host can be ahead: an upload of any size needs no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import wgpu

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.command import Staged
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.memory import Buffer, device_buffer
from pyrite.runtime.wgpu.native import Mapping, Pointer, ffi, lib, view
from pyrite.runtime.wgpu.poller import Poller
from pyrite.runtime.wgpu.pool import size_class
from pyrite.types import Array

#: Bytes of one chunk, and how many there may be.
CHUNK = 4 << 20
CHUNKS = 8

#: Read-back buffers up to this size are kept for the next read.
LARGEST_KEPT = 64 << 20

#: A piece of an upload is at least this long, or all that is left.
SMALL = 64 << 10

_MAP_WRITE = int(wgpu.MapMode.WRITE)
_MAP_READ = int(wgpu.MapMode.READ)


def transfer_buffer(life: Life, size: int, usage: int, *, is_mapped: bool = False) -> Any:
    """Return a new ``wgpu.GPUBuffer`` that the host writes or reads.

    Raises DeviceError where there is no room, or the device does not work.
    """
    try:
        return device_buffer(life, size, usage, is_mapped=is_mapped)
    except MemoryError as error:
        raise DeviceError(
            f"a transfer requires {size:,} bytes of memory shared with {life.name}, got {error}"
        ) from None


class Chunk:
    """A buffer that the host writes and the device copies from."""

    def __init__(self, life: Life) -> None:
        usage = wgpu.BufferUsage.MAP_WRITE | wgpu.BufferUsage.COPY_SRC
        self.gpu = transfer_buffer(life, CHUNK, usage, is_mapped=True)
        self.raw: Pointer = self.gpu._internal
        self.used = 0
        self._mapping: Mapping | None = None
        self._address = lib.wgpuBufferGetMappedRange(self.raw, 0, CHUNK)

    def write(self, data: Array) -> int:
        """Append the bytes, a uint8 array that fits, and return the offset of them."""
        offset = self.used
        np.frombuffer(view(self._address + offset, len(data)), np.uint8)[:] = data
        self.used = (offset + len(data) + 3) & ~3
        return offset

    def unmap(self) -> None:
        """End writing: the device is going to read."""
        lib.wgpuBufferUnmap(self.raw)
        self._address = ffi.NULL

    def request(self) -> None:
        """Ask to have it mapped again when the device is done with it."""
        self._mapping = Mapping(self.raw, _MAP_WRITE, CHUNK)

    def is_ready(self) -> bool:
        """Whether it is mapped, empty, and can be written."""
        if self._mapping is None or not self._mapping.is_mapped:
            return False
        self._mapping, self.used = None, 0
        self._address = lib.wgpuBufferGetMappedRange(self.raw, 0, CHUNK)
        return True


class Upload:
    """The chunks of one device; ``flush`` submits what is pending."""

    def __init__(self, life: Life, poller: Poller, flush: Callable[[], object]) -> None:
        self._life, self._poller, self._flush = life, poller, flush
        self._free: list[Chunk] = []  # mapped and empty
        self._filling: list[Chunk] = []  # mapped, holding bytes of the pending submission
        self._busy: list[Chunk] = []  # the device's

    def write(self, data: Array) -> tuple[Any, int, int]:
        """Take bytes from the beginning of a uint8 array: (buffer, offset, how many)."""
        chunk = self._filling[-1] if self._filling else None
        if chunk is None or chunk.used + min(len(data), SMALL) > CHUNK:
            chunk = self._take()
            self._filling.append(chunk)
        count = min(len(data), CHUNK - chunk.used)
        return chunk.gpu, chunk.write(data[:count]), count

    def before_submit(self) -> list[Chunk]:
        """Unmap what the submission reads, and return it for `after_submit`."""
        submitted, self._filling = self._filling, []
        for chunk in submitted:
            chunk.unmap()
        return submitted

    def after_submit(self, submitted: list[Chunk]) -> None:
        """Have the chunks back when the submission is done."""
        for chunk in submitted:
            chunk.request()
        self._busy += submitted

    @property
    def nbytes(self) -> int:
        """Host memory in chunks."""
        return CHUNK * (len(self._free) + len(self._filling) + len(self._busy))

    def trim(self) -> None:
        """Let go of the chunks that are not in use."""
        self._recover()
        self._free.clear()

    def _take(self) -> Chunk:
        self._life.probe()
        if len(self._filling) == CHUNKS:
            self._flush()
        if self._recover():
            return self._free.pop()
        if len(self._filling) + len(self._busy) < CHUNKS:
            return Chunk(self._life)
        self._poller.wait(self._recover)
        return self._free.pop()

    def _recover(self) -> bool:
        ready = [chunk for chunk in self._busy if chunk.is_ready()]
        self._busy = [chunk for chunk in self._busy if chunk not in ready]
        self._free += ready
        return bool(self._free)


class ReadBack:
    """The contents of several buffers on their way to the host, through one mapped buffer."""

    def __init__(self, pool: ReadBackPool, buffers: list[Buffer]) -> None:
        self._pool = pool
        self.buffers = buffers
        *starts, total = accumulate(((b.nbytes + 7) & ~7 for b in buffers), initial=0)
        self.capacity = min(max(size_class(total), SMALL), pool.largest)
        self.gpu = pool.take(self.capacity)
        self.raw: Pointer = self.gpu._internal
        #: Where the bytes of each buffer come.
        self.places = [Staged(self.gpu, start) for start in starts]
        self._mapping: Mapping | None = None

    def request(self) -> None:
        """Ask for the bytes, after the copies into it were submitted."""
        self._mapping = Mapping(self.raw, _MAP_READ, self.capacity)

    def is_ready(self) -> bool:
        """Whether the bytes, or the reason why they do not come, are there."""
        return self._mapping is not None and self._mapping.status is not None

    def finish(self) -> list[Array]:
        """Return the bytes of each buffer, a new uint8 array.

        Raises DeviceError if the device did not give them, or what kept them from being computed.
        """
        for place in self.places:
            if place.error is not None:
                raise type(place.error)(*place.error.args)
        if self._mapping is None or not self._mapping.is_mapped:
            raise DeviceError("read requires a device that works, got a failed read; it was lost")
        address = lib.wgpuBufferGetMappedRange(self.raw, 0, self.capacity)
        mapped = np.frombuffer(view(address, self.capacity), np.uint8)
        parts = zip(self.places, self.buffers, strict=True)
        arrays = [mapped[p.offset : p.offset + b.nbytes].copy() for p, b in parts]
        del mapped
        lib.wgpuBufferUnmap(self.raw)
        self._pool.give(self.capacity, self.gpu)
        return arrays


class ReadBackPool:
    """The read-back buffers of one device that are not in use, one of each size at most."""

    def __init__(self, life: Life, largest: int) -> None:
        self._life = life
        #: Bytes of the largest buffer that the device makes.
        self.largest = largest
        self._free: dict[int, Any] = {}

    def together(self, buffers: Sequence[Buffer]) -> Iterator[list[Buffer]]:
        """Give the buffers, in order, in groups of which each fits one read-back."""
        group: list[Buffer] = []
        room = self.largest
        for buffer in buffers:
            size = (buffer.nbytes + 7) & ~7
            if size > room and group:
                yield group
                group, room = [], self.largest
            group.append(buffer)
            room -= size
        yield group

    def take(self, capacity: int) -> Any:
        """Return an unmapped buffer of that size."""
        found = self._free.pop(capacity, None)
        if found is not None:
            return found
        usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        return transfer_buffer(self._life, capacity, usage)

    def give(self, capacity: int, gpu: Any) -> None:
        """Take back an unmapped buffer."""
        if capacity <= LARGEST_KEPT:
            self._free[capacity] = gpu

    @property
    def nbytes(self) -> int:
        """Host memory in free buffers."""
        return sum(self._free)

    def trim(self) -> None:
        """Let go of them."""
        self._free.clear()
