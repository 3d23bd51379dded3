"""The wgpu runtime: kernels as WGSL on any GPU, through wgpu-native.

Launches and copies are kept until a flush (`SUBMIT_AFTER` of them flush by themselves), encoded in
one command buffer, and submitted; the device works through submissions in order.  Nothing waits but
``read``, ``wait`` and ``synchronize``, and these poll and sleep, so that other threads can submit
meanwhile and an event loop runs on under the ``_async`` forms.

Errors.  What can be known at a launch is raised there: bindings that do not fit, a grid too large.
What shows at the flush, an external buffer destroyed since, poisons what the launch was to write,
and all that is computed from it: the next read of any of these raises, and names the kernel.  Stale
memory is never returned.  A lost device is an error of every call from then on.

wgpu-native aborts the process when a submit meets an error, a lost or destroyed device above all.
So before each submit: the device was not destroyed, ``finish`` took every command, and every
external buffer is alive and unmapped.  What remains is another thread that destroys the device or a
buffer between that check and the submit: an application that does that must not.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil
import wgpu

from pyrite.errors import DeviceError, KernelError, PyriteError
from pyrite.kernel.ir import Kernel
from pyrite.kernel.passes.legalize import WEBGPU, Capabilities, legalize
from pyrite.kernel.passes.split_buffers import split_buffers
from pyrite.kernel.target.wgsl import to_wgsl
from pyrite.kernel.verify import verify
from pyrite.runtime.interruption import Uninterrupted
from pyrite.runtime.protocol import MemoryReport, Step, Wanted
from pyrite.runtime.resource import BindingResource, own_memory
from pyrite.runtime.wgpu.adapter import Device, open_device
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.bundle import WgpuBundle
from pyrite.runtime.wgpu.executable import Executable, Form, Signature, bound, check_limits
from pyrite.runtime.wgpu.memory import ALIGNMENT, USAGE, Buffer, Lease, Pool, Storage
from pyrite.runtime.wgpu.native import (
    NativeError,
    Pointer,
    Progress,
    captured,
    ffi,
    lib,
    opening,
    poll,
    polling,
)
from pyrite.runtime.wgpu.resource import BufferResource
from pyrite.runtime.wgpu.shader import Layouts, require_life
from pyrite.runtime.wgpu.staging import ReadBack, ReadBackPool, Upload
from pyrite.runtime.wgpu.submission import (
    Command,
    Copy,
    Launch,
    Place,
    Staged,
    Submission,
    encode,
)
from pyrite.types import Array, DType, Number, Shape, float16, float64, int64, uint64

#: So many commands are submitted without being asked for, to keep the device busy.
SUBMIT_AFTER = 64

#: So many submissions may be under way; the host waits for the oldest.
IN_FLIGHT = 64

#: Bytes that are copied by another thread when a read is awaited, for the event loop's sake.
AWAY = 1 << 20

#: So many compiled kernels are remembered; who holds another one can still launch it.
KERNELS = 4096

#: Bytes of the uniform buffer of a device without immediates: 256 launches of a submission.
UNIFORMS = 64 << 10


class WgpuRuntime:
    """A device that runs kernels, safe to use from many threads.

    ``limit`` bounds the memory reserved on the device, in bytes.  Without it a GPU's driver says
    when there is no room; a software adapter, whose memory is the machine's, gets three quarters.
    """

    alignment = ALIGNMENT

    def __init__(
        self, device: Device | None = None, *, name: str = "wgpu", limit: int | None = None
    ) -> None:
        self.device = open_device() if device is None else device
        self.name = name
        if limit is None and self.device.is_software:
            limit = psutil.virtual_memory().total // 4 * 3
        gpu = self.device.gpu
        self._lock = threading.RLock()
        self._failure: str | None = None
        largest = self.device.limits["max-buffer-size"] & -ALIGNMENT
        self._pool = Pool(
            self._create, self._drain, self._forget,
            limit=limit, largest=largest,
        )  # fmt: skip
        self._layouts = Layouts(self.device)
        self._groups = BindGroups(self.device)
        self._upload = Upload(
            self._create_staging, self.flush, self._wait_until, self._require_life
        )
        self._read_backs = ReadBackPool(self._create_staging, largest)
        self._executables: OrderedDict[str, Executable] = OrderedDict()
        self._capabilities = _capabilities(self.name, self.device)
        self._pending = Submission(1)
        self._progress = Progress()
        self._has_poison = False
        self._uniform = None if self.device.has_immediates else _create_uniform(gpu)
        self._counts = dict.fromkeys(("launches", "uploads", "read_backs", "submissions"), 0)
        with opening:
            _runtimes.add(self)

    # Kernels.

    def compile(self, kernel: Kernel) -> Executable:
        """Return the kernel compiled; the same one again for an equal kernel.

        Raises KernelError if it is not legal or does not compile here, DTypeError if the device
        lacks a dtype that it needs.
        """
        with self._lock:
            self._check()
            found = self._executables.get(kernel.digest)
            if found is None:
                found = self._compile(kernel)
                self._executables[kernel.digest] = found
                if len(self._executables) > KERNELS:
                    self._executables.popitem(last=False)
            else:
                self._executables.move_to_end(kernel.digest)
            return found

    def _compile(self, kernel: Kernel) -> Executable:
        legal = legalize(verify(kernel), self._capabilities)
        check_limits(legal, self.device)
        features = self.device.features

        def text(form: Form) -> str:
            parts = form.parts
            return to_wgsl(
                split_buffers(legal, parts, self.device.max_binding) if parts else legal,
                features,
                all_writable=form.all_writable,
                is_folded=form.is_folded,
                has_immediates=form.has_immediates,
            )

        return Executable(self._layouts, Signature.of(legal), text, is_trusted=True, kernel=kernel)

    def compile_wgsl(self, source: str, signature: Signature) -> Executable:
        """Return a user's WGSL compiled, with the checks that a browser makes.

        Its entry point is ``main``; in group 0 its buffers are bindings 0, 1, … and its numbers, if
        any, a uniform struct as the next.  Raises KernelError with the line that is wrong.
        """
        with self._lock:
            self._check()
            return Executable(self._layouts, signature, lambda _: source, is_trusted=False)

    def launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Append one run of ``grid`` workgroups; a binding for each parameter of the kernel.

        Raises KernelError if the bindings do not fit the parameters, or the grid the kernel.
        """
        buffers, numbers = executable.part(bindings)
        is_folded = executable.check_grid(grid)
        if 0 not in grid:
            self._launch(executable, buffers, numbers, grid, is_folded)

    def _launch(
        self,
        executable: Executable,
        buffers: list[Buffer],
        numbers: list[Number],
        grid: Sequence[int],
        is_folded: bool,
    ) -> None:
        """Append a launch whose bindings fit; a folded grid is spread over two axes."""
        x, y, z = (*grid, 1, 1)[:3]
        if is_folded:
            numbers.append(x)
            y = -(-x // executable.largest_grid)
            x = -(-x // y)
        writes = executable.signature.writes
        parts = executable.parts(buffers)
        variant = executable.variant(
            all_writable=_is_read_and_written(buffers, writes), is_folded=is_folded, parts=parts
        )
        visible = bound(buffers, parts, executable.largest_binding) if parts else buffers
        arguments = variant.pack(numbers) if numbers else b""
        with self._lock:
            self._check()
            uniform = self._uniform if variant.layout.uniform_size else None
            raw = uniform._internal if uniform is not None else None
            offset = None
            if uniform is not None:
                offset, arguments = self._append_uniform(arguments), b""
            group = self._groups.get(variant.layout, visible, raw, executable.name)
            self._counts["launches"] += 1
            contents = [buffer.contents for buffer in buffers]
            self._append(
                Launch(
                    executable.name,
                    variant.pipeline,
                    group,
                    (x, y, z),
                    arguments,
                    offset,
                    contents,
                    writes,
                )
            )

    def bundle(self, steps: Sequence[Step]) -> WgpuBundle:
        """Return launches, in order, that can be made many times."""
        return WgpuBundle(self._launch, steps)

    # Memory.

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer with unspecified contents.  Raises DeviceError when there is no room."""
        with self._lock:
            self._check()
            return self._pool.allocate(nbytes)

    def upload(self, array: Array) -> Buffer:
        """Return a buffer of a copy of the array's elements, in row-major order."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with self._lock:
            self._check()
            buffer = self._pool.allocate(len(data))
            self._counts["uploads"] += 1
            start = 0
            while start < len(data):
                source, offset, count = self._upload.write(data[start:])
                self._append_upload(Staged(source, offset), Place(buffer, start), count)
                start += count
            return buffer

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
        with self._lock:
            self._check()
            if target.nbytes:
                self._append(Copy("copy", Place(source), Place(target), target.nbytes))

    def from_buffer(self, gpu: Any, offset: int = 0, nbytes: int | None = None) -> Buffer:
        """Return an application's ``wgpu.GPUBuffer``, or a part of it, as a buffer.

        It stays the application's: Pyrite reads and writes it on the device's own queue and never
        gives it to anybody else.  Raises DeviceError if it belongs to another device, lacks a usage
        flag, or is not cut at whole vectors.
        """
        if not isinstance(gpu, wgpu.GPUBuffer) or gpu._device is not self.device.gpu:
            raise DeviceError(
                f"from_buffer requires a wgpu.GPUBuffer of the device of {self.name}, got "
                f"{type(gpu).__name__}; make {self.name} by init_device(your device)"
            )
        missing = [flag for flag in _FLAGS if not gpu.usage & getattr(wgpu.BufferUsage, flag)]
        if missing:
            raise DeviceError(
                f"from_buffer requires the usage flags {' | '.join(_FLAGS)}, got a buffer "
                f"without {' | '.join(missing)}; add them in create_buffer(usage=...)"
            )
        size = gpu.size - offset if nbytes is None else nbytes
        # Kernels may read whole vectors: see binding.bound_size.
        if offset % ALIGNMENT or offset + size > gpu.size or gpu.size % 16:
            raise DeviceError(
                f"from_buffer requires an offset that is a multiple of {ALIGNMENT} inside a buffer "
                f"of whole vectors of 16 bytes, got {size} bytes at {offset} of {gpu.size}"
            )
        storage = Storage(gpu, gpu.size, is_external=True)
        return Buffer(Lease(storage, gpu.size), offset, size)

    def renew(self, buffer: Buffer) -> Buffer:
        """Return an application's buffer as it is after the application wrote to it.

        What is asked of ``buffer`` itself from here on is an error of the next read: its values are
        gone.  Raises DeviceError for memory that is not the application's.
        """
        if not buffer.storage.is_external:
            raise own_memory()
        with self._lock:
            self._check()
            self._has_poison = True
            buffer.contents.error = DeviceError(
                "a tensor requires the values that it was made with, got a view or clone from "
                "before invalidate(); use the tensor that was invalidated, or copy it before"
            )
        lease = Lease(buffer.storage, buffer.lease.nbytes)
        return Buffer(lease, buffer.offset, buffer.nbytes)

    def get_resource(self, buffer: Buffer) -> BindingResource[BufferResource]:
        """Return the ``wgpu.GPUBuffer`` under a buffer, after a flush."""
        self.flush()
        return BindingResource(BufferResource(buffer))

    def memory_report(self) -> MemoryReport:
        """How much device memory is in use, rounding to size classes included."""
        with self._lock:
            return self._pool.report()

    def trim(self) -> None:
        """Give free memory back to the device."""
        with self._lock:
            self._pool.trim()
            self._upload.trim()
            self._read_backs.trim()

    # Submissions.

    def flush(self) -> int:
        """Hand what was appended to the device and return the number of the last submission.

        Raises DeviceError if the device is lost.
        """
        with self._lock:
            self._check()
            pending = self._pending
            if not len(pending):
                return pending.number - 1
            # Whole: commands that are dropped, or run twice, would be wrong values.
            with Uninterrupted():
                commands = self._encode(self._sound(pending))
                self._pending = Submission(pending.number + 1)
                self._submit(pending, commands)
            if pending.number - self._progress.completed > IN_FLIGHT:
                self._wait_until(lambda: self._progress.completed >= pending.number - IN_FLIGHT)
            return pending.number

    def is_done(self, submission: int) -> bool:
        """Whether the device has done everything up to that submission."""
        self._check()
        if self._progress.completed < submission:
            poll(self.device.raw)
        return self._progress.completed >= submission

    def wait(self, submission: int) -> None:
        """Return when the device has done everything up to that submission.

        Raises DeviceError if there was no such submission, or the device is lost meanwhile.
        """
        if submission >= self._pending.number:
            raise DeviceError(
                f"wait requires a submission that was made, got {submission}; the last was "
                f"{self._pending.number - 1}"
            )
        self._wait_until(lambda: self._progress.completed >= submission)
        self._require_life()

    def synchronize(self) -> None:
        """Flush, and wait for everything."""
        self.wait(self.flush())

    async def synchronize_async(self) -> None:
        """Flush, and wait for everything while the event loop runs on."""
        submission = self.flush()
        await self._until(lambda: self._progress.completed >= submission)
        self._require_life()

    # Reading.

    def read(self, buffer: Buffer, dtype: DType, shape: Shape) -> Array:
        """Flush, wait for what was appended so far, and return the values, a new array."""
        return self.read_all([(buffer, dtype, shape)])[0]

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush and one wait."""
        read_backs = self._request(wanted)
        self._wait_until(lambda: all(r.is_ready() for r in read_backs))
        return self._finish(read_backs, wanted)

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush, while the event loop runs on."""
        read_backs = self._request(wanted)
        await self._until(lambda: all(r.is_ready() for r in read_backs))
        if sum(buffer.nbytes for buffer, _, _ in wanted) < AWAY:
            return self._finish(read_backs, wanted)
        return await asyncio.to_thread(self._finish, read_backs, wanted)

    def _request(self, wanted: Wanted) -> list[ReadBack]:
        with self._lock:
            self._check()
            groups = self._read_backs.together([buffer for buffer, _, _ in wanted])
            read_backs = [ReadBack(self._read_backs, group) for group in groups]
            for read_back in read_backs:
                for buffer, offset in zip(read_back.buffers, read_back.offsets, strict=True):
                    if buffer.nbytes:
                        target = Staged(read_back.gpu, offset)
                        self._append(Copy("read", Place(buffer), target, buffer.nbytes))
            self._counts["read_backs"] += 1
            self.flush()
            for read_back in read_backs:
                read_back.request()
            return read_backs

    def _finish(self, read_backs: list[ReadBack], wanted: Wanted) -> list[Array]:
        with self._lock:
            self._require_life()
            arrays = [array for read_back in read_backs for array in read_back.finish()]
        for buffer, _, _ in wanted:
            error = buffer.contents.error
            if error is not None:
                raise type(error)(*error.args)
        return [
            array.view(dtype.numpy).reshape(shape)
            for array, (_, dtype, shape) in zip(arrays, wanted, strict=True)
        ]

    # The end, and how things stand.

    def close(self) -> None:
        """Wait for everything and end; idempotent."""
        with self._lock:
            if self._failure is None:
                self.synchronize()
                self.trim()
            self._fail("it was closed")

    def report(self) -> dict[str, Any]:
        """Counters by name."""
        with self._lock:
            return {
                **self._counts,
                "kernels": len(self._executables),
                "bind_groups": len(self._groups),
                "bind_group_hits": self._groups.hits,
                "bind_group_misses": self._groups.misses,
                "staging_bytes": self._upload.nbytes + self._read_backs.nbytes,
                "adapter": self.device.name,
                "is_software": self.device.is_software,
                "shared_bytes": self.device.limits["max-compute-workgroup-storage-size"],
                "invocations": self.device.limits["max-compute-invocations-per-workgroup"],
            }

    def _check(self) -> None:
        if self._failure is None and self.device.is_destroyed:
            self._fail("it was destroyed")
        if self._failure is not None:
            raise DeviceError(f"{self.name} requires a device that works, got: {self._failure}")

    def _require_life(self) -> None:
        """Raise DeviceError if the device was lost, which only an attempt to use it shows.

        To look at mapped memory of a lost device aborts the process.
        """
        self._check()
        try:
            require_life(self.device)
        except NativeError as error:
            self._check_loss(error)

    def _fail(self, reason: str) -> None:
        """Every later call is a DeviceError, and what was pending is dropped."""
        if self._failure is None:
            self._failure = reason
            self._pending = Submission(self._pending.number)

    # How commands come to be submitted.  Callers hold the lock.

    def _append(self, command: Command) -> None:
        pending = self._pending
        is_external = False
        for contents in command.touched():
            contents.storage.last_use = pending.number
            is_external = is_external or contents.storage.is_external
        pending.commands.append(command)
        # The application may write to its buffer next: what was asked for before comes first.
        if is_external or len(pending) >= SUBMIT_AFTER:
            self.flush()

    def _append_upload(self, source: Staged, target: Place, nbytes: int) -> None:
        """Append it before all commands of the submission, if none of them touches the target."""
        pending = self._pending
        is_touched = target.contents.storage.last_use == pending.number
        commands = pending.commands if is_touched else pending.uploads
        commands.append(Copy("upload", source, target, nbytes))
        if len(pending) >= SUBMIT_AFTER:
            self.flush()

    def _append_uniform(self, arguments: bytes) -> int:
        """Lay out a launch's arguments and return where they will be in the uniform buffer."""
        if len(self._pending.uniforms) + ALIGNMENT > UNIFORMS:
            self.flush()
        uniforms = self._pending.uniforms
        offset = len(uniforms)
        uniforms += arguments.ljust(ALIGNMENT, b"\0")
        return offset

    def _sound(self, pending: Submission) -> list[Command]:
        """The commands without those that cannot run; what these were to write is poisoned."""
        dead = self._dead_buffers(pending)
        if not dead and not self._has_poison:
            return list(pending)
        return [command for command in pending if self._is_sound(command, dead)]

    def _dead_buffers(self, pending: Submission) -> dict[Storage, str]:
        external = {
            contents.storage
            for command in pending
            for contents in command.touched()
            if contents.storage.is_external
        }
        found = ((storage, self._why_dead(storage)) for storage in external)
        return {storage: why for storage, why in found if why is not None}

    def _why_dead(self, storage: Storage) -> str | None:
        if storage.gpu.map_state != "unmapped":
            return "is mapped; unmap it before Pyrite uses it"
        layout = self._layouts.get((True,), immediate_size=0, uniform_size=0)
        try:
            layout.create_group(self.device, [(storage.raw, 0, _probe_size(storage))])
        except NativeError:
            return "was destroyed"
        return None

    def _why_not(self, command: Command, dead: dict[Storage, str]) -> PyriteError | None:
        for contents in command.touched():
            if contents.error is not None:
                return contents.error
            if contents.storage in dead:
                why = dead[contents.storage]
                return DeviceError(
                    f"{command.name} requires external buffers that it can use, got one that {why}"
                )
        return None

    def _is_sound(self, command: Command, dead: dict[Storage, str]) -> bool:
        error = self._why_not(command, dead)
        if error is not None:
            self._poison(command, error)
        return error is None

    def _poison(self, command: Command, error: PyriteError) -> None:
        self._has_poison = True
        for contents in command.written():
            contents.error = error

    def _encode(self, commands: list[Command]) -> Pointer | None:
        """The command buffer of the commands that are legal; the others' results are poisoned."""
        if not commands:
            return None
        try:
            return encode(self.device, commands)
        except NativeError as error:
            self._check_loss(error)
        return self._encode_legal(commands)

    def _encode_legal(self, commands: list[Command]) -> Pointer:
        # In order: what reads the result of an illegal command is not to run either.
        legal = [c for c in commands if self._is_sound(c, {}) and self._is_legal(c)]
        try:
            return encode(self.device, legal)
        except NativeError as error:
            self._check_loss(error)
            self._fail(f"commands that are legal one by one, but not together ({error})")
            raise DeviceError(f"flush requires legal commands, got\n{error}") from None

    def _is_legal(self, command: Command) -> bool:
        try:
            encode(self.device, [command])
        except NativeError as error:
            self._check_loss(error)
            failure = KernelError(f"{command.name} requires a legal command, got\n{error}")
            self._poison(command, failure)
            return False
        return True

    def _check_loss(self, error: NativeError) -> None:
        if error.is_loss:
            self._fail(f"it was lost ({str(error).splitlines()[-1].strip()})")
        self._check()

    def _submit(self, submission: Submission, commands: Pointer | None) -> None:
        queue = self.device.queue
        chunks = self._upload.before_submit()
        try:
            with captured():
                if submission.uniforms and self._uniform is not None:
                    data = ffi.from_buffer(submission.uniforms)
                    lib.wgpuQueueWriteBuffer(queue, self._uniform._internal, 0, data, len(data))
                if commands is not None:
                    self._check()
                    lib.wgpuQueueSubmit(queue, 1, ffi.new("WGPUCommandBuffer[1]", [commands]))
                self._upload.after_submit(chunks)
                self._progress.watch(queue, submission.number)
        except NativeError as error:
            self._fail(f"a submission failed ({error})")
            self._check()
        self._counts["submissions"] += 1

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        for pause in _pauses():
            if self._is_now(ready):
                return
            time.sleep(pause)

    async def _until(self, ready: Callable[[], bool]) -> None:
        for pause in _pauses():
            if self._is_now(ready):
                return
            await asyncio.sleep(pause)

    def _is_now(self, ready: Callable[[], bool]) -> bool:
        self._check()
        poll(self.device.raw)
        return ready()

    def _create(self, size: int, usage: int = USAGE, is_mapped: bool = False) -> Any:
        """A device buffer.  Raises MemoryError where there is no room."""
        gpu = self.device.gpu
        try:
            return gpu.create_buffer(size=size, usage=usage, mapped_at_creation=is_mapped)
        except wgpu.GPUOutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        except wgpu.GPUError as error:
            self._check_loss(NativeError("", str(error)))
            raise DeviceError(f"allocate requires a buffer of the device, got: {error}") from None

    def _create_staging(self, size: int, usage: int, is_mapped: bool) -> Any:
        try:
            return self._create(size, usage, is_mapped)
        except MemoryError as error:
            raise DeviceError(
                f"a transfer requires {size:,} bytes of memory shared with {self.name}, got {error}"
            ) from None

    def _drain(self) -> None:
        submission = self.flush()
        self._wait_until(lambda: self._progress.completed >= submission)

    def _forget(self, storage: Storage) -> None:
        self._groups.forget(storage)


_FLAGS = ("STORAGE", "COPY_SRC", "COPY_DST")


def _capabilities(name: str, device: Device) -> Capabilities:
    """What kernels have in registers and in memory on the device."""
    optional = {
        float16: "shader-f16",
        float64: "shader-f64",
        int64: "shader-int64",
        uint64: "shader-int64",
    }
    more = {dtype for dtype, feature in optional.items() if feature in device.features}
    return Capabilities(name, WEBGPU.computes | more, WEBGPU.stores | more)


def _is_read_and_written(buffers: list[Buffer], writes: tuple[bool, ...]) -> bool:
    """Whether some storage is bound both ways in one dispatch."""
    storages = {buffer.key[0] for buffer in buffers}
    if len(storages) == len(buffers):
        return False
    written = {b.key[0] for b, w in zip(buffers, writes, strict=True) if w}
    return any(b.key[0] in written for b, w in zip(buffers, writes, strict=True) if not w)


def _probe_size(storage: Storage) -> int:
    return min(storage.capacity, ALIGNMENT)


def _create_uniform(gpu: Any) -> Any:
    usage = int(wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
    return gpu.create_buffer(size=UNIFORMS, usage=usage)


def _pauses() -> Iterator[float]:
    """Seconds between polls: at first none, then a tenth of what was waited, up to 1 ms."""
    start = time.perf_counter()
    while True:
        waited = time.perf_counter() - start
        yield 0.0 if waited < 200e-6 else min(waited / 10, 1e-3)


_runtimes: weakref.WeakSet[WgpuRuntime] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has none of the driver's threads: nothing of its parent's device works there."""
    for runtime in _runtimes:
        runtime._lock = threading.RLock()
        runtime._fail("this process is a fork of the one that opened it; open it in the child")


def _stop_others() -> None:
    for lock in _shared_locks:
        lock.acquire()


def _let_others() -> None:
    for lock in _shared_locks:
        lock.release()


_shared_locks = (opening, polling)

if hasattr(os, "register_at_fork"):
    # A child must not get a lock that another thread held.
    os.register_at_fork(
        before=_stop_others, after_in_parent=_let_others, after_in_child=_let_others
    )
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    """Stop daemon threads before they call wgpu-native again; this thread still may."""
    opening.acquire()
    for runtime in _runtimes:
        runtime._lock.acquire()
    polling.acquire()
