"""The first few of a row in order, without sorting the rest: taken out one after another.

An invocation keeps a row in memory of its own, as numbers of 64 bits: the key above the position.
These are all different and in the wanted order, so the next one is the least of them, found by
``width`` * ``vectors`` comparisons at once, and put out of the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, invocation_of, iota
from pyrite.backend.cube.skeleton.protocol import Fused, launch
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows, room_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import vector
from pyrite.types import TensorType, int32, uint64


@dataclass(frozen=True, slots=True)
class FirstOfRows:
    """The first ``k`` of rows in the order of their keys."""

    rows: Rows
    key: Key
    k: int


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """``vectors`` of ``width`` numbers compared at once, of rows that fit in a ``room``."""

    width: int
    vectors: int
    room: int

    def padded(self, size: int) -> int:
        """Return how many numbers of a row are compared: some are above all others."""
        step = self.width * self.vectors
        return -(-size // step) * step


#: What the stack of a thread surely holds; and above every kept number.
_PRIVATE_BYTES, _TAKEN = 1 << 17, 2**64 - 1


class SelectionSkeleton:
    """Kernels that write the positions of the first of rows in order: out[count, k]."""

    name = "sort selection"

    def candidates(self, problem: FirstOfRows, machine: Machine) -> list[SelectionConfig]:
        """Return the configs for keys of 32 bits, and rows that are not too long to keep."""
        size, itemsize = problem.rows.size, problem.key.dtype.itemsize
        room = room_of(size, _PRIVATE_BYTES // uint64.itemsize)
        return [
            config
            for width in (8, 4, 2, 1)
            for config in (SelectionConfig(width, 4, room), SelectionConfig(width, 1, room))
            if itemsize == 4 and config.padded(size) <= room
        ]

    def select(self, problem: FirstOfRows, machine: Machine) -> SelectionConfig:
        """Return the config of the widest vectors that the machine has for numbers of 64 bits."""
        found = self.candidates(problem, machine)
        return next(c for c in found if c.width <= _widest(machine))

    def is_better(self, problem: FirstOfRows, machine: Machine) -> bool:
        """Whether it takes less than to sort whole rows."""
        wide, k = _widest(machine), problem.k
        # To sort takes as long for an element as some 64 comparisons of vectors.
        if machine.kind == "gpu" or k > 8 * wide or k * 4 > problem.rows.size:
            return False
        return bool(self.candidates(problem, machine))

    def workgroups(self, problem: FirstOfRows, config: SelectionConfig) -> int:
        """Return the number of rows."""
        return problem.rows.count

    def build(
        self, problem: FirstOfRows, config: SelectionConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: what is sorted, out."""
        return _kernel(problem.rows, problem.key, problem.k, config, grid)


SELECTION: Final = SelectionSkeleton()


def _widest(machine: Machine) -> int:
    return max(1, machine.vector // 2)


def selected(
    launcher: Launcher, x: CubeTensor, problem: FirstOfRows, config: SelectionConfig
) -> CubeTensor:
    """Return the positions of the first k of rows, (count, k), int32."""
    target = launcher.empty(TensorType((problem.rows.count, problem.k), int32))
    launch(launcher, SELECTION, problem, [*bindings_of(x), target.buffer], config=config)
    return target


def _kernel(rows: Rows, key: Key, k: int, config: SelectionConfig, grid: int) -> Kernel:
    b = KernelBuilder("sort_selection", grid=grid)
    source = KeySource(b, rows, key)
    out = b.buffer("out", int32, "write")
    kept = b.private(uint64, config.room)
    number = invocation_of(b)
    with b.if_(number < rows.count):
        _keep(b, source, source.row(number), kept, config)
        with b.for_(0, k) as loop:
            position = b.cast(_least(b, kept, rows.size, config) & 0xFFFFFFFF, int32)
            out[number * k + loop.index] = position
            kept[b.index(position)] = _TAKEN
    return b.build()


def _keep(
    b: KernelBuilder, source: KeySource, row: Sequence[Value | int], kept: Memory,
    config: SelectionConfig,
) -> None:  # fmt: skip
    """Put a row into memory, by vectors where its elements are neighbours."""
    size, width = source.rows.size, config.width
    whole = size // width * width if source.rows.layout.strides[-1] == 1 else 0
    for step, begin, end in ((width, 0, whole), (1, whole, size)):
        with b.for_(begin, end, step=step) as loop:
            key = b.cast(source.load(row, loop.index, width=step), uint64)
            position = loop.index if step == 1 else loop.index + iota(b, step)
            kept.store(loop.index, (key << 32) | b.cast(position, uint64), is_aligned=True)
    with b.for_(size, config.padded(size)) as loop:
        kept[loop.index] = _TAKEN


def _least(b: KernelBuilder, kept: Memory, size: int, config: SelectionConfig) -> Value:
    """Return the least of the numbers that are left."""
    width, vectors = config.width, config.vectors
    start = [b.const(_TAKEN, vector(uint64, width))] * vectors
    with b.for_(0, config.padded(size), step=width * vectors, carried=start) as loop:
        found = [
            kept.load(loop.index + n * width, width=width, is_aligned=True) for n in range(vectors)
        ]
        loop.yield_(*(b.min(x, y) for x, y in zip(loop.carried, found, strict=True)))
    least = _halved(b, list(loop.results))
    return least if width == 1 else _halved(b, [least[i] for i in range(width)])


def _halved(b: KernelBuilder, values: list[Value]) -> Value:
    """Return the least, by halves."""
    while len(values) > 1:
        half = len(values) // 2
        values = [b.min(x, y) for x, y in zip(values[:half], values[half:], strict=True)]
    return values[0]
