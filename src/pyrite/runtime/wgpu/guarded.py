"""wgpu in the guarded mode: poison behind each buffer, in fresh memory and in freed memory.

A binding begins with its buffer's first byte, and no index leads before it: a negative one is, to
the device, far behind the end.  What lies behind the end of a binding is read as 0, and not written
to, on every device that clamps, which would hide a fault.  So a kernel's binding goes on for
`MARGIN` bytes behind the buffer: what is read there is poison and shows as NaN, what is written
there is found at the next read.  WGSL of an application is bound as ever: it may ask how long its
arrays are, and the device checks its indices.  See `pyrite.config.Config.guard`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from pyrite.config import config
from pyrite.errors import KernelError
from pyrite.runtime.bundle import LaunchList, NewBuffers
from pyrite.runtime.poison import Reach, changed, poisoned
from pyrite.runtime.protocol import Bundle, BundledLaunch, BundleMemory, MemoryReport, Wanted
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.executable import Executable
from pyrite.runtime.wgpu.memory import Buffer, Lease, Storage
from pyrite.runtime.wgpu.pool import Pool
from pyrite.runtime.wgpu.runtime import WgpuRuntime
from pyrite.types import Array, uint8

#: Bytes of poison behind a buffer: a vector of 16 float64, and as much again.
MARGIN: Final = 256

#: After so many written buffers their margins are looked at without being asked.
_UNSEEN: Final = 256


class GuardedBuffer(Buffer):
    """A buffer whose binding shows the poison behind it."""

    __slots__ = ("margin",)

    margin: int

    def __init__(self, lease: Lease, nbytes: int, largest_binding: int) -> None:
        super().__init__(lease, 0, nbytes)
        self.margin = MARGIN if start_of_margin(nbytes) + MARGIN <= largest_binding else 0
        serial, offset, _ = self.key
        self.key = (serial, offset, nbytes + MARGIN)


def start_of_margin(nbytes: int) -> int:
    """Return where the poison behind a buffer begins: copies are of whole words."""
    return (nbytes + 3) & ~3


class GuardedPool(Pool):
    """A pool whose storages are poison when nobody has them; `WgpuRuntime` fills them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Storages that came back, and hold what was in them.
        self.freed: list[Storage] = []

    def collect(self) -> None:
        """Take back the storages that nobody holds any more."""
        self.freed += [expiry.storage for expiry in tuple(self.ended)]
        super().collect()


def new_runtime(device: Device, name: str) -> WgpuRuntime:
    """Return the runtime of a device, in the mode that the settings ask for."""
    return (GuardedWgpuRuntime if config.guard else WgpuRuntime)(device, name=name)


class GuardedWgpuRuntime(WgpuRuntime):
    """A `WgpuRuntime` that finds out where kernels leave their operands."""

    pool_type = GuardedPool

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: Leases that were written since the last look, by which kernels, last one last.
        self._written: dict[Lease, list[str]] = {}

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of poison."""
        with self._life.lock:
            self._life.check()
            return self._new(nbytes)

    def bundle_memory(self, sizes: Sequence[int], inner: Collection[int]) -> BundleMemory:
        """Return what makes buffers of poison."""
        return NewBuffers(self.allocate, sizes, self.capacity)

    def capacity(self, nbytes: int) -> int:
        """Return the bytes of the storage for so many and the poison behind them."""
        return super().capacity(start_of_margin(nbytes) + MARGIN)

    def bundle(self, steps: Sequence[BundledLaunch]) -> Bundle:
        """Return launches that are made one by one, each of which is looked at."""
        return LaunchList(self.launch, steps)

    def upload(self, array: Array) -> Buffer:
        """Return a buffer of a copy of the array's elements, in row-major order."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with self._life.lock:
            self._life.check()
            buffer = self._new(len(data))
            self._counts["uploads"] += 1
            self._queue.write(data, buffer)
            return buffer

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values, after a look behind all that was written."""
        self.check()
        return super().read_all(wanted)

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values, after a look behind all that was written."""
        self.check()
        return await super().read_all_async(wanted)

    def synchronize(self) -> None:
        """Flush, wait for everything, and look behind all that was written."""
        super().synchronize()
        self.check()

    def check(self) -> None:
        """Raise KernelError if something was written behind a buffer since the last look."""
        with self._life.lock:
            if not self._written:
                return
            self.flush()
            written, self._written = self._written, {}
            sound = [lease for lease in written if lease.contents.error is None]
        found = self._values([_margin(lease) for lease in sound])
        for lease, margin in zip(sound, found, strict=True):
            at = changed(margin)
            if len(at):
                names = ", ".join(dict.fromkeys(reversed(written[lease])))
                raise KernelError(
                    "a kernel requires to stay inside of its buffers, got a write at byte "
                    f"{start_of_margin(lease.nbytes) + int(at[0])} of {lease.nbytes} bytes; "
                    f"these wrote to it since the last look, the last one first: {names}"
                )

    def memory_report(self) -> MemoryReport:
        """Return how much device memory is in use, without what was only held to be looked at."""
        if self._life.failure is None and not self.device.is_destroyed:
            self.check()
        self._written.clear()
        return super().memory_report()

    def within(self, buffer: Buffer, reach: Reach) -> Buffer:
        """Return a copy of a buffer that is poison but for the reach."""
        self.flush()
        if buffer.contents.error is not None:
            return buffer
        (whole,) = self._values([buffer])
        copy = poisoned(buffer.nbytes)
        copy[reach.begin : reach.end] = reach.masked(whole)
        return self.upload(copy)

    def _launch(
        self,
        executable: Executable,
        buffers: list[Buffer],
        numbers: bytes | None,
        grid: Sequence[int],
        is_folded: bool,
        counts: Buffer | None = None,
    ) -> None:
        if not executable.is_trusted:
            buffers = [Buffer(b.lease, b.offset, b.nbytes) for b in buffers]
        super()._launch(executable, buffers, numbers, grid, is_folded, counts)
        with self._life.lock:
            for buffer, is_written in zip(buffers, executable.signature.writes, strict=True):
                if is_written and isinstance(buffer, GuardedBuffer) and buffer.margin:
                    self._written.setdefault(buffer.lease, []).append(executable.name)
        if len(self._written) > _UNSEEN:
            self.check()

    def _new(self, nbytes: int) -> GuardedBuffer:
        lease = self._pool.allocate(start_of_margin(nbytes) + MARGIN).lease
        self._poison_freed()
        self._queue.write(poisoned(lease.contents.storage.capacity), _whole(lease))
        # To a copy it is no longer than it was asked for.
        lease.nbytes = nbytes
        return GuardedBuffer(lease, nbytes, self.device.max_binding)

    def _poison_freed(self) -> None:
        pool = self._pool
        assert isinstance(pool, GuardedPool)
        freed, pool.freed = pool.freed, []
        for storage in freed:
            if not storage.is_lent:
                lease = Lease(storage, storage.capacity)
                self._queue.write(poisoned(storage.capacity), _whole(lease))

    def _values(self, buffers: Sequence[Buffer]) -> list[Array]:
        """Return the bytes of buffers, by a read that is not counted."""
        found = super().read_all([(b, uint8, (b.nbytes,)) for b in buffers])
        self._counts["read_backs"] -= 1
        return found


def _whole(lease: Lease) -> Buffer:
    return Buffer(lease, 0, lease.contents.storage.capacity)


def _margin(lease: Lease) -> Buffer:
    return Buffer(lease, start_of_margin(lease.nbytes), MARGIN)
