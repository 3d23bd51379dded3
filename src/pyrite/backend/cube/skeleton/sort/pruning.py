"""The first few of rows in the memory of workgroups, on GPUs: of two runs the better half is kept.

A workgroup has a tile of a row.  It sorts runs as long as what is wanted, and compares run by run,
one of them backward: the lesser of each pair are the first of both runs together, rising and then
falling, and a merge sorts them.  So half of the tile goes with each turn, until one run is left.
Where a row has several tiles, what is left of them makes rows for the next launch.

Equal keys go by their positions, as in a stable sort of the whole row.
Source: Shanbhag, Pirk & Madden 2018, "Efficient top-k query processing on GPUs", section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, workgroup_of
from pyrite.backend.cube.skeleton.sort.bitonic import Elements, padded
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.runtime.protocol import Buffer
from pyrite.types import Number, TensorType, int32


@dataclass(frozen=True, slots=True)
class PruningConfig:
    """``workgroup_size`` invocations have ``tile`` elements, a power of two."""

    workgroup_size: int
    tile: int


#: The memory that every WebGPU device gives a workgroup.
_SHARED_BYTES = 1 << 14
#: In one workgroup there may be several rows that are shorter, where they are sorted whole.
_LEAST_SIZE = 256


def candidates(rows: Rows, key: Key, k: int, machine: Machine) -> list[PruningConfig]:
    """Return the configs that are right for the first k of rows: tiles of at least four runs."""
    most = _SHARED_BYTES // (key.dtype.itemsize + int32.itemsize)
    tiles = [1 << bits for bits in range(most.bit_length() - 1, 0, -1)]
    return [
        PruningConfig(size, tile)
        for tile in tiles
        for size in machine.workgroup_sizes
        if 2 * size <= tile and 4 * padded(k) <= tile
    ]


def select(rows: Rows, key: Key, k: int, machine: Machine) -> PruningConfig | None:
    """Return a config: the largest tile that a row fills; None where to sort it all is as well."""
    if machine.kind == "cpu" or rows.size < _LEAST_SIZE:
        return None
    found = candidates(rows, key, k, machine)
    return next((c for c in found if c.tile <= padded(rows.size)), None)


@dataclass(frozen=True, slots=True)
class Turn:
    """One launch: the first ``k`` of each tile of ``count`` rows of ``size`` elements.

    ``rows`` is where they lie; None where they are what is left of a turn before.
    """

    rows: Rows | None
    count: int
    size: int
    k: int
    tiles: int


def pruned(
    launcher: Launcher, x: CubeTensor, rows: Rows, key: Key, k: int, config: PruningConfig
) -> CubeTensor:
    """Return the positions of the first k of rows, (count, k), int32; k is at least 1."""
    turn = Turn(rows, rows.count, rows.size, k, -(-rows.size // config.tile))
    given = bindings_of(x)
    while turn.tiles > 1:
        shape = (rows.count, turn.tiles * k)
        left = [launcher.empty(TensorType(shape, dtype)) for dtype in (key.dtype, int32)]
        _launch(launcher, turn, key, config, given, left)
        given = [t.buffer for t in left]
        turn = Turn(None, rows.count, shape[1], k, -(-shape[1] // config.tile))
    positions = launcher.empty(TensorType((rows.count, k), int32))
    _launch(launcher, turn, key, config, given, [positions])
    return positions


def _launch(
    launcher: Launcher, turn: Turn, key: Key, config: PruningConfig,
    given: Sequence[Buffer | Number], targets: Sequence[CubeTensor],
) -> None:  # fmt: skip
    launcher.launch(
        ("sort prune", turn, key, config), lambda grid: pruning_kernel(turn, key, config, grid),
        [*given, *(t.buffer for t in targets)], turn.count * turn.tiles,
    )  # fmt: skip


def pruning_kernel(turn: Turn, key: Key, config: PruningConfig, grid: int) -> Kernel:
    """Return the kernel of a turn: keys and positions (count, tiles * k), at last positions."""
    b = KernelBuilder("sort_pruning", workgroup_size=config.workgroup_size, grid=grid)
    source = _Source(b, turn, key)
    kept = b.buffer("kept", key.dtype, "write") if turn.tiles > 1 else None
    out = b.buffer("out", int32, "write")
    elements = Elements(b, key, config.tile)
    unit = workgroup_of(b)
    run = padded(turn.k)
    with b.if_(unit < turn.count * turn.tiles):
        source.fill(elements, unit // turn.tiles, unit % turn.tiles)
        elements.sort_runs(run)
        _prune(elements, run)
        b.barrier()
        for place in elements.places():
            mask = place < turn.k
            if kept is not None:
                kept.store(unit * turn.k + place, elements.keys[place], mask=mask)
            out.store(unit * turn.k + place, elements.positions[place], mask=mask)
    return b.build()


class _Source:
    """What a turn reads: a row of a tensor, or what a turn before has left of it."""

    def __init__(self, b: KernelBuilder, turn: Turn, key: Key) -> None:
        self.b, self.turn, self.key = b, turn, key
        self.rows = None if turn.rows is None else KeySource(b, turn.rows, key)
        if turn.rows is None:
            self.keys = b.buffer("keys", key.dtype, "read")
            self.positions = b.buffer("positions", int32, "read")

    def fill(self, elements: Elements, row: Value, tile: Value) -> None:
        """Put a tile of a row into the memory of the workgroup; what it lacks goes behind all."""
        b, size = self.b, self.turn.size
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
