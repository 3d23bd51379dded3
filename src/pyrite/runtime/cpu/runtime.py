"""The CPU as a runtime: kernels compiled by LLVM, launched in order on native threads."""

from __future__ import annotations

import math
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np

from pyrite.config import config
from pyrite.errors import DeviceError, KernelError
from pyrite.kernel.ir import Kernel
from pyrite.kernel.target.llvm import SYMBOL, LLVMTarget, lowered, to_llvm
from pyrite.kernel.verify import verify
from pyrite.recent import KERNELS, Recent
from pyrite.runtime.bundle import NewBuffers
from pyrite.runtime.cache import DiskCache, default_cache
from pyrite.runtime.cpu.bundle import CpuBundle, Words
from pyrite.runtime.cpu.bundle_memory import LentBuffers
from pyrite.runtime.cpu.compilation import Compilation, Compilations
from pyrite.runtime.cpu.config import CpuConfig
from pyrite.runtime.cpu.executable import CpuExecutable, Streaming
from pyrite.runtime.cpu.executor import COPY_GROUP, COPY_WORK, FUNCTION, Executor, command
from pyrite.runtime.cpu.grain import chunk_size, smallest_chunk, work_of
from pyrite.runtime.cpu.guarded_memory import GuardedAllocator
from pyrite.runtime.cpu.host import machine_of
from pyrite.runtime.cpu.memory import (
    ALIGNMENT,
    BUFFERS,
    Allocator,
    CpuBuffer,
    SizeClass,
    is_held_once,
    size_class,
)
from pyrite.runtime.cpu.module import Retired
from pyrite.runtime.cpu.self_test import compiler_for
from pyrite.runtime.cpu.shared_memory import SharedBlock, SharedMemory
from pyrite.runtime.cpu.stream import Late, Stream, address_of
from pyrite.runtime.kernel_cache import KernelCache
from pyrite.runtime.protocol import (
    Buffer,
    BundledLaunch,
    BundleMemory,
    Executable,
    Held,
    MemoryReport,
    Wanted,
)
from pyrite.runtime.resource import BindingResource, HostResource, own_memory
from pyrite.synchronization import awaited
from pyrite.types import Array, DType, Number, Shape, float32


