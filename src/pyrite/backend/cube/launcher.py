"""From a description of a kernel to its launch: compiled once per key, then only bound and run.

A lowering says what it wants by a key, and how to build the kernel if nobody has asked before; so
a second call of an op with the same types builds nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from pyrite.backend.cube.fault import Faults
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.runtime.protocol import Buffer, Executable, Runtime
from pyrite.types import Number, TensorType

#: The most workgroups on one axis of a grid: WebGPU's default limit.
MOST_WORKGROUPS = 65535


@dataclass(frozen=True, slots=True)
class Machine:
    """What the choice of a config needs to know of a device.

    ``vector`` is the number of 32-bit elements that one invocation handles well at once.
    """

    kind: Literal["cpu", "gpu"]
    vector: int


def machine_of(runtime: Runtime) -> Machine:
    """Return what is known of a runtime's device."""
    return Machine("cpu", 8) if runtime.name.startswith("cpu") else Machine("gpu", 4)


class Launcher:
    """The compiled kernels of one runtime, and how they are launched."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.machine = machine_of(runtime)
        self.faults = Faults(runtime)
        self._executables: dict[Hashable, Executable] = {}
        self._lock = threading.Lock()

    def empty(self, type: TensorType) -> CubeTensor:
        """Return a dense tensor of unspecified values."""
        return CubeTensor.dense(self.runtime.allocate(type.nbytes), type)

    def launch(
        self,
        key: Hashable,
        build: Callable[[], Kernel],
        bindings: Sequence[Buffer | Number],
        workgroups: int,
    ) -> None:
        """Run the kernel of that key, which is built the first time, on so many workgroups."""
        grid = grid_of(workgroups)
        wanted = (key, len(grid))
        executable = self._executables.get(wanted)
        if executable is None:
            with self._lock:
                executable = self._executables.get(wanted)
                if executable is None:
                    executable = self._executables[wanted] = self.runtime.compile(build())
        self.runtime.launch(executable, bindings, grid)


def grid_of(workgroups: int) -> tuple[int, ...]:
    """Return the sizes of a grid that holds at least so many workgroups: one axis, or two.

    >>> grid_of(7), grid_of(65536)
    ((7,), (32768, 2))
    """
    if workgroups <= MOST_WORKGROUPS:
        return (workgroups,)
    rows = -(-workgroups // MOST_WORKGROUPS)
    return (-(-workgroups // rows), rows)
