"""The kernel of a scan, whoever its units are: what they read and write of their lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout, Operand
from pyrite.backend.cube.skeleton.fold import KernelFold, State
from pyrite.backend.cube.skeleton.scan.config import ScanConfig
from pyrite.backend.cube.skeleton.scan.lines import Lines
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType

#: Coordinates of a line, but for the one along it.
Line = list[Value | int]


@dataclass(frozen=True, slots=True)
class Walked:
    """The lines of a launch and what it writes; all results of a state lie in the same way.

    A state has so many ``values``, a join as many instructions as ``join_cost``; ``count`` is what
    the fold's end is told.
    """

    lines: Lines
    source: Layout
    values: int
    join_cost: int
    targets: tuple[DType, ...] = ()
    count: int = extent(default=0)


class Walk:
    """One launch, while it is being written.

    Without targets it folds the parts of lines and writes their states.
    """

    def __init__(self, fold: KernelFold, of: Walked, config: ScanConfig, grid: int) -> None:
        self.fold, self.lines, self.config = fold.ending(count=of.count), of.lines, config
        targets = of.targets
        b = self.b = KernelBuilder(
            f"scan_{self.fold.name}", workgroup_size=config.workgroup_size, grid=grid
        )
        self.k = RecordingAlgebra(b)
        self.source = Operand(b, "x", of.source, "read")
        self.partial = [
            b.buffer(f"partial{i}", dtype, "read" if targets else "write")
            for i, (_, dtype) in enumerate(self.fold.start if config.parts > 1 else ())
        ]
        self.targets = [
            Operand(b, f"out{i}", Layout(dtype, self.lines.target), "write")
            for i, dtype in enumerate(targets)
        ]

    def join(self, s: State, t: State) -> State:
        """Return the state of the elements of two states, the first of which are before."""
        return self.fold.join(self.k, s, t)

    def share(self, unit: Value, walk: Callable[[Value, Value], None]) -> None:
        """Have a unit walk along a part of its lines, given the part and its first line."""
        groups = self.lines.count // self.config.lines
        with self.b.if_(unit < groups * self.config.parts):
            walk(unit // groups, (unit % groups) * self.config.lines)

    def bounds(self, part: Value) -> tuple[Value, Value]:
        """Return where a part of a line begins and ends."""
        b, size, config = self.b, self.lines.size, self.config
        if config.parts == 1:
            return b.index(0), b.index(size)
        length = -(-size // (config.parts * config.step)) * config.step
        begin = b.min(part * length, size)
        return begin, b.min(begin + length, size)

    # ---- elements ----

    def read_at(self, line: Line, i: Value) -> Value:
        """Return where element i of a line is read, counted in the order of the scan."""
        return self.source.at([*line, self.lines.size - 1 - i if self.lines.is_reverse else i])

    def written_at(self, line: Line, i: Value | int) -> Value:
        """Return where the folds of the elements up to i of a line are written; -1: of none."""
        size, extra = self.lines.size, self.lines.extra
        return self.targets[0].at([*line, size - 1 - i if self.lines.is_reverse else i + extra])

    def read(self, line: Line, i: Value, width: int) -> Value:
        """Return element i of so many lines."""
        return self.source.load_along(self.read_at(line, i), width, axis=-2)

    def put(self, line: Line, i: Value | int, state: State, width: int) -> None:
        """Write the results of the elements up to i of so many lines, if this launch does."""
        if not self.targets:
            return
        self.store(self.written_at(line, i), self.ended(state), axis=-2)

    def put_initial(self, line: Line, width: int) -> None:
        """Write the results of no elements."""
        self.put(line, -1, self.fold.empty(self.b, width), width)

    def ended(self, state: State) -> State:
        """Return the results of a state."""
        return self.fold.end(self.k, state)

    def store(
        self, place: Value, results: Sequence[Value], *, axis: int, mask: Value | None = None
    ) -> None:
        """Write each result to its target, all from one place on along an axis."""
        for target, result in zip(self.targets, results, strict=True):
            target.store_along(place, result, axis=axis, mask=mask)
