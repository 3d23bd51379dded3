"""The CPU in the guarded mode: one launch at a time, each looked at before and after.

A touch of a page without access ends the process, and says which kernel and which operand it was.
What was written into the poison around a buffer is a KernelError at the launch; where it was around
another buffer than the launch's own, at the next read.  See `pyrite.config.Config.guard`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.config import Guard
from pyrite.errors import KernelError
from pyrite.kernel.ir import Kernel
from pyrite.runtime.bundle import LaunchList
from pyrite.runtime.cpu.fault import FaultReport, Place
from pyrite.runtime.cpu.guarded_memory import GuardedAllocator, GuardedBlock, Shadow
from pyrite.runtime.cpu.memory import BUFFERS, CpuBuffer, CpuView
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.poison import Reach
from pyrite.runtime.protocol import Buffer, BundledLaunch, Executable, Wanted
from pyrite.types import Array, Number

#: So many kernels are named that ran since all of the memory was looked at.
_NAMED = 8

#: A look at so many buffers costs about what a launch does.
_LAUNCHES_A_LOOK = 8


class GuardedCpuRuntime(CpuRuntime):
    """A `CpuRuntime` whose launches are checked and done when ``launch`` returns."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(**options)
        self.kernel_cache = None  # what a kernel may touch is looked at as it is written
        stream = self._stream
        self._guarded = GuardedAllocator(guard, stream.now, stream.done)
        self._allocator = self._guarded
        self._report = FaultReport(self.compiler)
        #: What the report says is of one launch.
        self._one = threading.RLock()
        self._ran: list[str] = []

    def launch(
        self, executable: Executable, bindings: Sequence[Buffer | Number], grid: Sequence[int]
    ) -> None:
        """Run a kernel, and look at its operands.  Raises KernelError if it wrote around them."""
        kernel = executable.kernel
        with self._one:
            self._ran.append(kernel.name)
            with self._report.launching(*_notes(kernel, bindings, grid)):
                super().launch(executable, bindings, grid)
                self._stream.synchronize()
            self._check_operands(kernel, bindings)

    def launch_counted(
        self, executable: Executable, bindings: Sequence[Buffer | Number], counts: Buffer
    ) -> None:
        """Run a kernel on as many workgroups as the buffer says, and look at its operands."""
        assert isinstance(counts, BUFFERS)
        self._stream.synchronize()
        grid = counts.bytes()[:12].view(np.uint32)[: executable.kernel.grid]
        self.launch(executable, bindings, grid.tolist())

    def bundle(self, steps: Sequence[BundledLaunch]) -> LaunchList:  # type: ignore[override]
        """Return launches, in order, that can be made many times."""
        return LaunchList(self.launch, steps)

    def read_all(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values, after a look at all of the memory."""
        self.check()
        return super().read_all(wanted)

    async def read_all_async(self, wanted: Wanted) -> list[Array]:
        """Return several buffers' values, after a look at all of the memory."""
        self.check()
        return await super().read_all_async(wanted)

    def synchronize(self) -> None:
        """Wait for everything, and look at all of the memory."""
        super().synchronize()
        self.check()

    def check(self) -> None:
        """Raise KernelError if something was written around any buffer since the last look.

        Where there are many buffers, and few launches, it looks now and then.
        """
        with self._one:
            if len(self._ran) < self._guarded.live_blocks // _LAUNCHES_A_LOOK:
                return
            found = self._guarded.damages()
            ran, self._ran = self._ran, []
        if found:
            names = ", ".join(dict.fromkeys(reversed(ran[-_NAMED:]))) or "none"
            raise KernelError(
                f"a kernel requires to stay inside of its buffers, got a write {found[0]} bytes of "
                f"one; since the last look these ran, the last one first: {names}"
            )

    def within(self, buffer: Buffer, reach: Reach) -> Buffer:
        """Return a copy of a part of a buffer, with no more than that around it."""
        assert isinstance(buffer, BUFFERS)
        self._stream.synchronize()
        copy = self._guarded.allocate(reach.end - reach.begin)
        copy.bytes()[:] = reach.masked(buffer.bytes())
        return Shadow(copy, reach)

    def report(self) -> dict[str, Any]:
        """Counters by name, and how many buffers are without pages for want of mappings."""
        return {**super().report(), "buffers_without_pages": self._guarded.without_pages}

    def _check_operands(self, kernel: Kernel, bindings: Sequence[Buffer | Number]) -> None:
        for parameter, binding in zip(kernel.parameters, bindings, strict=True):
            if not isinstance(binding, BUFFERS):
                continue
            damage = binding.damage() if isinstance(binding, Shadow) else block(binding).damage()
            if damage is not None:
                block(binding).heal()
                raise KernelError(
                    f"kernel '{kernel.name}' requires to stay inside of buffer "
                    f"'{parameter.attr[1]}', got a write {damage}"
                )


def block(buffer: CpuBuffer | CpuView) -> GuardedBlock:
    """Return the guarded block that a buffer lies in."""
    found = (buffer if isinstance(buffer, CpuBuffer) else buffer.base).block
    assert isinstance(found, GuardedBlock), "a guarded runtime has guarded memory"
    return found


def _notes(
    kernel: Kernel, bindings: Sequence[Buffer | Number], grid: Sequence[int]
) -> tuple[str, list[Place]]:
    """Return what is to be said of a launch, and of the pages around its operands."""
    places: list[Place] = []
    for parameter, binding in zip(kernel.parameters, bindings, strict=False):
        if isinstance(binding, BUFFERS):
            what = f"buffer '{parameter.attr[1]}' ({block(binding).nbytes} bytes)\n"
            places.append((block(binding).before, f"pyrite: before the beginning of {what}"))
            places.append((block(binding).after, f"pyrite: past the end of {what}"))
    text = f"\npyrite: kernel '{kernel.name}' touched memory that it may not, grid {tuple(grid)}\n"
    return text, places
