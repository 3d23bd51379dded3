"""What a runtime is: it compiles kernels, owns memory, and runs launches in order.

A runtime knows kernels and bytes; it knows no op and no tensor.  Work is a **stream**: launches,
fills and copies happen in the order in which they were asked for, whoever asked.  None of them
waits; only `Runtime.read` and `Runtime.wait` do, or, under an event loop that runs on meanwhile,
their ``_async`` forms.  So a buffer that nobody holds any more may be given away at once: whoever
gets it comes later in the stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pyrite.kernel.ir import Kernel
from pyrite.kernel.machine import Machine
from pyrite.runtime.resource import BindingResource, Resource
from pyrite.types import Array, DType, Number, Shape


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes: ``live`` in buffers that somebody holds, ``reserved`` from the device, both at most.

    ``peak`` is the most that was live at a time since the runtime was made.
    """

    live: int
    reserved: int
    peak: int


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer that somebody holds, and what made it, where that was noted: printed, it says so."""

    nbytes: int
    origin: object | None = None


#: The most workgroups on an axis of a launch that is counted on the device: what WebGPU grants.
MOST_COUNTED: Final = 65_535

#: What a read asks for: buffers, and as what each is to be seen.
Wanted = Sequence[tuple[Any, DType, Shape]]


class Owner(Protocol):
    """What a buffer and its views have in common, and is given back as a whole."""

    #: What made it: who allocates a large buffer notes that here.
    origin: object | None


class Buffer(Protocol):
    """Memory of a runtime; given back when nobody holds it."""

    @property
    def owner(self) -> Owner:
        """What it is a part of, or itself."""
        ...

    @property
    def nbytes(self) -> int:
        """Its size in bytes, as asked for."""
        ...

    def view(self, offset: int, nbytes: int) -> Buffer:
        """Return a part of it, which keeps the whole alive.

        ``offset`` is a multiple of the runtime's ``alignment``.
        """
        ...


class Executable(Protocol):
    """A compiled kernel of a runtime."""

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was given to ``compile``."""
        ...

    def pack_kernel(self) -> None:
        """Keep of its kernel what launches need: the body is decoded for who asks for it."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number that is the same in every run of a bundle."""

    value: Number


@dataclass(frozen=True, slots=True)
class BundledLaunch:
    """A launch of a bundle: each binding is an operand, by its position, or a fixed number."""

    executable: Any
    bindings: tuple[int | Fixed, ...]
    grid: tuple[int, ...]
    #: The positions of fixed numbers in which alone it differs from the launch before it, as steps
    #: of a layer do; none for any other launch, and where nothing is before it.
    stepped: tuple[int, ...] = ()

    def bound(self, operands: Sequence[Any]) -> list[Any]:
        """Return what is bound when it is launched with operands."""
        return [b.value if isinstance(b, Fixed) else operands[b] for b in self.bindings]


