"""A runtime that asks of each launch whether its indices are proved: see `pyrite.kernel.bounds`.

    python -m pyrite.testing.proofs cpu --every 3

counts what is proved of the kernels of one in so many examples of ops, for ``cpu`` or ``gpu``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.kernel.bounds import Unproved, accesses, unproved
from pyrite.kernel.bounds.interval import Interval
from pyrite.kernel.ir import Node
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpretedKernel, InterpreterBuffer, InterpreterRuntime
from pyrite.testing.guarded import cases
from pyrite.types import Number, float32

#: For which devices kernels can be chosen: the processor has vectors of 64 bytes.
MACHINES = {"cpu": Machine.cpu(64, 32), "gpu": Machine.gpu()}


class ProvingRuntime(InterpreterRuntime):
    """The interpreter, which also counts what is proved of the launches that it runs."""

    def __init__(self, machine: Machine | None = None) -> None:
        super().__init__(machine)
        #: By the kernel's name: launches, and those of which every access is proved.
        self.launched: Counter[str] = Counter()
        self.proved: Counter[str] = Counter()
        #: Accesses of all launches.
        self.accesses = 0
        #: What was not proved, and the grid, by the kernel's name.
        self.unproved: dict[str, list[tuple[Unproved, tuple[int, ...]]]] = {}

    def launch(
        self,
        executable: InterpretedKernel,
        bindings: Sequence[InterpreterBuffer | Number],
        grid: Sequence[int],
    ) -> None:
        """Run the kernel now, and note what is proved."""
        super().launch(executable, bindings, grid)
        kernel = executable.kernel
        if 0 in grid:
            return
        numbers: dict[Node, Number] = {}
        extents: dict[Node, Interval] = {}
        for parameter, binding in zip(kernel.parameters, bindings, strict=True):
            if isinstance(binding, InterpreterBuffer):
                extents[parameter] = _extent(binding, parameter.value_type.dtype.itemsize)
            else:
                numbers[parameter] = binding
        found = unproved(kernel, grid, numbers, extents)
        self.launched[kernel.name] += 1
        self.accesses += accesses(kernel)
        self.proved[kernel.name] += not found
        if found:
            noted = self.unproved.setdefault(kernel.name, [])
            noted += [(one, tuple(grid)) for one in found]


def _extent(buffer: InterpreterBuffer, itemsize: int) -> Interval:
    reach = buffer.reach
    if reach is None:
        return Interval(0, buffer.nbytes // itemsize - 1)
    return Interval(-(-reach.begin // itemsize), reach.end // itemsize - 1)


def main(arguments: Sequence[str]) -> None:
    """Print how much is proved, and what is not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--every", type=int, default=1)
    given: Any = parser.parse_args(arguments)
    runtime = ProvingRuntime(MACHINES[given.machine])
    # Its methods take its own buffers only, which no Protocol can say.
    untyped: Any = runtime
    device = Device(CubeBackend(untyped))
    for example, view in cases(given.every, 0):
        arrays = example.arrays(float32)
        inputs = [view(a, device) if isinstance(a, np.ndarray) else a for a in arrays]
        for result in example.call(inputs, device):
            result.numpy()
    print(*_table(runtime), sep="\n")


def _table(runtime: ProvingRuntime) -> list[str]:
    launched, proved = runtime.launched, runtime.proved
    always = sum(launched[name] == proved[name] for name in launched)
    missed = sum(map(len, runtime.unproved.values()))
    return [
        f"{proved.total()} of {launched.total()} launches are proved, "
        f"{runtime.accesses - missed} of {runtime.accesses} accesses; "
        f"{always} of {len(launched)} kernels always",
        *(
            f"{name}: {proved[name]} of {launched[name]}; {found[0][0]}"
            for name, found in sorted(runtime.unproved.items())
        ),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
