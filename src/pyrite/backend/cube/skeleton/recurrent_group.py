"""One step of a recurrent layer as one kernel of a GPU: a workgroup has some units of some rows.

Its invocations cut the depth of the product in slices, each for one row, so that also a small step
keeps many of them busy: neighbours read neighbouring weights, and the parts meet in shared memory.
Then an invocation computes the cell of one unit of one row, on the sums of all its gates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import Layout, Operand, iota, workgroup_of
from pyrite.backend.cube.skeleton.recurrent_cell import RecurrentStep, StepParameters, StepProblem
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import accumulate
from pyrite.kernel.trace import RecordingAlgebra


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A workgroup has ``rows`` rows of ``width`` units, and ``slices`` invocations for each row."""

    rows: int
    slices: int
    width: int
    unroll: int = 4

    @property
    def panel(self) -> int:
        """Units of a workgroup."""
        return self.width

    @property
    def cells(self) -> int:
        """Units of all rows of a workgroup."""
        return self.rows * self.width

    def threads(self, *, has_product: bool) -> int:
        """Invocations of a workgroup: without a product one for each unit."""
        return self.rows * self.slices if has_product else self.cells


def candidates(problem: StepProblem, machine: Machine) -> list[GroupConfig]:
    """Return the configs whose partial sums a workgroup can share.

    >>> from pyrite.types import float32
    >>> problem = StepProblem(20, 200, 4, 200, float32)
    >>> [(c.rows, c.slices) for c in candidates(problem, Machine.gpu())]
    [(8, 32), (16, 16), (32, 8)]
    """
    width = machine.vector
    sums = problem.groups * width * problem.dtype.itemsize
    threads = min(machine.invocations, _THREADS)
    while threads * sums > machine.shared_bytes:
        threads //= 2
    unroll = max(_SUMS // problem.groups, 2)
    return [GroupConfig(rows, threads // rows, width, unroll) for rows in _ROWS if rows <= threads]


def select(problem: StepProblem, machine: Machine) -> GroupConfig:
    """Return the candidate with the fewest rows of which the device runs all workgroups at once."""
    blocks = -(-problem.size // machine.vector)
    found = candidates(problem, machine)
    return next(
        (c for c in found if blocks * -(-problem.batch // c.rows) <= machine.workgroups), found[-1]
    )


#: Gives sums, where they are used.
Sums = Callable[[], list[Value]]

#: Invocations of a workgroup with a product.
_THREADS: Final = 256
_ROWS: Final = (8, 16, 32)
#: Vectors of weights that an invocation asks for before it needs the first.
_SUMS: Final = 16

#: Invocations of a workgroup that packs.
PACKING: Final = 64


def packing(problem: StepProblem, config: GroupConfig, layout: Layout, grid: int) -> Kernel:
    """Return the kernel that packs weights: the vectors of all groups at each place of the depth.

    Parameters: the weights, and where they go.
    """
    b = KernelBuilder("pack recurrent weights", workgroup_size=PACKING, grid=grid)
    x = Operand(b, "weights", layout, "read")
    packed = b.buffer("packed", problem.dtype, "write")
    number = workgroup_of(b) * PACKING + b.local_index()
    with b.if_(number < pieces(problem.size, config.panel) * problem.depth):
        unit, depth = number // problem.depth * config.panel, number % problem.depth
        mask = None
        if problem.size % config.panel:
            mask = b.splat(unit, config.width) + iota(b, config.width) < problem.size
        for group in range(problem.groups):
            value = x.load_along(x.at([group, unit, depth]), config.width, axis=1, mask=mask)
            place = (number * problem.groups + group) * config.width
            packed.store(place, value, is_aligned=True)
    return b.build()


class GroupStep:
    """What one invocation does in the kernel of a step."""

    def __init__(
        self, b: KernelBuilder, parameters: StepParameters, problem: StepProblem,
        config: GroupConfig,
    ) -> None:  # fmt: skip
        self.b, self.parameters = b, parameters
        self.problem, self.config = problem, config
        self.local = b.local_index()

    def write(self) -> None:
        """Write the step."""
        b, problem, config = self.b, self.problem, self.config
        number, tiles = workgroup_of(b), pieces(problem.batch, config.rows)
        if b.grid == 1:
            self.tile(number // tiles, number % tiles * config.rows)
            return
        with b.if_(number < pieces(problem.size, config.panel) * tiles):
            self.tile(number // tiles, number % tiles * config.rows)

    def tile(self, block: Value, first: Value) -> None:
        """Compute the cells of a block of units, of the rows from the first on."""
        b, problem, config, of = self.b, self.problem, self.config, self.parameters
        row, unit = self.local // config.width, self.local % config.width
        sums = self.sums(block, first, row, unit)
        column = block * config.panel + unit
        exists = (first + row < problem.batch) & (column < problem.size)
        with b.if_((self.local < config.cells) & exists):
            step = RecurrentStep(
                RecordingAlgebra(b), sums(), of.sources, of.targets,
                (of.step, first + row, column), problem.size, 1, None,
            )  # fmt: skip
            of.cell(step)

    def sums(self, block: Value, first: Value, row: Value, unit: Value) -> Sums:
        """Return what gives the sums of all groups of a unit of a row, once all parts are there."""
        b, problem, config = self.b, self.problem, self.config
        if self.parameters.state is None:
            return lambda: [b.const(0, vector(problem.dtype, 1))] * problem.groups
        slices, groups, width = config.slices, problem.groups, config.width
        own = self.local // slices
        parts = self.partial(block, b.min(first + own, problem.batch - 1), self.local % slices)
        shared = b.shared(problem.dtype, config.threads(has_product=True) * groups * width)
        for group, part in enumerate(parts):
            shared.store((self.local * groups + group) * width, part, is_aligned=True)
        b.barrier()

        def joined() -> list[Value]:
            zeros = [b.const(0, vector(problem.dtype, 1))] * groups
            start = row * (slices * groups * width) + unit
            with b.for_(0, slices, carried=zeros) as loop:
                place = start + loop.index * (groups * width)
                loop.yield_(
                    *(sum + shared[place + n * width] for n, sum in enumerate(loop.carried))
                )
            return list(loop.results)

        return joined

    def partial(self, block: Value, row: Value, slice: Value) -> list[Value]:
        """Return what a slice of the depth adds to the sums: a vector of units of each group."""
        b, problem, config = self.b, self.problem, self.config
        state, packed = self.parameters.state, self.parameters.packed
        assert state is not None
        assert packed is not None
        groups, width = problem.groups, config.width
        start = state.at([self.parameters.before, row, 0])
        zeros = [b.const(0, vector(problem.dtype, width))] * groups

        def added(sums: list[Value], depth: Value) -> list[Value]:
            x = b.splat(state.load(start + depth * state.layout.strides[2]), width)
            place = (block * problem.depth + depth) * (groups * width)
            weights = [
                packed.load(place + n * width, width=width, is_aligned=True) for n in range(groups)
            ]
            return [accumulate(x, w, sum) for w, sum in zip(weights, sums, strict=True)]

        round = config.slices * config.unroll
        whole = problem.depth // round * round
        sums = zeros
        if whole:
            with b.for_(0, whole, step=round, carried=sums) as loop:
                found = list(loop.carried)
                for n in range(config.unroll):
                    found = added(found, loop.index + (slice + n * config.slices))
                loop.yield_(*found)
            sums = list(loop.results)
        if problem.depth % round:
            with b.for_(slice + whole, problem.depth, step=config.slices, carried=sums) as loop:
                loop.yield_(*added(list(loop.carried), loop.index))
            sums = list(loop.results)
        return sums