class Bundle(Protocol):
    """Launches that are prepared once and made many times, with other buffers and numbers."""

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them.  Buffers that they write have the same sizes each time."""
        ...


class BundleMemory(Protocol):
    """What makes the buffers that a bundle writes to, by their sizes and in their order.

    Those of ``inner``, positions among the sizes, live within a run of the bundle.
    """

    def buffers(self, *, are_new: bool = False) -> list[Any]:
        """Return a buffer of each size, with unspecified contents, for one run.

        ``are_new`` is for launches that are made one by one: then none serves another run.
        Raises DeviceError when there is no room.
        """
        ...

    def needed(self, *, are_new: bool = False) -> int:
        """Return by how many bytes `buffers` would add to what is live."""
        ...

    def parts(
        self, buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int],
        sizes: Sequence[int],
    ) -> list[Any]:  # fmt: skip
        """Return parts of buffers: of which one each is, and its offset and bytes in that."""
        ...


class Runtime(Protocol):
    """One device: see the head of this file.  Safe to use from many threads.

    Every method raises DeviceError after ``close``, in a forked child, and when the device is lost.
    """

    #: As users write it: ``"cpu"``, ``"wgpu"``, ``"wgpu:1"``.
    name: str
    #: What the choice of a kernel needs to know of the device.
    machine: Machine
    #: Offsets of views are multiples of this many bytes.
    alignment: int
    #: Dtypes that kernels cannot touch here, and why, as the end of an error says it.
    lacking: Mapping[DType, str]
    #: Whether its memory is the host's, which NumPy sees: `get_resource` gives a `HostResource`.
    is_host: bool

    def compile(self, kernel: Kernel) -> Executable:
        """Return the kernel compiled; the same one again for an equal kernel.

        Raises KernelError if it is not legal or does not compile here, DTypeError if the device
        lacks a dtype that it needs.
        """
        ...

    def compile_later(self, kernel: Kernel) -> Executable:
        """Return the kernel, which may be compiled while launches of it are written.

        Raises what `compile` does for a kernel that is not legal; what does not compile is an error
        of whatever waits for its launches.
        """
        ...

    def source(self, kernel: Kernel) -> str:
        """Return what a kernel is compiled from here, in the language of the device."""
        ...

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer with unspecified contents, or raise OutOfMemoryError."""
        ...

    def capacity(self, nbytes: int) -> int:
        """Return by how many bytes a buffer of so many adds to what is live."""
        ...

    def upload(self, array: Array) -> Buffer:
        """Return a buffer of a copy of the array's elements, in row-major order."""
        ...

    def adopt(self, array: Array) -> Buffer | None:
        """Return the memory from the first to the last element of an array, as a buffer.

        Nothing is written to it.  None where the memory, or this array's, cannot be shared.
        """
        ...

    def launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Append one run of ``grid`` workgroups; a binding for each parameter of the kernel.

        Raises KernelError if the bindings do not fit the parameters, or the grid the kernel.
        """
        ...

    def launch_counted(
        self, executable: Executable, bindings: Sequence[Buffer | Number], counts: Buffer
    ) -> None:
        """Append one run of as many workgroups as ``counts`` says when its turn comes.

        That are three uint32, each of 0 to `MOST_COUNTED`, which the kernel itself does not write.
        """
        ...

    def bundle(self, steps: Sequence[BundledLaunch]) -> Bundle:
        """Return launches, in order, that can be made many times."""
        ...

    def bundle_memory(self, sizes: Sequence[int], inner: Collection[int]) -> BundleMemory:
        """Return what makes the buffers of a bundle; see `BundleMemory`."""
        ...

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Append a copy of ``target.nbytes`` bytes from the beginning of source."""
        ...

    def flush(self) -> int:
        """Hand what was appended to the device and return the number of the last submission."""
        ...

    def is_done(self, submission: int) -> bool:
        """Whether the device has done everything up to that submission."""
        ...

    def wait(self, submission: int) -> None:
        """Return when the device has done everything up to that submission."""
        ...

    def synchronize(self) -> None:
        """Flush, and wait for everything."""
        ...

    async def synchronize_async(self) -> None:
        """Flush, and wait for everything while the event loop runs on."""
        ...

    def read(self, buffer: Buffer, dtype: DType, shape: Shape) -> Array:
        """Flush, wait for what was appended so far, and return the values, a new array."""
        ...

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush and one wait."""
        ...

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values by one flush, while the event loop runs on.

        Nothing may write to the buffers before it returns.
        """
        ...

    def get_resource(self, buffer: Buffer) -> BindingResource[Resource]:
        """Return the memory under a buffer for the application, when all that writes it is ahead.

        On the host it waits for that; a device has it in the order of its queue.
        """
        ...

    def timed_launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> float | None:
        """Do what `launch` does, and wait.

        Return the seconds that it took by the device's own clock, None where there is none.
        """
        ...

    def is_last_holder(self, holder: Sequence[Any], position: int) -> bool:
        """Whether nobody but a list holds a buffer of it, so that it may be written over.

        In doubt it is False, as for memory that is not the runtime's own.
        """
        ...

    def is_shared(self, x: Buffer, y: Buffer) -> bool:
        """Whether two buffers may have memory in common."""
        ...

    def renew(self, buffer: Buffer, *, for_kernel: bool = False) -> Buffer:
        """Return memory of the application as it is after the application wrote to it.

        With ``for_kernel`` a kernel is to write there, and the memory has to allow it.

        Raises DeviceError for memory that is not the application's.
        """
        ...

    def memory_report(self) -> MemoryReport:
        """Return how much memory is in use."""
        ...

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        ...

    def trim(self) -> None:
        """Give free memory back to the device."""
        ...

    def close(self) -> None:
        """Wait for everything and end; idempotent."""
        ...

    def report(self) -> dict[str, Any]:
        """Counters by name, for ``pyrite doctor``: launches, submissions, ``read_backs``.

        ``read_backs`` counts the calls of ``read`` and ``read_all`` in either form.
        """
        ...
