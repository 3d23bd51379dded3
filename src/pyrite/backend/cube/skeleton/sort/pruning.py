"""The first few of rows in the memory of workgroups, on GPUs: of two runs the better half is kept.

A workgroup has a tile of a row.  It sorts runs as long as what is wanted, and compares run by run,
one of them backward: the lesser of each pair are the first of both runs together, rising and then
falling, and a merge sorts them.  So half of the tile goes each time, until one run is left.
Where a row has several tiles, what is left of them makes rows for the next launch.

Equal keys go by their positions, as in a stable sort of the whole row.
Source: Shanbhag, Pirk & Madden 2018, "Efficient top-k query processing on GPUs", section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, workgroup_of
from pyrite.backend.cube.skeleton.protocol import Fused, launch
from pyrite.backend.cube.skeleton.sort.bitonic import Elements, padded
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.types import TensorType, int32


@dataclass(frozen=True, slots=True)
class PruningConfig:
    """``workgroup_size`` invocations have ``tile`` elements, a power of two."""

    workgroup_size: int
    tile: int


#: The memory that every WebGPU device gives a workgroup.
_SHARED_BYTES = 1 << 14
#: In one workgroup there may be several rows that are shorter, where they are sorted whole.
_LEAST_SIZE = 256


@dataclass(frozen=True, slots=True)
class PruningRound:
    """One launch: the first ``k`` of each tile of ``count`` rows of ``size`` elements.

    ``rows`` is where they lie; None where they are what the round before has left.
    """

    rows: Rows | None
    key: Key
    count: int
    size: int
    k: int

    def tiles(self, config: PruningConfig) -> int:
        """Return the number of tiles of a row."""
        return -(-self.size // config.tile)


class PruningSkeleton:
    """Kernels of a round: they write keys and positions (count, tiles * k), at last positions."""

    name = "sort pruning"

    def candidates(self, problem: PruningRound, machine: Machine) -> list[PruningConfig]:
        """Return the configs that are right: tiles of at least four runs."""
        most = _SHARED_BYTES // (problem.key.dtype.itemsize + int32.itemsize)
        tiles = [1 << bits for bits in range(most.bit_length() - 1, 0, -1)]
        return [
            PruningConfig(size, tile)
            for tile in tiles
            for size in machine.workgroup_sizes
            if 2 * size <= tile and 4 * padded(problem.k) <= tile
        ]

    def select(self, problem: PruningRound, machine: Machine) -> PruningConfig:
        """Return the config of the largest tile that a row fills, or else of the smallest one."""
        found = self.candidates(problem, machine)
        return next((c for c in found if c.tile <= padded(problem.size)), found[-1])

    def is_better(self, problem: PruningRound, machine: Machine) -> bool:
        """Whether it takes less than to sort whole rows, of which a tile is to be filled."""
        if machine.kind == "cpu" or problem.size < _LEAST_SIZE:
            return False
        return any(c.tile <= padded(problem.size) for c in self.candidates(problem, machine))

    def workgroups(self, problem: PruningRound, config: PruningConfig) -> int:
        """Return the number of tiles of all rows."""
        return problem.count * problem.tiles(config)

    def build(
        self, problem: PruningRound, config: PruningConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: what is sorted, or keys and positions; both again."""
        return _kernel(problem, config, grid)


PRUNING: Final = PruningSkeleton()


def pruned(
    launcher: Launcher, x: CubeTensor, problem: PruningRound, config: PruningConfig
) -> CubeTensor:
    """Return the positions of the first k of rows, (count, k), int32; k is at least 1."""
    count, k, key = problem.count, problem.k, problem.key
    given = bindings_of(x)
    while (tiles := problem.tiles(config)) > 1:
        shape = (count, tiles * k)
        left = [launcher.empty(TensorType(shape, dtype)).buffer for dtype in (key.dtype, int32)]
        launch(launcher, PRUNING, problem, [*given, *left], config=config)
        given = [*left]
        problem = PruningRound(None, key, count, tiles * k, k)
    positions = launcher.empty(TensorType((count, k), int32))
    launch(launcher, PRUNING, problem, [*given, positions.buffer], config=config)
    return positions


def _kernel(problem: PruningRound, config: PruningConfig, grid: int) -> Kernel:
    b = KernelBuilder("sort_pruning", workgroup_size=config.workgroup_size, grid=grid)
    key, k, tiles = problem.key, problem.k, problem.tiles(config)
    source = _Source(b, problem)
    kept = b.buffer("kept", key.dtype, "write") if tiles > 1 else None
    out = b.buffer("out", int32, "write")
    elements = Elements(b, key, config.tile)
    unit = workgroup_of(b)
    run = padded(k)
    with b.if_(unit < problem.count * tiles):
        source.fill(elements, unit // tiles, unit % tiles)
        elements.sort_runs(run)
        _prune(elements, run)
        b.barrier()
        for place in elements.places():
            mask = place < k
            if kept is not None:
                kept.store(unit * k + place, elements.keys[place], mask=mask)
            out.store(unit * k + place, elements.positions[place], mask=mask)
    return b.build()


class _Source:
    """The elements that a round reads: rows of a tensor, or what the round before has left."""

    def __init__(self, b: KernelBuilder, problem: PruningRound) -> None:
        self.b, self.size, self.key = b, problem.size, problem.key
        key, rows = problem.key, problem.rows
        self.rows = None if rows is None else KeySource(b, rows, key)
        if rows is None:
            self.keys = b.buffer("keys", key.dtype, "read")
            self.positions = b.buffer("positions", int32, "read")

    def fill(self, elements: Elements, row: Value, tile: Value) -> None:
        """Put a tile of a row into the memory of the workgroup; what it lacks goes behind all."""
        b, size = self.b, self.size
        first = tile * len(elements)
        for place in elements.places():
            i = first + place
            inside = i < size
            if self.rows is not None:
                key = self.rows.load(self.rows.row(row), i, mask=inside)
                position = b.cast(i, int32)
            else:
                at = row * size + i
                key = self.keys.load(at, mask=inside, other=self.key.highest)
                position = self.positions.load(at, mask=inside)
            elements.keys[place] = key
            elements.positions[place] = b.select(inside, position, int(int32.highest))


def _prune(elements: Elements, run: int) -> None:
    """Keep of sorted runs the first one of all, where the first of them is."""
    b, tile = elements.b, len(elements)
    turns = (tile // run).bit_length() - 1
    # How far apart the runs are that are left, and how many elements half of them have.
    with b.for_(0, turns, carried=[b.index(run), b.index(tile // 2)]) as loop:
        spacing, count = loop.carried
        _halve(elements, run, spacing, count)
        loop.yield_(spacing << 1, count >> 1)


def _halve(elements: Elements, run: int, spacing: Value, count: Value) -> None:
    """Keep the first half of each two neighbouring runs in the place of one, sorted."""
    b = elements.b

    def keep(i: Value) -> None:
        first, other = i // run * (spacing << 1), i % run
        elements.exchange(first + other, first + spacing + (run - 1) - other)

    b.barrier()
    elements.each_below(count, keep)
    with b.for_(0, run.bit_length() - 1, carried=[b.index(run // 2)]) as loop:
        (distance,) = loop.carried

        def merge(pair: Value) -> None:
            low = pair & (distance - 1)
            i = ((pair - low) << 1) + low
            place = i // run * (spacing << 1) + i % run
            elements.exchange(place, place + distance)

        b.barrier()
        elements.each_below(count >> 1, merge)
        loop.yield_(distance >> 1)
