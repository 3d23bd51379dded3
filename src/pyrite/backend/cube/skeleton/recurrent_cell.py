"""What the steps of a recurrent layer are over, and what a cell sees of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyrite.backend.cube.operand import Layout, Operand
from pyrite.backend.cube.skeleton.protocol import Body
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.extent import EXTENT
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class StepProblem:
    """For each of ``batch`` rows and ``size`` units a sum of ``depth`` products in each group."""

    batch: int = field(metadata=EXTENT)
    size: int
    groups: int
    depth: int
    dtype: DType


class RecurrentStep:
    """One vector of units of one row, inside the kernel: what a cell reads and writes.

    An operand of three axes is (T, N, C) and is meant at this step, one of two (N, C), one of one
    (C,); a group is a block of ``size`` on its last axis.
    """

    def __init__(
        self, k: RecordingAlgebra, sums: Sequence[Value], sources: Sequence[Operand],
        targets: Sequence[Operand], at: tuple[Value, Value, Value], size: int, width: int,
        mask: Value | None,
    ) -> None:  # fmt: skip
        self.k = k
        #: The sum of each group; 0 where there is no product.
        self.sums = sums
        self._sources, self._targets = sources, targets
        self._at, self._size = at, size
        self._width, self._mask = width, mask

    def read(self, source: int, group: int = 0) -> Value:
        """Return the elements of a source."""
        operand = self._sources[source]
        return operand.load_along(self._place(operand, group), self._width, mask=self._mask)

    def current(self, target: int, group: int = 0) -> Value:
        """Return what a target holds before it is written."""
        operand = self._targets[target]
        return operand.load_along(self._place(operand, group), self._width, mask=self._mask)

    def write(self, target: int, value: Value, group: int = 0) -> None:
        """Write elements of a target."""
        operand = self._targets[target]
        operand.store_along(self._place(operand, group), value, mask=self._mask)

    def _place(self, operand: Operand, group: int) -> Value:
        step, row, column = self._at
        coordinates = [step, row, column + group * self._size]
        return operand.at(coordinates[-len(operand.layout.strides) :])


Cell = Callable[[RecurrentStep], None]


class StepParameters:
    """The parameters of a step's kernel, in order; state and packed are None without a product."""

    def __init__(
        self, b: KernelBuilder, problem: StepProblem, state: Layout | None,
        sources: Sequence[Layout], targets: Sequence[Layout], cell: Body,
    ) -> None:  # fmt: skip
        self.cell: Cell = cell.of
        self.state: Operand | None = None
        self.packed: Memory | None = None
        if state is not None:
            self.state = Operand(b, "state", state, "read")
            self.packed = b.buffer("packed", problem.dtype, "read")
        self.sources = [Operand(b, f"x{n}", x, "read") for n, x in enumerate(sources)]
        self.targets = [Operand(b, f"out{n}", x, "read_write") for n, x in enumerate(targets)]
        self.step = b.scalar("step", b.index_type.dtype)
        self.before = b.scalar("before", b.index_type.dtype)
