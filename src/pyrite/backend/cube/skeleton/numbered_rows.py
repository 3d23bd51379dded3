"""Rows with numbers of their own: a scale of a channel, the class of a sample, a sum that is kept.

A row is one invocation's or a whole workgroup's here, so that who writes its numbers is clear.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import Layout, Operand, bindings_of
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.row import (
    ROWS,
    At,
    Row,
    RowProblem,
    Rows,
    RowsConfig,
    best,
    candidates,
    row_layout,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Memory, Value
from pyrite.kernel.choice import chosen
from pyrite.types import DType, uint32

# ---- configs ----


def numbered_candidates(
    length: int, dtype: DType, machine: Machine, *, divisor: int = 0
) -> tuple[RowsConfig, ...]:
    """Return the configs for rows of so many elements, whose widths divide a number."""
    found = candidates(length, dtype, machine)
    return tuple(c for c in found if c.lanes in (1, c.workgroup_size) and divisor % c.width == 0)


def widest(found: Sequence[RowsConfig], length: int, machine: Machine) -> RowsConfig:
    """Return one of the configs: vectors no wider than a row; on a GPU four or so for each lane."""
    found = [c for c in found if c.width <= machine.vector]
    lanes = 1
    if machine.kind == "gpu":
        found = [c for c in found if length % c.width == 0]
        most = max(length // (4 * max(c.width for c in found)), 64)
        lanes = max(c.lanes for c in found if c.lanes <= (most if length >= 64 else 1))
    found = [c for c in found if c.lanes == lanes]
    widths = sorted({c.width for c in found})
    width = next((w for w in widths if w >= length), widths[-1])
    return best([c for c in found if c.width == width])


def select(length: int, dtype: DType, machine: Machine, *, divisor: int = 0) -> RowsConfig:
    """Return the `widest` of the `numbered_candidates`: on a GPU by one question to a length."""
    choose = _select if machine.kind == "cpu" else _chosen
    return choose(Rows(length, dtype), machine, divisor=divisor)


def _select(rows: Rows, machine: Machine, *, divisor: int) -> RowsConfig:
    found = numbered_candidates(rows.length, rows.dtype, machine, divisor=divisor)
    return widest(found, rows.length, machine)


_chosen = chosen(4096)(_select)


# ---- inside a kernel ----


class NumberedRow(Row):
    """One row, inside the kernel, and its numbers: some are read and some written."""

    def __init__(
        self, name: str, rows: int, length: int, sources: Sequence[Layout],
        targets: Sequence[Layout], numbers: Sequence[Layout], results: Sequence[Layout],
        config: RowsConfig, grid: int, *, can_fail: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, rows, length, sources, targets, (), config, grid)
        b = self.b
        self._numbers = [Operand(b, f"number{i}", of, "read") for i, of in enumerate(numbers)]
        self._results = [Operand(b, f"result{i}", of, "write") for i, of in enumerate(results)]
        self._word: Memory | None = b.buffer("error", uint32, "atomic") if can_fail else None
        self._error = b.scalar("error_number", uint32) if can_fail else None

    def number(self, position: int) -> Value:
        """Return a number of the row."""
        return self._numbers[position][[self._row]]

    def result(self, position: int, value: Value) -> None:
        """Write a number of the row; of several lanes the first does."""
        operand = self._results[position]
        if self.config.lanes == 1:
            operand[[self._row]] = value
            return
        with self.b.if_(self._lane == 0):
            operand[[self._row]] = value

    def fail(self, failed: Value) -> None:
        """Have reads of what comes of it raise, if that is true."""
        assert self._word is not None
        assert self._error is not None
        self.b.error(self._word, failed, self._error)

    def totals(self, count: int, make: Callable[[At], Sequence[Value]]) -> list[Value]:
        """Return the sums over the row of each of the ``count`` values that ``make`` gives."""
        return self._totals(count, make, 0, lambda x, y: x + y)


# ---- launching ----


def has_elements(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether there are moments to take."""
    return all(i.type.size > 0 for i in inputs if i is not None)


P = TypeVar("P")
R = TypeVar("R", bound=NumberedRow)
Layouts = tuple[Layout, ...]


@dataclass(frozen=True, slots=True)
class Operands:
    """What rows read and write: sources and targets by elements, numbers and results by row."""

    sources: Sequence[CubeTensor]
    targets: Sequence[CubeTensor] = ()
    numbers: Sequence[CubeTensor] = ()
    results: Sequence[CubeTensor] = ()


def for_numbered_rows(
    launcher: Launcher,
    name: str,
    key: Hashable,
    problem: P,
    rows: int,
    operands: Operands,
    make: Callable[..., R],
    body: Callable[[R, P], None],
    config: RowsConfig,
    fault: str | None = None,
) -> None:
    """Run a body for each of so many rows.

    ``problem`` is all that both functions depend on besides the operands, and the ``name`` and
    ``key`` that tell them from others; its extents are symbols where a kernel is built.  ``make``
    gives the row of the problem, the layouts of the operands, the config and the grid, in that
    order.  ``fault`` is what reads are to raise if the body calls ``fail``.
    """
    groups = (operands.sources, operands.targets, operands.numbers, operands.results)
    width, machine = config.width, launcher.machine
    layouts = tuple([tuple([row_layout(t, width, machine) for t in group]) for group in groups])

    def write(of: tuple[P, tuple[Layouts, ...]], config: RowsConfig, grid: int) -> R:
        row = make(of[0], *of[1], config, grid)
        row.run(lambda _: body(row, of[0]))
        return row

    bindings = [b for group in groups for t in group for b in bindings_of(t)]
    first = operands.sources[0]
    whole = RowProblem((problem, layouts), first.dtype.compute, rows, first.shape[-1])
    fused = Fused(body=Body(name, (name, key), write))
    launch(launcher, ROWS, whole, bindings, config=config, fused=fused, fault=fault)
