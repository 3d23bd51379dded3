"""Copies of a turned tensor on a processor: by square tiles, which are turned in registers.

Neighbours of the source are on another axis than those of the target.  Read in the target's order
a vector is gathered, one cache line for each of its elements; here as many vectors as one has
elements are read as they lie, turned by steps of two vectors each, and written as they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import Strides, merged
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    iota,
    layout_of,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.skeleton.protocol import Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import cached
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.lanes import interleaved, part_of
from pyrite.types import DType, Shape, element_count


@dataclass(frozen=True, slots=True)
class Turn:
    """A copy of ``source`` to ``target``, whose neighbours are on ``axis`` and on the last one."""

    source: Layout
    target: Layout
    axis: int
    shape: Shape = extent()

    def lines(self, width: int) -> Shape:
        """Return the shape of the lines of tiles of a width, each along the last axis."""
        *others, _ = self.shape
        others[self.axis] = pieces(others[self.axis], width)
        return tuple(others)


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """Tiles have ``width`` vectors of ``width`` elements."""

    width: int


class TurnedCopy:
    """The skeleton; an invocation has a line of tiles."""

    name = "turned copy"

    def candidates(self, problem: Turn, machine: Machine) -> Sequence[TurnConfig]:
        """Return the one config there is, none where tiles do not fit in registers."""
        width = _width(problem.source.dtype, machine)
        return [] if width is None else [TurnConfig(width)]

    def select(self, problem: Turn, machine: Machine) -> TurnConfig:
        """Return it."""
        return self.candidates(problem, machine)[0]

    def workgroups(self, problem: Turn, config: TurnConfig) -> int:
        """Return how many workgroups run the kernel."""
        return element_count(problem.lines(config.width))

    def build(self, problem: Turn, config: TurnConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b = KernelBuilder(self.name, grid=grid)
        source = Operand(b, "x", problem.source, "read")
        target = Operand(b, "out", problem.target, "write")
        _write(b, problem, config.width, source, target)
        return b.build()


TURNED_COPY = TurnedCopy()


def lies_turned(machine: Machine, x: CubeTensor, target: Strides) -> bool:
    """Whether neighbours of a tensor are on another axis than those of another, for tiles."""
    width = _width(x.dtype, machine)
    return width is not None and _seen(x.shape, x.strides, target, width) is not None


def copy_turned(launcher: Launcher, source: CubeTensor, target: CubeTensor) -> bool:
    """Copy a tensor to another of its dtype, if it is turned; return whether it was."""
    width = _width(source.dtype, launcher.machine)
    if width is None or source.dtype is not target.dtype or not source.type.size:
        return False
    seen = _seen(source.shape, source.strides, target.strides, width)
    if seen is None:
        return False
    shape, strides, axis = seen
    source, target = (
        x.strided(shape, own) for x, own in zip((source, target), strides, strict=True)
    )
    turn = Turn(layout_of(source), layout_of(target), axis, shape)
    launch(launcher, TURNED_COPY, turn, [*bindings_of(source), *bindings_of(target)])
    return True


@cached(4096)
def _seen(
    shape: Shape, source: Strides, target: Strides, width: int
) -> tuple[Shape, tuple[Strides, Strides], int] | None:
    """Return the merged shape, both strides, and the source's axis of neighbours.

    None where the copy is not turned, or so small that tiles would be mostly empty.
    """
    (sizes, of_source), (_, of_target) = merged(shape, [source, target])
    if len(sizes) < 2 or of_target[-1] != 1 or of_source[-1] == 1 or 1 not in of_source:
        return None
    axis = of_source.index(1)
    if min(sizes[axis], sizes[-1]) < width // 2:
        return None
    return sizes, (of_source, of_target), axis


def _width(dtype: DType, machine: Machine) -> int | None:
    """Return the elements of a vector; None on GPUs, and where a tile has too many vectors."""
    if machine.kind != "cpu" or dtype.itemsize < _LEAST_BYTES or dtype.is_bool:
        return None
    width = machine.vector_bytes // dtype.itemsize
    return width if width > 1 else None


#: Elements of fewer bytes are so many in a vector that a tile does not fit in registers.
_LEAST_BYTES = 4


def _write(b: KernelBuilder, turn: Turn, width: int, source: Operand, target: Operand) -> None:
    """Write a line of tiles."""
    axis = turn.axis
    *outer, last = turn.shape
    place: list[Value | int] = [*unravel(b, workgroup_of(b), turn.lines(width))]
    first = b.index(place[axis]) * width
    lanes = iota(b, width)

    def read(at: Value, mask: Value | None, ahead: int = 0, count: int = width) -> Value:
        place[axis] = first + ahead if ahead else first
        return source.load_along(source.at([*place, at]), count, axis=axis, mask=mask)

    # A masked store takes many times as long as a plain one: half of a copy and more on Zen 3.
    whole = b.select(first + width <= outer[axis], b.index(last // width * width), b.index(0))
    with b.for_(0, whole, step=width) as loop:
        size = turn.source.dtype.itemsize
        columns = read_turned(lambda j, ahead, n: read(loop.index + j, None, ahead, n), width, size)
        for i, row in enumerate(columns):
            place[axis] = first + i
            target.store_along(target.at([*place, loop.index]), row)
    with b.for_(whole, last, step=width) as loop:
        own = first + lanes < outer[axis]
        rows = [read(b.min(loop.index + j, last - 1), own) for j in range(width)]
        there = loop.index + lanes < last
        for i, row in enumerate(turned(rows)):
            place[axis] = first + i
            with b.if_(first + i < outer[axis]):
                target.store_along(target.at([*place, loop.index]), row, mask=there)


def read_turned(read: Callable[[int, int, int], Value], width: int, size: int) -> list[Value]:
    """Return the columns of a tile of ``width`` rows, of elements of ``size`` bytes.

    ``read(row, first, count)`` gives neighbours of a row.  They are read by 16 bytes: put side by
    side those of several rows are turned within their 16 bytes, and no step crosses these, which
    takes a processor twice as long or longer.
    """
    chunk = chunk_of(width, size)
    found: list[Value] = []
    for first in range(0, width, chunk):
        found += read_chunk(partial(_part_of_row, read, first, chunk), width, chunk)
    return found


def _part_of_row(read: Callable[[int, int, int], Value], first: int, count: int, row: int) -> Value:
    return read(row, first, count)


def chunk_of(width: int, size: int) -> int:
    """Return how many elements of ``size`` bytes are turned at once, by tiles of a width.

    >>> chunk_of(8, 4), chunk_of(8, 8), chunk_of(2, 4)
    (4, 2, 2)
    """
    return min(max(_CHUNK // size, 1), width)


def read_chunk(read: Callable[[int], Value], width: int, chunk: int) -> list[Value]:
    """Return the ``chunk`` columns of rows, of each of which ``read`` gives so many neighbours."""
    return turned_within(
        [
            side_by_side([read(group + row) for group in range(0, width, chunk)])
            for row in range(chunk)
        ]
    )


def turned_within(vectors: Sequence[Value]) -> list[Value]:
    """Return vectors of which each run of as many lanes as there are vectors is turned.

    Done twice it gives what was there.
    """
    found, half = list(vectors), len(vectors) // 2
    for _ in range(half.bit_length()):
        pairs = [(found[i], found[i + half]) for i in range(half)]
        found = [part for x, y in pairs for part in _interleaved_within(x, y, 2 * half)]
    return found


def turned_by_chunks(rows: Sequence[Value]) -> Iterator[Value]:
    """Give the columns of vectors, as many as one has lanes or half of that, as `read_turned`.

    Those of a chunk are made when the first of them is asked for.
    """
    count, width = len(rows), rows[0].width
    chunk = chunk_of(count, rows[0].dtype.itemsize)
    for first in range(0, width, chunk):
        yield from read_chunk(partial(_part_of, rows, first, chunk), count, chunk)


def _part_of(rows: Sequence[Value], first: int, count: int, row: int) -> Value:
    return part_of(rows[row], first, count)


#: Bytes within which processors move elements about at the least cost.
_CHUNK: Final = 16


def side_by_side(values: Sequence[Value]) -> Value:
    """Return vectors as one."""
    if len(values) == 1:
        return values[0]
    if len(values) > 2 and len(values) % 2 == 0:
        # By halves, each of which is a shuffle of two vectors: of more, elements are moved alone.
        half = len(values) // 2
        return side_by_side([side_by_side(values[:half]), side_by_side(values[half:])])
    lanes = [x[i] if x.width > 1 else x for x in values for i in range(x.width)]
    return values[0].builder.make(lanes)


def _interleaved_within(x: Value, y: Value, chunk: int) -> list[Value]:
    """Return two vectors of which each chunk has the lanes of those of x and y in turns."""
    found = []
    for first in (0, chunk // 2):
        lanes = [
            value[begin + first + i]
            for begin in range(0, x.width, chunk)
            for i in range(chunk // 2)
            for value in (x, y)
        ]
        found.append(x.builder.make(lanes))
    return found


def turned(rows: Sequence[Value]) -> list[Value]:
    """Return the columns of as many vectors as one has lanes, a power of two.

    Each step puts the lanes of a vector and of the one half of all behind it in turns: that moves
    the highest bit of a row's number to the lowest place of the lanes' numbers.
    """
    found, half = list(rows), len(rows) // 2
    for _ in range(half.bit_length()):
        found = [part for i in range(half) for part in interleaved([found[i], found[i + half]])]
    return found
