"""The wgpu runtime: kernels as WGSL on any GPU, through wgpu-native.

Launches and copies are kept until a flush and submitted together.  Nothing waits but ``read``,
``wait`` and ``synchronize``, and these poll and sleep, so that other threads can submit meanwhile
and an event loop runs on under the ``_async`` forms.

Errors.  What can be known at a launch is raised there: bindings that do not fit, a grid too large.
What shows at the flush poisons what the launch was to write: see validation.py.  A lost device is
an error of every call from then on: see life.py.  What remains is another thread that destroys the
device or a buffer between the checks of a submission and the submit, which aborts the process: an
application that does that must not.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import psutil

from pyrite.errors import DeviceError
from pyrite.kernel.ir import Kernel
from pyrite.runtime.protocol import Bundle, BundledLaunch, BundleMemory, Held, MemoryReport, Wanted
from pyrite.runtime.resource import BindingResource, own_memory
from pyrite.runtime.wgpu.adapter import Device, open_device
from pyrite.runtime.wgpu.application_queue import queue_of
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.bundle import Parts, WgpuBundle
from pyrite.runtime.wgpu.bundle_memory import Scratch, WgpuBundleMemory
from pyrite.runtime.wgpu.command import Copy, StorageRange
from pyrite.runtime.wgpu.compiler import Compiler
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.executable import Executable, Signature
from pyrite.runtime.wgpu.external import external_buffer, renewed, why_unusable
from pyrite.runtime.wgpu.launches import CountedLaunch, Launch
from pyrite.runtime.wgpu.memory import ALIGNMENT, Buffer, Storage, device_buffer
from pyrite.runtime.wgpu.poller import Poller
from pyrite.runtime.wgpu.pool import Pool
from pyrite.runtime.wgpu.process import enroll
from pyrite.runtime.wgpu.queue import Queue
from pyrite.runtime.wgpu.resource import BufferResource
from pyrite.runtime.wgpu.shader import Layouts
from pyrite.runtime.wgpu.staging import ReadBack, ReadBackPool
from pyrite.runtime.wgpu.texture import TextureCopy, TexturePart
from pyrite.runtime.wgpu.timestamps import Timestamps
from pyrite.runtime.wgpu.validation import Validator
from pyrite.synchronization import awaited
from pyrite.types import Array, DType, Number, Shape

#: Bytes that are copied by another thread when a read is awaited, for the event loop's sake.
AWAY = 1 << 20


class WgpuRuntime:
    """A device that runs kernels, safe to use from many threads.

    ``limit`` bounds the memory reserved on the device, in bytes.  Without it a GPU's driver says
    when there is no room; a software adapter, whose memory is the machine's, gets three quarters.
    """

    alignment = ALIGNMENT
    is_host = False
    pool_type = Pool

    def __init__(
        self, device: Device | None = None, *, name: str = "wgpu", limit: int | None = None
    ) -> None:
        self.device = open_device() if device is None else device
        self.name = name
        self.lacking = self.device.lacking
        self.machine = self.device.machine
        if limit is None and self.device.is_software:
            limit = psutil.virtual_memory().total // 4 * 3
        self._life = life = Life(self.device, name)
        self._layouts = layouts = Layouts(self.device)
        self._compiler = Compiler(layouts, name)
        self._groups = BindGroups(layouts)
        self._poller = Poller(life)
        self._validator = Validator(life, layouts)
        self._queue = Queue(life, self._poller, self._validator)
        largest = self.device.limits["max-buffer-size"] & -ALIGNMENT
        self._read_backs = ReadBackPool(life, largest)
        self._pool = self.pool_type(
            partial(device_buffer, life), self.synchronize, self._groups.forget,
            is_usable=self._is_usable, limit=limit, largest=largest,
        )  # fmt: skip
        self._scratch = Scratch(self._pool)
        self._counts = dict.fromkeys(("launches", "uploads", "read_backs"), 0)
        #: How many launches of known groups machine code made.
        self.made_natively = array("q", [0])
        enroll(life)

    # Kernels.

    def compile_later(self, kernel: Kernel) -> Executable:
        """Do what `compile` does: drivers compile on threads of their own."""
        return self.compile(kernel)

    def compile(self, kernel: Kernel) -> Executable:
        """Return the kernel compiled; the same one again for an equal kernel.

        Raises KernelError if it is not legal or does not compile here, DTypeError if the device
        lacks a dtype that it needs.
        """
        with self._life.lock:
            self._life.check()
            return self._compiler.compile(kernel)

    def source(self, kernel: Kernel) -> str:
        """Return the WGSL of a kernel."""
        return self._compiler.source(kernel)

    def compile_wgsl(self, source: str, signature: Signature) -> Executable:
        """Return a user's WGSL compiled, with the checks that a browser makes.

        Its entry point is ``main``; in group 0 its buffers are bindings 0, 1, … and its numbers, if
        any, a uniform struct as the next.  Raises KernelError with the line that is wrong.
        """
        with self._life.lock:
            self._life.check()
            return self._compiler.compile_wgsl(source, signature)

    def launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Append one run of ``grid`` workgroups; a binding for each parameter of the kernel.

        Raises KernelError if the bindings do not fit the parameters, or the grid the kernel.
        """
        buffers, numbers = executable.part(bindings)
        is_folded = executable.check_grid(grid)
        if 0 not in grid:
            packed = executable.packed(numbers, grid, is_folded=is_folded)
            self._launch(executable, buffers, packed, grid, is_folded)

    def launch_counted(
        self, executable: Executable, bindings: Sequence[Buffer | Number], counts: Buffer
    ) -> None:
        """Append one run of as many workgroups as ``counts`` says when its turn comes."""
        buffers, numbers = executable.part(bindings)
        grid = (1,) * executable.signature.grid
        packed = executable.packed(numbers, grid, is_folded=False)
        self._launch(executable, buffers, packed, grid, False, counts)

    def _launch(
        self,
        executable: Executable,
        buffers: list[Buffer],
        numbers: bytes | None,
        grid: Sequence[int],
        is_folded: bool,
        counts: Buffer | None = None,
    ) -> None:
        """Append a launch whose bindings fit; a folded grid is spread over two axes.

        With ``counts`` that buffer says the grid.
        """
        variant, bound = executable.fit(buffers, is_folded=is_folded)
        queue = self._queue
        with self._life.lock:
            self._life.check()
            uniform = offset = None
            if variant.layout.uniform_size:
                uniform = queue.uniform()
                offset = queue.append_arguments(b"" if numbers is None else numbers)
                numbers = None
            group = self._groups.get(variant.layout, bound, uniform, executable.name)
            self._counts["launches"] += 1
            launch = Launch(
                executable.name,
                variant.pipeline,
                group,
                executable.counts(grid, is_folded=is_folded),
                numbers,
                offset,
                [buffer.contents for buffer in buffers],
                executable.results,
            )
            if counts is None:
                queue.append(launch)
            else:
                queue.append(CountedLaunch(launch, StorageRange(counts), queue.grid()))

    @property
    def parts(self) -> Parts:
        """What launches are made with."""
        return Parts(self._life, self._queue, self._groups, self._counts)

    @property
    def pool(self) -> Pool:
        """The device's memory."""
        return self._pool

    def bundle(self, steps: Sequence[BundledLaunch]) -> Bundle:
        """Return launches, in order, that can be made many times."""
        return WgpuBundle(self.parts, self._launch, steps)

    # Memory.

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer with unspecified contents.  Raises DeviceError when there is no room."""
        with self._life.lock:
            self._life.check()
            return self._pool.allocate(nbytes)

    def capacity(self, nbytes: int) -> int:
        """Return the bytes of the storage for so many."""
        return self._pool.capacity(nbytes)

    def bundle_memory(self, sizes: Sequence[int], inner: Collection[int]) -> BundleMemory:
        """Return what makes the buffers of a bundle."""
        return WgpuBundleMemory(self._life, self._pool, self._scratch, sizes, inner)

    def upload(self, array: Array) -> Buffer:
        """Return a buffer of a copy of the array's elements, in row-major order."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with self._life.lock:
            self._life.check()
            buffer = self._pool.allocate(len(data))
            self._counts["uploads"] += 1
            self._queue.write(data, buffer)
            return buffer

    def adopt(self, array: Array) -> None:
        """Return None: a GPU has no memory of the host; see `from_buffer`."""

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Append a copy of ``target.nbytes`` bytes from the beginning of source.

        Raises DeviceError if source is shorter, or the target is a part that ends inside a word.
        """
        is_part = target.offset + target.nbytes < target.lease.nbytes
        if source.nbytes < target.nbytes or (target.nbytes % 4 and is_part):
            raise DeviceError(
                f"copy requires a source as long as the target, and whole words of 4 bytes into a "
                f"part of a buffer, got {source.nbytes} and {target.nbytes} bytes"
            )
        with self._life.lock:
            self._life.check()
            if target.nbytes:
                self._queue.append(
                    Copy("copy", StorageRange(source), StorageRange(target), target.nbytes)
                )

    def _is_usable(self, storage: Storage) -> bool:
        # A device that works no more gives no memory, and is not to be asked.
        has_ended = self._life.failure is not None or self.device.is_destroyed
        return has_ended or why_unusable(storage, self._layouts) is None

    def from_buffer(self, gpu: Any, offset: int = 0, nbytes: int | None = None) -> Buffer:
        """Return an application's ``wgpu.GPUBuffer``, or a part of it, as a buffer.

        It stays the application's: Pyrite reads and writes it on the device's own queue and never
        gives it to anybody else.  Raises DeviceError if it belongs to another device, lacks a usage
        flag, or is not cut at whole vectors.
        """
        return external_buffer(self._life, gpu, offset, nbytes)

    def read_texture(self, part: TexturePart) -> Buffer:
        """Return the texels of a part of an application's texture, in rows of its pitch."""
        with self._life.lock:
            self._life.check()
            buffer = self.allocate(part.nbytes)
            queue_of(self.device.gpu).watch(part.texture)
            self._queue.append(TextureCopy(part, buffer, is_to_texture=False))
            return buffer

    def write_texture(self, buffer: Buffer, part: TexturePart) -> None:
        """Append a copy of rows of its pitch to a part of an application's texture.

        Raises what went wrong with the rows, if that is known: nobody reads it of a texture.
        """
        with self._life.lock:
            self._life.check()
            if buffer.contents.error is not None:
                raise type(buffer.contents.error)(*buffer.contents.error.args)
            queue_of(self.device.gpu).watch(part.texture)
            self._queue.append(TextureCopy(part, buffer, is_to_texture=True))

    def timed_launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> float | None:
        """Do what `launch` does, and wait; return its seconds by timestamp queries.

        None where the device has none, or `timeline` has them by now.
        """
        is_free = self._validator.timestamps is None
        if not is_free or "timestamp-query" not in self.device.features:
            self.launch(executable, bindings, grid)
            self.synchronize()
            return None
        timestamps = Timestamps(self.device)
        with self.timed(timestamps):
            self.launch(executable, bindings, grid)
        self.synchronize()
        return sum(end - begin for _, begin, end in timestamps.read())

    def is_last_holder(self, holder: Sequence[Any], position: int) -> bool:
        """Return False: it is not known who holds a buffer."""
        return False

    def is_shared(self, x: Buffer, y: Buffer) -> bool:
        """Whether two buffers are parts of one ``wgpu.GPUBuffer``.

        WebGPU forbids to read and write one in the same dispatch, whatever the parts.
        """
        return bool(x.storage.raw == y.storage.raw)

    def renew(self, buffer: Buffer, *, for_kernel: bool = False) -> Buffer:
        """Return an application's buffer as it is after the application wrote to it.

        What is asked of ``buffer`` itself from here on is an error of the next read: its values are
        gone.  Raises DeviceError for memory that is not the application's.
        """
        if not buffer.storage.is_external:
            raise own_memory("out" if for_kernel else "invalidate")
        with self._life.lock:
            self._life.check()
            buffer.contents.gone = DeviceError(
                "a tensor requires the values that it was made with, got a view or clone from "
                "before invalidate(); use the tensor that was invalidated, or copy it before"
            )
        return renewed(buffer)

    def get_resource(self, buffer: Buffer) -> BindingResource[BufferResource]:
        """Return the ``wgpu.GPUBuffer`` under a buffer, after a flush."""
        self.flush()
        return BindingResource(BufferResource(buffer))

    def memory_report(self) -> MemoryReport:
        """Return how much device memory is in use, rounding to size classes included."""
        with self._life.lock:
            return self._pool.report()

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        with self._life.lock:
            return self._pool.held()

    def trim(self) -> None:
        """Give free memory back to the device."""
        with self._life.lock:
            self._pool.trim()
            self._queue.uploads.trim()
            self._read_backs.trim()

    # Submissions.

    @contextmanager
    def timed(self, timestamps: Timestamps) -> Iterator[None]:
        """Have the kernels of the block, and no others, timed.

        Raises DeviceError inside such a block.
        """
        with self._life.lock:
            if self._validator.timestamps is not None:
                raise DeviceError("timeline requires one at a time of a device, got a second")
            self.flush()
            self._validator.timestamps = timestamps
        try:
            yield
        finally:
            with self._life.lock:
                try:
                    self.flush()
                finally:
                    self._validator.timestamps = None

    def flush(self) -> int:
        """Hand what was appended to the device and return the number of the last submission.

        Raises DeviceError if the device is lost.
        """
        with self._life.lock:
            return self._queue.flush()

    def is_done(self, submission: int) -> bool:
        """Whether the device has done everything up to that submission."""
        return self._queue.is_done(submission)

    def wait(self, submission: int) -> None:
        """Return when the device has done everything up to that submission.

        Raises DeviceError if there was no such submission, or the device is lost meanwhile.
        """
        self._queue.wait(submission)

    def synchronize(self) -> None:
        """Flush, and wait for everything."""
        self.wait(self.flush())

    async def synchronize_async(self) -> None:
        """Flush, and wait for everything while the event loop runs on."""
        await self._queue.wait_async(self.flush())

    # Reading.

    def read(self, buffer: Buffer, dtype: DType, shape: Shape) -> Array:
        """Flush, wait for what was appended so far, and return the values, a new array."""
        return self.read_all([(buffer, dtype, shape)])[0]

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush and one wait."""
        read_backs = self._request(wanted)
        self._poller.wait(lambda: all(r.is_ready() for r in read_backs))
        self._queue.note_wait()
        return self._finish(read_backs, wanted)

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush, while the event loop runs on."""
        read_backs = self._request(wanted)
        await self._poller.wait_async(lambda: all(r.is_ready() for r in read_backs))
        self._queue.note_wait()
        if sum(buffer.nbytes for buffer, _, _ in wanted) < AWAY:
            return self._finish(read_backs, wanted)
        return await awaited(lambda: self._finish(read_backs, wanted))

    def _request(self, wanted: Wanted) -> list[ReadBack]:
        with self._life.lock:
            self._life.check()
            groups = self._read_backs.together([buffer for buffer, _, _ in wanted])
            read_backs = [ReadBack(self._read_backs, group) for group in groups]
            for read_back in read_backs:
                for buffer, target in zip(read_back.buffers, read_back.places, strict=True):
                    if buffer.nbytes:
                        self._queue.append(
                            Copy("read", StorageRange(buffer), target, buffer.nbytes)
                        )
            self._counts["read_backs"] += 1
            self.flush()
            for read_back in read_backs:
                read_back.request()
            return read_backs

    def _finish(self, read_backs: list[ReadBack], wanted: Wanted) -> list[Array]:
        with self._life.lock:
            self._life.probe()
            arrays = [array for read_back in read_backs for array in read_back.finish()]
        return [
            array.view(dtype.numpy).reshape(shape)
            for array, (_, dtype, shape) in zip(arrays, wanted, strict=True)
        ]

    # The end, and how things stand.

    def close(self) -> None:
        """Wait for everything and end; idempotent."""
        with self._life.lock:
            if self._life.failure is None:
                self.synchronize()
                self.trim()
            self._queue.end()
            self._life.fail("it was closed")

    def report(self) -> dict[str, Any]:
        """Counters by name."""
        with self._life.lock:
            made_natively = self.made_natively[0]
            return {
                **self._counts,
                "launches": self._counts["launches"] + made_natively,
                "submissions": self._queue.submitted,
                "kernels": len(self._compiler),
                "bind_groups": len(self._groups),
                "bind_group_hits": self._groups.hits + made_natively,
                "bind_group_misses": self._groups.misses,
                "staging_bytes": self._queue.uploads.nbytes + self._read_backs.nbytes,
                "adapter": self.device.name,
                "is_software": self.device.is_software,
                "shared_bytes": self.device.limits["max-compute-workgroup-storage-size"],
                "invocations": self.device.limits["max-compute-invocations-per-workgroup"],
            }