class CpuRuntime:
    """The processors of this computer: see `pyrite.runtime.protocol.Runtime`."""

    name = "cpu"
    alignment = ALIGNMENT
    lacking: Mapping[DType, str] = {}
    is_host = True

    def __init__(
        self,
        *,
        threads: int | None = None,
        cache: DiskCache | Path | None = None,
        target: LLVMTarget | None = None,
        config: CpuConfig | None = None,
    ) -> None:
        self.config = config or CpuConfig()
        disk = DiskCache(cache) if isinstance(cache, Path) else cache or default_cache()
        self.compiler = compiler_for(target, disk)
        self.target = self.compiler.target
        self._executor = Executor(self.compiler, threads, patience=self.config.patience)
        self.machine = machine_of(self.target, self._executor.width)
        self._stream = Stream(self._executor, together=self.config.together)
        self._executables: Recent[str, CpuExecutable] = Recent(KERNELS)
        self._compilations = Compilations(self._executor.width - 1)
        #: Kernels as they were written, on disk; None where each is to be written.
        self.kernel_cache = self._kernel_cache()
        self._retired = Retired(self._stream.now, self._stream.done)
        self._counts: Counter[str] = Counter()
        self._shared = SharedMemory(self._stream.now, self._stream.done)
        self._allocator: Allocator | GuardedAllocator = Allocator(
            self._stream.now, self._stream.done, later=self._compilations.do_later
        )
        weakref.finalize(self, self._executor.close).atexit = False

    @property
    def stream(self) -> Stream:
        """The launches, in order."""
        return self._stream

    @property
    def lend(self) -> Callable[[SizeClass, int], CpuBuffer] | None:
        """What lends blocks of known classes; None where memory is guarded."""
        return self._allocator.lend if isinstance(self._allocator, Allocator) else None

    # ---- kernels ----

    def _kernel_cache(self) -> KernelCache | None:
        compiler = self.compiler
        if config.kept_kernels == "off" or compiler.cache.folder is None:
            return None
        return KernelCache(compiler.cache, compiler.key(), self._compilations.do_later)

    def compile(self, kernel: Kernel) -> CpuExecutable:
        """Return the kernel compiled; the same one again for an equal kernel."""
        made = self.compile_later(kernel)
        made.code.result()
        return made

    def compile_later(self, kernel: Kernel) -> CpuExecutable:
        """Return the kernel, which other threads compile meanwhile."""
        self._executor.check()
        found = self._executables.get(kernel.digest)
        if found is not None:
            return found
        self._retired.unload()
        work = work_of(kernel, self.target.vector_bytes)
        abreast = min(kernel.invocations, self.target.lanes(float32))
        code = self._load(kernel, Streaming())
        made = CpuExecutable(kernel, code, work, self._retired, abreast)
        self._executables.put(kernel.digest, made)
        return made

    def source(self, kernel: Kernel) -> str:
        """Return the LLVM IR of a kernel, before LLVM's own passes."""
        return to_llvm(lowered(verify(kernel), self.target), self.target)

    def _load(self, kernel: Kernel, streaming: Streaming) -> Compilation:
        """Return the code of a kernel: loaded if it is on disk, otherwise begun."""
        compiler = self.compiler
        key = compiler.key("kernel", kernel.digest, repr(tuple(streaming)))
        found = compiler.found(key, SYMBOL)
        if found is not None:
            return Compilation.done(self._compilations, found)
        self._counts["compiled"] += 1
        text = self._text(kernel, streaming)
        return self._compilations.submit(
            lambda: compiler.compile(text),
            lambda blob: compiler.load(blob, SYMBOL),
            lambda blob: compiler.cache.put(blob, *key),
        )

    def _text(self, kernel: Kernel, streaming: Streaming) -> str:
        streams, wholes, multiple = streaming
        simplified = lowered(verify(kernel), self.target, wholes=wholes, multiple=multiple)
        return to_llvm(simplified, self.target, streams=streams)

    def launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Append one run of ``grid`` workgroups; a binding for each parameter of the kernel."""
        assert isinstance(executable, CpuExecutable), "an executable of this runtime"
        words, nanoseconds, late = self._command(executable, bindings, grid)
        if late is not None:
            self._stream.extend_late(Late(array("q", words), ((FUNCTION, late),)), nanoseconds)
        elif words:
            self._stream.extend(words, nanoseconds)

    def launch_counted(
        self, executable: Executable, bindings: Sequence[Buffer | Number], counts: Buffer
    ) -> None:
        """Append one run of as many workgroups as ``counts`` says when its turn comes."""
        assert isinstance(executable, CpuExecutable), "an executable of this runtime"
        assert isinstance(counts, BUFFERS)
        slots = executable.slots(bindings)
        config = self.config
        words = self._executor.counted(
            counts.address, address_of(self._code(executable, bindings).result()), slots,
            smallest_chunk(config, executable.work(bindings)),
            self._executor.width * config.most_shares,
        )  # fmt: skip
        # It may be much: nobody knows before.
        self._stream.extend(words, config.together)

    def bundle(self, steps: Sequence[BundledLaunch]) -> CpuBundle:
        """Return launches, in order, that can be made many times."""
        return CpuBundle(self._stream, self._command, steps)

    def _command(
        self, executable: CpuExecutable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> Words:
        """Return the words of a launch, none for one of no workgroups, and its nanoseconds."""
        slots = executable.slots(bindings)
        sizes = _grid(executable.kernel, grid)
        count = math.prod(sizes)
        if count == 0:
            return Words(b"", 0.0)
        work = executable.work(bindings)
        chunk = chunk_size(self.config, work, count, self._executor.width)
        nanoseconds, code = work * count / executable.abreast, self._code(executable, bindings)
        found = code.code
        if found is None:
            return Words(command(0, sizes, slots, chunk), nanoseconds, code)
        return Words(command(address_of(found), sizes, slots, chunk), nanoseconds)

    def _code(self, executable: CpuExecutable, bindings: Sequence[Buffer | Number]) -> Compilation:
        """Return the code for a launch."""
        least = self.config.streamed
        streams = tuple([p for p in executable.written if _is_streamed(bindings[p], least)])
        if not streams:
            return executable.code
        streaming = executable.streaming_of(streams, bindings)
        found = executable.streaming.get(streaming)
        if found is None:
            found = executable.add_streaming(streaming, self._load(executable.kernel, streaming))
        return found

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Append a copy of ``target.nbytes`` bytes from the beginning of source."""
        assert isinstance(source, BUFFERS)
        assert isinstance(target, BUFFERS)
        if source.nbytes < target.nbytes:
            raise KernelError(f"copy requires {target.nbytes} bytes, got {source.nbytes}")
        grid = (-(-target.nbytes // COPY_GROUP), 1, 1)
        slots = pack("=3q", target.address, source.address, target.nbytes)
        if grid[0]:
            words = command(self._executor.copy_function, grid, slots, 1)
            self._stream.extend(words, grid[0] * COPY_WORK)

    # ---- order ----

    def flush(self) -> int:
        """Hand what was appended to the threads and return the number of the last submission."""
        return self._stream.flush()

    def is_done(self, submission: int) -> bool:
        """Whether everything up to that submission is done."""
        self._executor.check()
        return self._executor.completed >= submission

    def wait(self, submission: int) -> None:
        """Return when everything up to that submission is done; this thread helps."""
        self._stream.wait(submission)

    def synchronize(self) -> None:
        """Flush, and wait for everything."""
        self._stream.synchronize()
        self._shared.take_back()

    async def synchronize_async(self) -> None:
        """Flush, and wait for everything on a thread of its own, asleep while others work."""
        submission = self._stream.flush()
        await awaited(lambda: self._stream.wait(submission))

    # ---- memory ----

    def allocate(self, nbytes: int) -> CpuBuffer:
        """Return a buffer with unspecified contents."""
        self._executor.check()
        return self._allocator.allocate(nbytes)

    def bundle_memory(self, sizes: Sequence[int], inner: Collection[int]) -> BundleMemory:
        """Return what makes the buffers of a bundle."""
        if isinstance(self._allocator, Allocator):
            return LentBuffers(self._allocator, sizes)
        return NewBuffers(self._allocator.allocate, sizes, size_class)

    def capacity(self, nbytes: int) -> int:
        """Return the bytes of the block for so many."""
        return size_class(nbytes)

    def upload(self, array: Array) -> CpuBuffer:
        """Return a buffer of a copy of the array's elements, in row-major order."""
        self._executor.check()
        buffer = self._allocator.allocate(array.nbytes, for_host=True)
        np.copyto(buffer.bytes().view(array.dtype).reshape(array.shape), array)
        return buffer

    def adopt(self, array: Array) -> CpuBuffer | None:
        """Return the memory of an array as a buffer; None unless its elements are aligned.

        Kernels ask for no more than that.  Nor in guarded mode, where buffers lie between poison.
        """
        self._executor.check()
        is_whole = all(stride % array.itemsize == 0 for stride in array.strides)
        if not (array.flags.aligned and array.dtype.isnative and is_whole):
            return None
        return None if isinstance(self._allocator, GuardedAllocator) else self._shared.adopt(array)

    def read(self, buffer: Buffer, dtype: DType, shape: Shape) -> Array:
        """Flush, wait for what was appended so far, and return the values, a new array."""
        return self.read_all([(buffer, dtype, shape)])[0]

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush and one wait."""
        self._counts["read_backs"] += 1
        self.synchronize()
        return _copies(wanted)

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush; the wait and the copies are elsewhere."""
        self._counts["read_backs"] += 1
        submission = self._stream.flush()

        def read() -> list[Array]:
            self._stream.wait(submission)
            return _copies(wanted)

        return await awaited(read)

    def get_resource(self, buffer: Buffer) -> BindingResource[HostResource]:
        """Return the bytes of a buffer, when all that was appended is done."""
        assert isinstance(buffer, BUFFERS)
        self.synchronize()
        return BindingResource(HostResource(buffer.lease()))

    def timed_launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Do what `launch` does, and wait: the host's clock is the device's."""
        self.launch(executable, bindings, grid)
        self.synchronize()

    def is_last_holder(self, holder: Sequence[Any], position: int) -> bool:
        """Whether nobody but a list holds a buffer of it, which is one of the runtime's own."""
        return is_held_once(holder, position)

    def is_shared(self, x: Buffer, y: Buffer) -> bool:
        """Whether two buffers have memory in common."""
        assert isinstance(x, BUFFERS)
        assert isinstance(y, BUFFERS)
        return x.address < y.address + y.nbytes and y.address < x.address + x.nbytes

    def renew(self, buffer: Buffer, *, for_kernel: bool = False) -> Buffer:
        """Return the memory of an array, which stays what it is.

        Raises DeviceError for memory of its own, and for a kernel that of a read-only array.
        """
        if buffer.nbytes == 0:
            return buffer  # there is nothing that an array of no elements could share
        if not isinstance(buffer, CpuBuffer) or not isinstance(buffer.block, SharedBlock):
            raise own_memory("out" if for_kernel else "invalidate")
        if for_kernel and not buffer.block.owner.flags.writeable:
            raise DeviceError("out requires memory that may be written, got a read-only array")
        return buffer

    def memory_report(self) -> MemoryReport:
        """Return how much memory is in use."""
        return self._allocator.report()

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        return self._allocator.held()

    def trim(self) -> None:
        """Give free memory back to the system."""
        self._shared.take_back()
        self._allocator.trim()

    # ---- end ----

    def close(self) -> None:
        """Wait for everything and end the threads; idempotent."""
        if not self._executor.is_closed:
            self._stream.flush()
            self._executor.close()

    def report(self) -> dict[str, Any]:
        """Counters by name, and what the code is made for."""
        return {
            "cpu": self.target.cpu,
            "vector_bytes": self.target.vector_bytes,
            "threads": self._executor.width,
            "kernels": len(self._executables),
            "launches": self._stream.launches,
            "submissions": self._executor.submitted,
            "read_backs": 0,
            **self._counts,
            **{f"cache_{name}": n for name, n in self.compiler.cache.counts.items()},
        }


def _grid(kernel: Kernel, grid: Sequence[int]) -> tuple[int, int, int]:
    if len(grid) != kernel.grid or min(grid, default=0) < 0:
        raise KernelError(f"{kernel} requires {kernel.grid} counts of workgroups, got {grid}")
    x, y, z, *_ = *grid, 1, 1, 1
    return (x, y, z)


def _is_streamed(binding: Buffer | Number, least: int) -> bool:
    return (
        isinstance(binding, BUFFERS)
        and binding.nbytes >= least
        and binding.address % ALIGNMENT == 0
    )


def _copies(wanted: Wanted) -> list[Array]:
    return [_values(*one).copy() for one in wanted]


def _values(buffer: Buffer, dtype: DType, shape: Shape) -> Array:
    assert isinstance(buffer, BUFFERS)
    count = math.prod(shape) * dtype.itemsize
    if count > buffer.nbytes:
        raise DeviceError(f"read requires {count} bytes, got a buffer of {buffer.nbytes}")
    return buffer.bytes()[:count].view(dtype.numpy).reshape(shape)
