"""The runtime that judges: kernels run by `kernel.interpret` on NumPy memory, at once.

It is slow, checks every access and every missing barrier, and has no device name: what runs on it
is right, or the kernel is wrong.  An operand that is a view has its own elements and no others.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite.errors import DeviceError
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import Kernel
from pyrite.kernel.machine import Machine
from pyrite.kernel.text import to_text
from pyrite.kernel.verify import verify
from pyrite.runtime.bundle import LaunchList, NewBuffers
from pyrite.runtime.poison import Reach
from pyrite.runtime.protocol import BundledLaunch, Held, MemoryReport, Wanted
from pyrite.runtime.resource import BindingResource, HostResource, own_memory
from pyrite.types import Array, DType, Number, Shape, element_count

#: Fresh memory holds these bytes, so that a value that was never written is seen: as a float32 it
#: is -3.7e-13, as an int32 -1414812757, and as a bool it is neither true nor false.
_UNWRITTEN = 0xAB


@dataclass(slots=True, weakref_slot=True, eq=False)
class InterpreterBuffer:
    """Bytes of the host; of a view with a reach no others are touched."""

    data: Array
    reach: Reach | None = None
    #: What made it, where that was noted.
    origin: object | None = None

    @property
    def owner(self) -> InterpreterBuffer:
        """Itself: a view is told apart."""
        return self

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return len(self.data)

    def view(self, offset: int, nbytes: int) -> InterpreterBuffer:
        """Return a part of it, which keeps the whole alive."""
        return InterpreterBuffer(self.data[offset : offset + nbytes])


@dataclass(frozen=True, slots=True)
class InterpretedKernel:
    """A kernel that was verified."""

    kernel: Kernel

    def pack_kernel(self) -> None:
        """Do nothing: the body is what runs."""


class InterpreterRuntime:
    """A runtime on NumPy; see the head of this file."""

    name: str = "interpreter"
    #: As small as the widest element allows, so that views at odd places are tried.
    alignment = 8
    lacking: Mapping[DType, str] = {}
    #: It keeps a record of each element, which arrays of others have not.
    is_host = False

    def __init__(self, machine: Machine | None = None) -> None:
        #: Kernels are chosen as for this device; for a GPU that grants WebGPU's default limits.
        self.machine = machine or Machine.gpu()
        self._executables: dict[str, InterpretedKernel] = {}
        self._buffers: weakref.WeakSet[InterpreterBuffer] = weakref.WeakSet()
        self._peak = 0
        self._launches = 0
        self._read_backs = 0
        self._is_closed = False

    def compile_later(self, kernel: Kernel) -> InterpretedKernel:
        """Do what `compile` does."""
        return self.compile(kernel)

    def compile(self, kernel: Kernel) -> InterpretedKernel:
        """Return the kernel, verified; an equal one where its lines are the same."""
        self._require_open()
        found = self._executables.get(kernel.digest)
        if found is None or list(found.kernel.lines.values()) != list(kernel.lines.values()):
            found = self._executables[kernel.digest] = InterpretedKernel(verify(kernel))
        return found

    def source(self, kernel: Kernel) -> str:
        """Return the IR, which is what it runs."""
        return to_text(kernel)

    def allocate(self, nbytes: int) -> InterpreterBuffer:
        """Return a buffer that holds a pattern."""
        return self._hold(np.full(nbytes, _UNWRITTEN, np.uint8))

    def bundle_memory(self, sizes: Sequence[int], inner: Collection[int]) -> NewBuffers:
        """Return what makes the buffers of a bundle."""
        return NewBuffers(self.allocate, sizes, self.capacity)

    def capacity(self, nbytes: int) -> int:
        """Return the same number."""
        return nbytes

    def upload(self, array: Array) -> InterpreterBuffer:
        """Return a buffer of a copy of the array's elements."""
        return self._hold(np.frombuffer(bytearray(array.tobytes()), np.uint8))

    def adopt(self, array: Array) -> None:
        """Return None: it shares no memory."""

    def launch(
        self,
        executable: InterpretedKernel,
        bindings: Sequence[InterpreterBuffer | Number],
        grid: Sequence[int],
    ) -> None:
        """Run the kernel now."""
        self._require_open()
        self._launches += 1
        kernel = executable.kernel
        values: list[Any] = []
        own: dict[str, Array] = {}
        for parameter, binding in zip(kernel.parameters, bindings, strict=True):
            if isinstance(binding, InterpreterBuffer):
                dtype = parameter.value_type.dtype
                values.append(binding.data.view(dtype.numpy))
                if binding.reach is not None:
                    own[parameter.attr[1]] = binding.reach.elements(dtype.itemsize)
            else:
                values.append(binding)
        interpret(kernel, tuple(grid), *values, own=own)

    def launch_counted(
        self,
        executable: InterpretedKernel,
        bindings: Sequence[InterpreterBuffer | Number],
        counts: InterpreterBuffer,
    ) -> None:
        """Run the kernel now, on as many workgroups as the buffer says."""
        grid = counts.data[:12].view(np.uint32)[: executable.kernel.grid]
        self.launch(executable, bindings, grid.tolist())

    def bundle(self, steps: Sequence[BundledLaunch]) -> LaunchList:
        """Return launches that can be made many times."""
        return LaunchList(self.launch, steps)

    def within(self, buffer: InterpreterBuffer, reach: Reach) -> InterpreterBuffer:
        """Return the buffer, of which nothing but the reach may be touched."""
        return InterpreterBuffer(buffer.data, reach)

    def copy(self, source: InterpreterBuffer, target: InterpreterBuffer) -> None:
        """Copy now."""
        target.data[:] = source.data[: target.nbytes]

    def flush(self) -> int:
        """Return the number of launches: all are done."""
        return self._launches

    def is_done(self, submission: int) -> bool:
        """Return True."""
        return True

    def wait(self, submission: int) -> None:
        """Return at once."""

    def synchronize(self) -> None:
        """Return at once."""

    async def synchronize_async(self) -> None:
        """Return at once."""

    def read(self, buffer: InterpreterBuffer, dtype: DType, shape: Shape) -> Array:
        """Return a copy of the values."""
        return self.read_all([(buffer, dtype, shape)])[0]

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return copies of the values of several buffers."""
        self._require_open()
        self._read_backs += 1
        return [
            np.array(
                buffer.data[: element_count(shape) * dtype.itemsize].view(dtype.numpy)
            ).reshape(shape)
            for buffer, dtype, shape in wanted
        ]

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return copies of the values of several buffers."""
        return self.read_all(wanted)

    def get_resource(self, buffer: InterpreterBuffer) -> BindingResource[HostResource]:
        """Return the bytes."""
        return BindingResource(HostResource(memoryview(buffer.data.data)))

    def timed_launch(self, executable: Any, bindings: Sequence[Any], grid: Sequence[int]) -> None:
        """Do what `launch` does."""
        self.launch(executable, bindings, grid)

    def is_last_holder(self, holder: Sequence[Any], position: int) -> bool:
        """Return False: it is not known who holds a buffer."""
        return False

    def is_shared(self, x: InterpreterBuffer, y: InterpreterBuffer) -> bool:
        """Whether two buffers have memory in common."""
        return bool(np.shares_memory(x.data, y.data))

    def renew(self, buffer: InterpreterBuffer, *, for_kernel: bool = False) -> InterpreterBuffer:
        """Raise DeviceError: all memory is its own."""
        raise own_memory("out" if for_kernel else "invalidate")

    def memory_report(self) -> MemoryReport:
        """Return how much memory is in use."""
        live = self._live()
        return MemoryReport(live, live, self._peak)

    def held(self) -> list[Held]:
        """Return the buffers that somebody holds, the largest first."""
        return sorted([Held(b.nbytes, b.origin) for b in self._buffers], key=lambda x: -x.nbytes)

    def trim(self) -> None:
        """There is nothing to give back."""

    def close(self) -> None:
        """End."""
        self._is_closed = True

    def report(self) -> dict[str, Any]:
        """Counters by name."""
        return {
            "kernels": len(self._executables),
            "launches": self._launches,
            "read_backs": self._read_backs,
        }

    def _hold(self, data: Array) -> InterpreterBuffer:
        self._require_open()
        buffer = InterpreterBuffer(data)
        self._buffers.add(buffer)
        self._peak = max(self._peak, self._live())
        return buffer

    def _live(self) -> int:
        return sum(b.nbytes for b in self._buffers)

    def _require_open(self) -> None:
        if self._is_closed:
            raise DeviceError("the interpreter requires a runtime that is open, got a closed one")
