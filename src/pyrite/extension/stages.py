"""Several kernels that make one op: each with a grid of its own, one after the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from pyrite.backend.cube.custom import Call, CustomKernel
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import DeviceLike
from pyrite.errors import KernelError
from pyrite.extension.kernel import PythonKernel
from pyrite.op import Attributes, Op
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, TensorType


class KernelStages(CustomKernel[object]):
    """Kernels in Python of the same inputs and outputs; made by `stages`."""

    def __init__(self, kernels: Sequence[PythonKernel]) -> None:
        first = kernels[0]
        super().__init__(first.name, first.workgroup_size, None)
        self.kernels = tuple(kernels)
        self.static = frozenset().union(*[kernel.static for kernel in kernels])

    def runs_on(self, runtime: Runtime) -> bool:
        """Whether a runtime can run it: every one can."""
        return True

    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return what the first calls inputs and outputs."""
        return self.kernels[0].names_of(op, outputs)

    def begin(
        self,
        launcher: Launcher,
        names: Sequence[str],
        sources: Sequence[CubeTensor | None],
        targets: Sequence[CubeTensor],
    ) -> None:
        """Append what gives outputs the values that they hold before the first."""
        self.kernels[0].begin(launcher, names, sources, targets)

    def launch(self, launcher: Launcher, call: Call) -> None:
        """Append a run of each."""
        for kernel in self.kernels:
            names = kernel.names_of(call.op, len(call.outputs))
            kernel.launch(launcher, Call(call.op, names, call.inputs, call.outputs, call.attrs))

    def state(self, inputs: Sequence[Input]) -> Hashable | None:
        """Return what stands for all that they read."""
        states = tuple(kernel.state(inputs) for kernel in self.kernels)
        return None if None in states else states

    def refusals(self) -> dict[str, str]:
        """Return why devices cannot run one of them, by their names."""
        return {name: why for kernel in self.kernels for name, why in kernel.refusals().items()}

    def source(
        self,
        device: DeviceLike,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        **attrs: Any,
    ) -> str:
        """Return the WGSL or LLVM IR of each, one after the other, as `PythonKernel.source`."""
        return "\n".join(k.source(device, inputs, outputs, **attrs) for k in self.kernels)

    def results(
        self, op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: Sequence[TensorType]
    ) -> Sequence[Array]:
        """Return what the functions make of arrays, run by Python."""
        made = self.kernels[0].outputs.in_numpy(self.names_of(op, len(out)), arrays, out)
        for kernel in self.kernels:
            kernel.run(op, kernel.names_of(op, len(out)), arrays, made, attrs)
        return [a.astype(t.dtype.numpy) for a, t in zip(made, out, strict=True)]


def stages(*kernels: PythonKernel) -> KernelStages:
    """Return kernels that run one after the other as one, to be given to `pyrite.custom_op`.

    Each has a parameter for every input and output of the op; what one wrote the next may read,
    and what outputs hold before is said by the first.  A stage waits for all of the one before: it
    is what a barrier is for the whole grid.

    Raises KernelError for none, and for a later stage that fills outputs.
    """
    if not kernels or not all(isinstance(k, PythonKernel) for k in kernels):
        given = ", ".join(type(k).__name__ for k in kernels) or "none"
        raise KernelError(
            f"stages requires kernels in Python, got {given}; make each by pyrite.extension.kernel"
        )
    if late := [k.name for k in kernels[1:] if k.outputs.names]:
        raise KernelError(
            f"stages requires the first kernel to say what outputs hold before, got '{late[0]}'; "
            "move its inout= and fill= there"
        )
    return KernelStages([k.as_stage() for k in kernels])
