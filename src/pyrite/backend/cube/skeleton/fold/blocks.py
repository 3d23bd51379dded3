"""The states of blocks of lines, for folds along columns of lines that are long and many.

Down a column each line is read in another page, and no processor asks for what comes next: sums of
4096² over axis 0 took 2.4 times as long as over axis 1.  So here a workgroup goes along the lines,
four at a time, and has the states of its block in the caches between one pass and the next.  Of a
column it takes in the same elements in the same order as `kernel.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.operand import Layout, Operand, workgroup_of
from pyrite.backend.cube.skeleton.fold.config import Problem
from pyrite.backend.cube.skeleton.fold.fold import KernelFold, State
from pyrite.backend.cube.skeleton.fold.order import FIRST
from pyrite.backend.cube.skeleton.fold.reduction import Reduction
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.machine import Machine
from pyrite.kernel.trace import RecordingAlgebra

#: Lines that are taken in by one pass.  Of 2 each state is loaded and stored twice as often, of 8
#: the lines are more than a processor reads ahead of.
LINES: Final = 4
#: Numbers in the states of a workgroup: half of the nearest cache.
STRIPE: Final = 4096
#: Vectors that are taken in side by side.
VECTORS: Final = 4
#: Of shorter lines several are in a page.
LEAST: Final = 512


@dataclass(frozen=True, slots=True)
class BlocksConfig:
    """How many outputs are vectors, how many a workgroup has, and how many lines are a block."""

    width: int
    stripe: int
    first: int


def blocks_config(of: Reduction, machine: Machine, first: int) -> BlocksConfig | None:
    """Return how to go along the lines of a fold, ``first`` in a block; None where that is slower.

    It is where lines are short, or few, or all elements are in a cache anyway.
    """
    problem = of.problem
    if machine.kind != "cpu" or not of.takes or problem.count * problem.size < machine.cached:
        return None
    if problem.output_strides != (1,) or len(problem.reduced) != 1 or problem.count < LEAST:
        return None
    config = BlocksConfig(machine.vector, STRIPE // of.values, first)
    return config if workgroups(problem, config) >= 4 * machine.threads else None


def workgroups(of: Problem, config: BlocksConfig) -> int:
    """Return how many workgroups go along the lines."""
    return -(-of.count // config.stripe) * -(-of.size // config.first)


class _BlocksKernel:
    """The kernel of one fold, while it is being written."""

    def __init__(self, fused: Fused, reduction: Reduction, config: BlocksConfig, grid: int) -> None:
        assert fused.body is not None
        fold: KernelFold = fused.body.of
        self.fold = fold.ending(count=reduction.count)
        self.config = config
        (self.length,), (self.size,) = reduction.problem.outputs, reduction.problem.reduced
        b = self.b = KernelBuilder(fold.name, workgroup_size=1, grid=grid)
        self.k = RecordingAlgebra(b)
        (source,) = reduction.sources
        self.source = Operand(b, "x0", source, "read")
        self.states = [
            Operand(b, f"out{i}", Layout(dtype, (1,)), "read_write")
            for i, dtype in enumerate(reduction.targets)
        ]

    def write(self) -> None:
        b, config = self.b, self.config
        stripes, blocks = -(-self.length // config.stripe), -(-self.size // config.first)
        group = workgroup_of(b)
        with b.if_(group < stripes * blocks):
            block, stripe = group // stripes, group % stripes
            first, begin = block * config.first, stripe * config.stripe
            end = b.min(first + config.first, self.size)
            stop = b.min(begin + config.stripe, self.length)
            place = block * self.length
            self.along(begin, stop, place, None, 0)
            whole = first + (end - first) // LINES * LINES
            with b.for_(first, whole, step=LINES) as loop:
                self.along(begin, stop, place, loop.index, LINES)
            with b.for_(whole, end) as loop:
                self.along(begin, stop, place, loop.index, 1)

    def along(
        self, begin: Value, stop: Value, place: Value, line: Value | None, lines: int
    ) -> None:
        """Take in some lines from one on, between two columns; without one begin with nothing."""
        width = self.config.width
        for step in dict.fromkeys((VECTORS * width, width, 1)):
            rest = begin + (stop - begin) // step * step if step > 1 else stop
            with self.b.for_(begin, rest, step=step) as loop:
                part = width if step > 1 else 1
                for ahead in range(0, step, part):
                    column = loop.index + ahead if ahead else loop.index
                    self.take(column, place, line, lines, part)
            begin = rest

    def take(self, column: Value, place: Value, line: Value | None, lines: int, width: int) -> None:
        """Take neighbouring elements of lines into their states."""
        b, at = self.b, place + column
        if line is None:
            self.put(at, self.fold.empty(b, width))
            return
        state: State = tuple(s.load_along(at, width) for s in self.states)
        for i in range(lines):
            row = line + i if i else line
            x = self.source.load_along(self.source.at([column, row]), width, axis=0)
            position = row if width == 1 else b.splat(row, width)
            state = self.fold.join(self.k, state, self.fold.take(self.k, x, position))
        self.put(at, state)

    def put(self, at: Value, state: State) -> None:
        for target, value in zip(self.states, state, strict=True):
            target.store_along(at, value)


class BlocksSkeleton:
    """Kernels that write the states of the blocks of a fold; the fold is the body."""

    name = "fold blocks"

    def candidates(self, problem: Reduction, machine: Machine) -> Sequence[BlocksConfig]:
        """Return the configs that are right for columns whose outputs are neighbours."""
        widths = [w for w in (1, 4, 8, 16) if w <= machine.vector]
        return [BlocksConfig(w, stripe, FIRST) for w in widths for stripe in (96, STRIPE)]

    def select(self, problem: Reduction, machine: Machine) -> BlocksConfig:
        """Return the one whose states stay in the nearest cache."""
        return BlocksConfig(machine.vector, STRIPE // problem.values, FIRST)

    def workgroups(self, problem: Reduction, config: BlocksConfig) -> int:
        """Return how many workgroups run the kernel."""
        return workgroups(problem.problem, config)

    def build(self, problem: Reduction, config: BlocksConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: the source, and a target for each value of a state."""
        body = _BlocksKernel(fused, problem, config, grid)
        body.write()
        return body.b.build()


BLOCKS: Final = BlocksSkeleton()
