"""Kernels that go along the rows of their results, a vector of neighbours at a time.

    def body(along: Along, problem: None) -> None:
        (x,), (out,) = along.sources, along.targets

        def twice(lanes: Lanes) -> None:
            at = [*along.row, lanes.first]
            value = x.load_along(x.at(at), lanes.width, mask=lanes.mask)
            out.store_along(out.at(at), value * 2, mask=lanes.mask)

        along.write(twice)

What depends on the row alone is said before `Along.write`, and computed once for a row.  On a CPU
an invocation goes along a whole row, on a GPU it writes one element.  A kernel serves all sizes:
what else the body depends on is its problem, whose extents it gets as symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    iota,
    layout_of,
    unravel,
)
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import cached
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.symbol import is_symbol
from pyrite.types import Shape, element_count


@dataclass(frozen=True, slots=True)
class AlongConfig:
    """``width`` neighbours together; an invocation takes all of a row, or one vector of it."""

    workgroup_size: int
    width: int
    takes_row: bool


def candidates(
    shape: Shape, machine: Machine, *, widest: int = WIDTHS[-1]
) -> tuple[AlongConfig, ...]:
    """Return the configs for results of a shape: the ends of rows are masked, so all are right.

    ``widest`` is what the body can do.
    """
    return tuple(
        AlongConfig(size, width, takes_row)
        for size in machine.workgroup_sizes
        for width in WIDTHS
        if width <= widest
        for takes_row in (True, False)
    )


@cached(4096)
def select(
    shape: Shape, machine: Machine, *, widest: int = WIDTHS[-1], vectors: int = 1
) -> AlongConfig:
    """Return a config: rows of the machine's vectors on a CPU, no wider than a row; else points.

    ``vectors`` is how many the body writes at once.
    """
    found = candidates(shape, machine, widest=widest)
    if machine.kind == "gpu":
        return next(c for c in found if c.width == 1 and not c.takes_row)
    enough = [c for c in found if c.takes_row and c.width <= machine.vector]
    return next((c for c in enough if c.width * vectors >= shape[-1]), enough[-1])


@dataclass(frozen=True, slots=True)
class Lanes:
    """The elements that are written together: their number along the row, from ``first`` on.

    ``mask`` is which of them exist, None where all do.
    """

    first: Value
    width: int
    mask: Value | None

    @property
    def positions(self) -> Value:
        """The number of each along the row."""
        if self.width == 1:
            return self.first
        return self.first + iota(self.first.builder, self.width)


Vector = Callable[[Lanes], None]
Fits = Callable[[Value], Value | None]


@dataclass(frozen=True, slots=True)
class Block:
    """A faster way to write several vectors of a row at once.

    ``write`` takes the first element, and whether it is to test what it reads and writes: not where
    ``fits`` says so and the row goes on that far.
    """

    vectors: int
    fits: Callable[[Value], Value]
    write: Callable[[Value, bool], None]


class Along:
    """One row, inside the kernel: where it is, and what the body may use."""

    def __init__(self, name: str, of: Rows, config: AlongConfig, grid: int) -> None:
        b = self.b = KernelBuilder(name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        shape = of.shape
        self.width, self.length = config.width, shape[-1]
        self.sources = [Operand(b, f"x{i}", layout, "read") for i, layout in enumerate(of.sources)]
        self.targets = [
            Operand(b, f"out{i}", layout, "write") for i, layout in enumerate(of.targets)
        ]
        self._units = units_of(shape, config)
        self._unit = invocation_of(b)
        self._vector: Value | int | None = None
        rows = shape[:-1]
        if config.takes_row:
            self.row = unravel(b, self._unit, rows)
        else:
            *self.row, self._vector = unravel(b, self._unit, (*rows, vectors_of(shape, config)))

    def exists(self) -> Value:
        """Return whether there is such a row."""
        return self._unit < self._units

    def write(self, vector: Vector, fits: Fits | None = None, block: Block | None = None) -> None:
        """Run ``vector`` for each vector of the row that is this invocation's.

        ``fits`` gives whether a vector that begins there needs no mask, apart from the end of the
        row; None if that is always so.  Whole rows use the block where they can.
        """
        b = self.b
        if self._vector is not None:
            self._write_at(b.index(self._vector) * self.width, vector, fits)
        elif block is None and fits is None:
            self._write_whole(vector)
        elif block is None:
            with b.for_(0, self.length, step=self.width) as loop:
                self._write_at(loop.index, vector, fits)
        else:
            step = self.width * block.vectors
            with b.for_(0, self.length, step=step) as loop:
                is_whole = block.fits(loop.index) & (loop.index + step <= self.length)
                with b.if_(is_whole) as branch:
                    block.write(loop.index, False)
                with branch.else_():
                    block.write(loop.index, True)

    def _write_whole(self, vector: Vector) -> None:
        """Run ``vector`` for all vectors without a mask, then for the end of the row with one.

        A test in each turn took up to a third of the time of a body that gathers.
        """
        b, width = self.b, self.width
        whole = self.length // width * width
        with b.for_(0, whole, step=width) as loop:
            vector(Lanes(loop.index, width, None))
        if self._may_end_within():
            with b.for_(whole, self.length, step=width) as loop:  # at most once
                vector(self._masked(loop.index))

    def _may_end_within(self) -> bool:
        """Whether a vector may end behind the row: kernels for multiples alone would be others."""
        return self.width > 1 and (is_symbol(self.length) or self.length % self.width != 0)

    def _masked(self, first: Value) -> Lanes:
        """Return a vector of which some elements may lie behind the row."""
        return Lanes(first, self.width, first + iota(self.b, self.width) < self.length)

    def _write_at(self, first: Value, vector: Vector, fits: Fits | None) -> None:
        b, width = self.b, self.width
        if width == 1:
            vector(Lanes(first, 1, None))
            return
        is_whole = None if fits is None else fits(first)
        if self._may_end_within():
            ends = first + width <= self.length
            is_whole = ends if is_whole is None else is_whole & ends
        if is_whole is None:
            vector(Lanes(first, width, None))
            return
        with b.if_(is_whole) as branch:
            vector(Lanes(first, width, None))
        with branch.else_():
            vector(self._masked(first))


def vectors_of(shape: Shape, config: AlongConfig) -> int:
    """Return how many vectors a row takes."""
    return -(-shape[-1] // config.width)


def units_of(shape: Shape, config: AlongConfig) -> int:
    """Return how many invocations have work."""
    rows = element_count(shape[:-1])
    return rows if config.takes_row else rows * vectors_of(shape, config)


@dataclass(frozen=True, slots=True)
class Rows:
    """All that a kernel depends on: what its body is told, and where its operands lie.

    The body writes vectors of at most ``widest`` elements, so many ``vectors`` at once.
    """

    problem: Hashable
    sources: tuple[Layout, ...]
    targets: tuple[Layout, ...]
    widest: int = WIDTHS[-1]
    vectors: int = 1
    shape: Shape = extent(default=())


class AlongSkeleton:
    """Kernels that go along the rows of their results."""

    name = "along rows"

    def candidates(self, problem: Rows, machine: Machine) -> tuple[AlongConfig, ...]:
        """Return the configs that the body can do."""
        return candidates(problem.shape, machine, widest=problem.widest)

    def select(self, problem: Rows, machine: Machine) -> AlongConfig:
        """Return the one that seems best for the length of the rows."""
        return select(problem.shape, machine, widest=problem.widest, vectors=problem.vectors)

    def workgroups(self, problem: Rows, config: AlongConfig) -> int:
        """Return how many workgroups run the kernel."""
        return -(-units_of(problem.shape, config) // config.workgroup_size)

    def build(self, problem: Rows, config: AlongConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: sources, and targets."""
        assert fused.body is not None
        along = Along(fused.body.name, problem, config, grid)
        with along.b.if_(along.exists()):
            fused.body.of(along, problem.problem)
        return along.b.build()


ALONG: Final = AlongSkeleton()

P = TypeVar("P", bound=Hashable)
Write = Callable[[Along, P], None]


def along_rows(
    launcher: Launcher,
    name: str,
    problem: P,
    sources: Sequence[CubeTensor],
    targets: Sequence[CubeTensor],
    body: Write[P],
    config: AlongConfig | None = None,
    *,
    widest: int = WIDTHS[-1],
    vectors: int = 1,
    knows_first: bool = False,
) -> None:
    """Run a body for each row of the targets, which have one shape.

    ``name`` tells the body from others, and the problem is all that it depends on besides the
    dtypes, the strides and the shape of the targets.  ``knows_first`` is for bodies that are faster
    where sizes are built in: the first ones are.
    """
    shape = targets[0].shape
    if element_count(shape) == 0:
        return
    read, written = (tuple(layout_of(t) for t in of) for of in (sources, targets))
    rows = Rows(problem, read, written, widest, vectors, shape)
    bindings = [b for t in (*sources, *targets) for b in bindings_of(t)]
    fused = Fused(body=Body(name, name, body))
    launch(launcher, ALONG, rows, bindings, config=config, fused=fused, knows_first=knows_first)
