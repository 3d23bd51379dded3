"""One step of a recurrent layer as one kernel of a GPU: a workgroup has some units of some rows.

Its invocations cut the depth of the product in slices, each for a row or a few, so that also a
small step keeps many of them busy: neighbours read neighbouring weights of one gate, and the parts
meet in shared memory.  Then an invocation computes the cell of one unit of one row, on the sums of
all its gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """A workgroup has ``rows`` rows of ``width`` units.

    It has ``slices`` invocations for ``each`` rows, which weights in registers serve.
    """

    rows: int
    slices: int
    width: int
    unroll: int = 4
    each: int = 1

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
        return self.rows // self.each * self.slices if has_product else self.cells

    def shared_elements(self, groups: int) -> int:
        """Return how many elements of shared memory the parts take; see `GroupStep.place`."""
        return self.rows * (self.slices + 1) * groups * self.width


def candidates(problem: StepProblem, machine: Machine) -> list[GroupConfig]:
    """Return the configs whose partial sums a workgroup can share, by the rows of a workgroup.

    >>> from pyrite.types import float32
    >>> problem = StepProblem(20, 200, 4, 200, float32)
    >>> [(c.rows, c.slices, c.each) for c in candidates(problem, Machine.gpu())]
    [(8, 16, 1), (16, 8, 2), (32, 4, 1)]
    >>> [(c.rows, c.slices, c.each) for c in candidates(problem, Machine.gpu(48 << 10))]
    [(8, 32, 1), (16, 16, 2), (32, 16, 2)]
    """
    shapes = _SHAPES_OF_ONE if problem.groups == 1 else _SHAPES
    found = [_fitting(problem, machine, *shape) for shape in shapes]
    return [config for config in found if config is not None]


def _fitting(
    problem: StepProblem, machine: Machine, rows: int, each: int, threads: int
) -> GroupConfig | None:
    """Return the config of a shape with the most slices that fit, and with fewer rows if none do.

    It has an invocation for each cell, at least.
    """
    width = machine.vector
    unroll = max(_SUMS // problem.groups, 2)
    while each:
        size = min(threads, machine.invocations)
        while size >= rows * width:
            config = GroupConfig(rows, size * each // rows, width, unroll, each)
            nbytes = config.shared_elements(problem.groups) * problem.dtype.itemsize
            if nbytes <= machine.shared_bytes:
                return config
            size //= 2
        each //= 2
    return None


def select(problem: StepProblem, machine: Machine) -> GroupConfig:
    """Return the candidate with the fewest rows of which the device runs all workgroups at once."""
    blocks = -(-problem.size // machine.vector)
    found = candidates(problem, machine)
    return next(
        (c for c in found if blocks * -(-problem.batch // c.rows) <= machine.workgroups), found[-1]
    )


#: Gives sums, where they are used.
Sums = Callable[[], list[Value]]

#: Rows of a workgroup, rows of an invocation, and invocations, for several gates and for one.  On
#: an H200 a step of an LSTM of 512 units and 32 rows takes 12.6 µs with these, 13.8 with one row
#: for each of 256 invocations, and its gradient, which is one sum, 13.8 and 22.6.
_SHAPES: Final = ((8, 1, 256), (16, 2, 128), (32, 2, 256))
_SHAPES_OF_ONE: Final = ((8, 1, 256), (16, 4, 128), (32, 4, 256))
#: Vectors of weights that an invocation asks for before it needs the first.
_SUMS: Final = 16

#: Invocations of a workgroup that packs.
PACKING: Final = 64


def packing(problem: StepProblem, config: GroupConfig, layout: Layout, grid: int) -> Kernel:
    """Return the kernel that packs weights: of each block and group the vectors along the depth.

    Parameters: the weights, and where they go.
    """
    b = KernelBuilder("pack recurrent weights", workgroup_size=PACKING, grid=grid)
    x = Operand(b, "weights", layout, "read")
    packed = b.buffer("packed", problem.dtype, "write")
    number = workgroup_of(b) * PACKING + b.local_index()
    with b.if_(number < pieces(problem.size, config.panel) * problem.depth):
        block, depth = number // problem.depth, number % problem.depth
        unit = block * config.panel
        mask = None
        if problem.size % config.panel:
            mask = b.splat(unit, config.width) + iota(b, config.width) < problem.size
        for group in range(problem.groups):
            value = x.load_along(x.at([group, unit, depth]), config.width, axis=1, mask=mask)
            place = (block * problem.groups + group) * problem.depth + depth
            packed.store(place * config.width, value, is_aligned=True)
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
        own, slice = self.local // slices, self.local % slices
        rows = [
            b.min(first + (own * config.each + n), problem.batch - 1) for n in range(config.each)
        ]
        parts = self.partial(block, rows, slice)
        shared = b.shared(problem.dtype, config.shared_elements(groups))
        for n in range(config.each):
            for group in range(groups):
                place = self.place(own, n, group, slice)
                shared.store(place * width, parts[n * groups + group], is_aligned=True)
        b.barrier()

        def joined() -> list[Value]:
            zeros = [b.const(0, vector(problem.dtype, 1))] * groups
            own, n = row // config.each, row % config.each
            with b.for_(0, slices, carried=zeros) as loop:
                loop.yield_(
                    *(
                        sum + shared[self.place(own, n, group, loop.index) * width + unit]
                        for group, sum in enumerate(loop.carried)
                    )
                )
            return list(loop.results)

        return joined

    def place(self, own: Value, n: Value | int, group: int, slice: Value) -> Value:
        """Return which vector of shared memory has the part of a slice of a group of a row.

        Neighbours write neighbouring vectors, and one lies between rows, which are read at once.
        """
        config = self.config
        rows = config.rows // config.each
        before = (n * self.problem.groups + group) * rows
        return (own + before) * (config.slices + 1) + slice

    def partial(self, block: Value, rows: Sequence[Value], slice: Value) -> list[Value]:
        """Return what a slice of the depth adds: of each row a vector of units of each group."""
        b, problem, config = self.b, self.problem, self.config
        state, packed = self.parameters.state, self.parameters.packed
        assert state is not None
        assert packed is not None
        groups, width = problem.groups, config.width
        starts = [state.at([self.parameters.before, row, 0]) for row in rows]
        zeros = [b.const(0, vector(problem.dtype, width))] * (groups * len(rows))
        firsts = [(block * groups + group) * problem.depth for group in range(groups)]

        def added(sums: list[Value], depth: Value) -> list[Value]:
            weights = [
                packed.load((first + depth) * width, width=width, is_aligned=True)
                for first in firsts
            ]
            step = depth * state.layout.strides[2]
            states = [b.splat(state.load(start + step), width) for start in starts]
            return [
                accumulate(x, weight, sums[n * groups + group])
                for n, x in enumerate(states)
                for group, weight in enumerate(weights)
            ]

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
