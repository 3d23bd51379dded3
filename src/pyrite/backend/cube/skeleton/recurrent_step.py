"""One step of a recurrent layer as one kernel: a product, and the cell on its sums.

    def cell(step: RecurrentStep) -> None:
        step.write(0, step.k.tanh(step.sums[0] + step.read(0)))

    packed = pack(launcher, weights, problem, config)
    operands = StepOperands(before, packed, [from_inputs], [after])
    run_steps(launcher, "rnn", "", problem, config, operands, cell, Steps(0, count, 1))

A layer's steps are launches of one kernel, which differ in two numbers.  Weights are packed once
for the whole sequence, as the inner loop reads them: for each block of columns, row after row, the
vectors of all groups.  A group is what one gate adds up.  On a CPU an invocation has the sums of
all gates of some units of some rows in registers, and the cell is computed on them there; for a
GPU's kernel see recurrent_group.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine, Steps
from pyrite.backend.cube.operand import Layout, Operand, bindings_of, iota, layout_of, workgroup_of
from pyrite.backend.cube.skeleton import recurrent_group as together
from pyrite.backend.cube.skeleton.protocol import Body
from pyrite.backend.cube.skeleton.recurrent_cell import (
    Cell,
    RecurrentStep,
    StepParameters,
    StepProblem,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.choice import chosen
from pyrite.kernel.ir import vector
from pyrite.kernel.template.product import accumulate
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.runtime.protocol import Buffer
from pyrite.symbol import require_known
from pyrite.types import Number, TensorType

# ---- problems and configs ----


@dataclass(frozen=True, slots=True)
class StepConfig:
    """An invocation has ``rows`` rows, and of each group so many vectors of ``width`` units.

    One that all batches share asks of each row whether there is one; else the rows that are left
    at the end are written out.
    """

    rows: int
    vectors: int
    width: int
    unroll: int = 4
    is_shared: bool = False

    @property
    def panel(self) -> int:
        """Units of an invocation."""
        return self.vectors * self.width


def candidates(problem: StepProblem, machine: Machine) -> list[StepConfig]:
    """Return the configs whose sums fit in registers, beside weights and an element of the state.

    >>> from pyrite.types import float32
    >>> [(c.rows, c.vectors) for c in candidates(StepProblem(5, 9, 4, 9, float32), Machine.cpu())]
    [(1, 1), (1, 2), (2, 1)]
    """
    return _fitting(problem, machine, range(1, min(_MOST_ROWS, problem.batch) + 1))


def _fitting(
    problem: StepProblem, machine: Machine, heights: Iterable[int], *, is_shared: bool = False
) -> list[StepConfig]:
    width = machine.vector_bytes // problem.dtype.itemsize
    configs = [
        StepConfig(rows, vectors, width, is_shared=is_shared)
        for rows in heights
        for vectors in range(1, min(_MOST_VECTORS, -(-problem.size // width)) + 1)
    ]
    return [c for c in configs if c.rows * c.vectors == 1 or _fits(problem, c, machine)]


def _fits(problem: StepProblem, config: StepConfig, machine: Machine) -> bool:
    """Whether sums are in registers, with weights and an element of the state.

    A weight of one row is an operand in memory.  What does not fit is spilled: 24 sums and 8
    weights took 43 cycles of 32 registers where 24 and 4 take 28, and of 16 an LSTM took 1.5 times
    as long by 12 sums and 4 weights as by 8 and 4.  On Zen 4 24 sums took 1.0 to 1.8 times as long
    as 20.
    """
    weights = config.vectors * problem.groups
    sums = config.rows * weights
    most = _SUMS[machine.registers >= 32]
    return sums <= most and (config.rows == 1 or sums + weights < machine.registers)


#: Sums in registers, of 16 registers and of 32.
_SUMS: Final = (12, 20)
_MOST_ROWS: Final = 12
_MOST_VECTORS: Final = 6
#: Cycles in which a vector of weights comes, where rows may share it.
_LOAD: Final = 2.0
#: Rows of an invocation where all batches share some kernels: 3 to 6 % more cycles on average.
_SHARED_ROWS: Final = (1, 2, 4, 8)


#: How the kernel of a step is cut up: for a CPU, or for a GPU.
Config = StepConfig | together.GroupConfig


def config_of(launcher: Launcher, problem: StepProblem) -> Config:
    """Return the config of a batch: that came first, or such as all others share.

    An element's sum has one order in all configs.
    """
    machine = launcher.machine
    if machine.kind == "gpu" or launcher.is_first(problem):
        return select(problem, machine)
    return select_shared(problem, machine)


@chosen(4096)
def select(problem: StepProblem, machine: Machine) -> Config:
    """Return the candidate with the least work; on a GPU one that keeps it busy."""
    if machine.kind == "gpu":
        return together.select(problem, machine)
    return min(candidates(problem, machine), key=lambda config: _cost(problem, config))


@chosen(4096)
def select_shared(problem: StepProblem, machine: Machine) -> StepConfig:
    """Return the config with the least work of a few, each of which serves any batch.

    >>> from pyrite.types import float32
    >>> machine = Machine.cpu(64, 32)
    >>> found = [select_shared(StepProblem(n, 200, 1, 200, float32), machine) for n in range(1, 99)]
    >>> len(set(found))
    4
    """
    heights = [rows for rows in _SHARED_ROWS if rows < 2 * problem.batch]
    configs = _fitting(problem, machine, heights, is_shared=True)
    return min(configs, key=lambda config: _cost(problem, config))


def _cost(problem: StepProblem, config: StepConfig) -> float:
    """Estimated cycles for each step along the depth: see `panel_config`.  Vectors are whole.

    Weights come of a cache that is farther than the first: an LSTM of 512 units took 1.8 times as
    long, from 20 rows on, by rows one by one, with 16 weights, as by four rows and 4.
    """
    vectors = config.vectors * problem.groups
    load = 0.5 if problem.batch == 1 else _LOAD
    whole, rest = divmod(problem.batch, config.rows)
    heights = [(config.rows, whole), (config.rows * bool(rest) if config.is_shared else rest, 1)]
    rows = sum(
        times * (max(n * vectors, n / 2 + vectors * load, 8.0) + 0.5) for n, times in heights if n
    )
    return rows * -(-problem.size // config.panel)


def blocks_of(problem: StepProblem, config: Config) -> int:
    """Return the number of blocks of columns."""
    return -(-problem.size // config.panel)


# ---- weights ----


def pack(
    launcher: Launcher, weights: CubeTensor, problem: StepProblem, config: Config
) -> CubeTensor:
    """Return weights (groups, size, depth), which lie anyhow, as the steps of a sequence read them.

    Units beyond the last are 0.
    """
    if isinstance(config, StepConfig):
        config = StepConfig(1, config.vectors, config.width)  # of no rows
    blocks = blocks_of(problem, config)
    count = blocks * problem.depth * problem.groups * config.panel
    workgroups = blocks
    if isinstance(config, together.GroupConfig):
        workgroups = -(-blocks * problem.depth // together.PACKING)
    target = launcher.empty(TensorType((count,), problem.dtype))
    launcher.launch_for(
        (problem, config, layout_of(weights)), "pack recurrent weights",
        lambda of, grid: _packing(of[0], of[1], of[2], grid),
        [*bindings_of(weights), target.buffer], workgroups,
    )  # fmt: skip
    return target


def _packing(problem: StepProblem, config: Config, layout: Layout, grid: int) -> Kernel:
    """Return the kernel of `pack`.  Parameters: the weights, and where they go."""
    if isinstance(config, together.GroupConfig):
        return together.packing(problem, config, layout, grid)
    b = KernelBuilder("pack recurrent weights", grid=grid)
    x = Operand(b, "weights", layout, "read")
    packed = b.buffer("packed", problem.dtype, "write")
    block, vectors = workgroup_of(b), problem.groups * config.vectors
    columns = _columns(b, block, problem, config)
    with b.for_(0, problem.depth) as loop:
        first = (block * problem.depth + loop.index) * (vectors * config.width)
        for group in range(problem.groups):
            for v, (column, mask) in enumerate(columns):
                place = x.at([group, column, loop.index])
                value = x.load_along(place, config.width, axis=1, mask=mask)
                packed.store(first + (group * config.vectors + v) * config.width, value)
        loop.yield_()
    return b.build()


def _columns(
    b: KernelBuilder, block: Value, problem: StepProblem, config: StepConfig
) -> list[tuple[Value, Value | None]]:
    """Return the first unit of each vector of a block, and which units there are, None for all."""
    firsts = [block * config.panel + v * config.width for v in range(config.vectors)]
    if problem.size % config.panel == 0:
        return [(first, None) for first in firsts]
    units = iota(b, config.width)
    return [(first, b.splat(first, config.width) + units < problem.size) for first in firsts]


# ---- steps ----


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """All that the kernel of a step depends on: what it sums, how, where operands lie, its cell."""

    problem: StepProblem
    config: Config
    state: Layout | None
    sources: tuple[Layout, ...]
    targets: tuple[Layout, ...]
    cell: Body


@dataclass(frozen=True, slots=True)
class StepOperands:
    """What the steps of a sequence read and write.

    ``state`` (T, N, depth) is multiplied by the packed weights; both are None where there is no
    product.  Targets are read where a cell asks what they hold.
    """

    state: CubeTensor | None
    packed: CubeTensor | None
    sources: Sequence[CubeTensor]
    targets: Sequence[CubeTensor]


def run_steps(
    launcher: Launcher, name: str, variant: Hashable, problem: StepProblem, config: Config,
    operands: StepOperands, cell: Cell, steps: Steps,
) -> None:  # fmt: skip
    """Run a cell at each of some steps, on the products of the state ``apart`` from it.

    ``name`` and ``variant`` tell the cell from others.
    """
    state, packed = operands.state, operands.packed
    of = StepLaunch(
        problem, config, None if state is None else layout_of(state),
        tuple(layout_of(x) for x in operands.sources),
        tuple(layout_of(x) for x in operands.targets), Body(name, (name, variant), cell),
    )  # fmt: skip
    bindings: list[Buffer | Number] = []
    if state is not None and packed is not None:
        bindings += [*bindings_of(state), packed.buffer]
    bindings += [b for x in (*operands.sources, *operands.targets) for b in bindings_of(x)]
    workgroups = blocks_of(problem, config) * -(-problem.batch // config.rows)
    launcher.launch_steps(of, "recurrent step", _kernel_of, bindings, workgroups, steps)


def _kernel_of(of: StepLaunch, grid: int) -> Kernel:
    """Return the kernel of a step."""
    problem, config, name = of.problem, of.config, f"{of.cell.name} step"
    size = 1
    if isinstance(config, together.GroupConfig):
        size = config.threads(has_product=of.state is not None)
    b = KernelBuilder(name, workgroup_size=size, grid=grid)
    parameters = StepParameters(b, problem, of.state, of.sources, of.targets, of.cell)
    if isinstance(config, together.GroupConfig):
        together.GroupStep(b, parameters, problem, config).write()
    else:
        _StepKernel(b, parameters, problem, config).write()
    return b.build()


class _StepKernel:
    """What one invocation of a CPU does in the kernel of a step."""

    def __init__(
        self, b: KernelBuilder, parameters: StepParameters, problem: StepProblem,
        config: StepConfig,
    ) -> None:  # fmt: skip
        self.b, self.parameters = b, parameters
        self.problem, self.config = problem, config

    def write(self) -> None:
        """Write the step."""
        b, config, problem = self.b, self.config, self.problem
        if config.is_shared:
            number, count = workgroup_of(b), -(-problem.batch // config.rows)
            self.tile(number // count, number % count, config.rows)
            return
        # The rows of the last tile are written out.
        whole, rest = problem.batch // config.rows, require_known(problem.batch % config.rows)
        # Blocks of rows follow each other, so that a thread has the weights of few columns.
        number, count = workgroup_of(b), whole + bool(rest)
        block, rows = number // count, number % count
        if not rest:
            self.tile(block, rows, config.rows)
            return
        with b.if_(rows < whole) as branch:
            self.tile(block, rows, config.rows)
        with branch.else_():
            self.tile(block, rows, rest)

    def tile(self, block: Value, rows: Value, count: int) -> None:
        """Make the sums of some rows of a block of columns, and apply the cell to them."""
        b, config, problem = self.b, self.config, self.problem
        places = [rows * config.rows + i for i in range(count)]
        first, further = places[0], places[1:]
        if not config.is_shared:
            sums = self.sums(block, places)
        else:
            last = problem.batch - 1
            sums = self.sums(block, [first, *[b.min(row, last) for row in further]])
        vectors = problem.groups * config.vectors
        for i, row in enumerate(places):
            own = sums[i * vectors : (i + 1) * vectors]
            if i and config.is_shared:
                with b.if_(row < problem.batch):
                    self.cells(block, row, own)
            else:
                self.cells(block, row, own)

    def cells(self, block: Value, row: Value, sums: Sequence[Value]) -> None:
        """Apply the cell to the sums of a row of a block."""
        b, config, problem, of = self.b, self.config, self.problem, self.parameters
        k = RecordingAlgebra(b)
        for v, (column, mask) in enumerate(_columns(b, block, problem, config)):
            own, at = sums[v :: config.vectors], (of.step, row, column)
            of.cell(
                RecurrentStep(k, own, of.sources, of.targets, at, problem.size, config.width, mask)
            )

    def sums(self, block: Value, rows: Sequence[Value]) -> list[Value]:
        """Return the sums of rows: for each all vectors of a group, group by group."""
        b, config, problem = self.b, self.config, self.problem
        vectors = problem.groups * config.vectors
        zero = b.const(0, vector(problem.dtype, config.width))
        sums = [zero] * (len(rows) * vectors)
        operand = self.parameters.state
        if operand is None:
            return sums
        state = [operand.at([self.parameters.before, row, 0]) for row in rows]
        whole = problem.depth // config.unroll * config.unroll
        first = block * problem.depth
        for start, stop, steps in ((0, whole, config.unroll), (whole, problem.depth, 1)):
            if start < stop:
                with b.for_(start, stop, step=steps, carried=sums) as loop:
                    found = list(loop.carried)
                    for further in range(steps):
                        found = self.add(found, first, state, loop.index + further)
                    loop.yield_(*found)
                sums = list(loop.results)
        return sums

    def add(
        self, sums: Sequence[Value], first: Value, state: Sequence[Value], depth: Value
    ) -> list[Value]:
        """Return the sums with the products at one place along the depth."""
        operand, packed = self.parameters.state, self.parameters.packed
        assert operand is not None
        assert packed is not None
        width = self.config.width
        vectors = self.problem.groups * self.config.vectors
        place = (first + depth) * (vectors * width)
        weights = [packed.load(place + v * width, width=width) for v in range(vectors)]
        stride = operand.layout.strides[2]
        found = []
        for i, row in enumerate(state):
            x = self.b.splat(operand.load(row + depth * stride), width)
            for v in range(vectors):
                found.append(accumulate(x, weights[v], sums[i * vectors + v]))
        return found
