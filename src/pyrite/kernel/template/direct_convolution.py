"""A convolution on CPUs without a matrix: vectors along the positions, windows read in place.

An invocation copies some rows of some images, as `planes` says, and makes ``block_o`` outputs of
them.  Its inner loop holds ``outputs`` x ``vectors`` vectors of sums in registers; for each channel
and tap it reads ``vectors`` vectors of the copy, at the tap's distance, and one element of the
weight for each output.  So an image is copied once for all taps, and rows of any length fill the
vectors.  If there are more channels than ``block_c``, the sums wait in private memory.

What it makes between the rows is never stored.  The same kernel is the gradient of the input: then
it reads g, and the weight by its other side; see `implicit_gemm`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from pyrite.kernel.build import KernelBuilder, Value
from pyrite.kernel.ir import Kernel, vector
from pyrite.kernel.template.implicit_gemm import Layout, Windows
from pyrite.kernel.template.index import Index, divided, plus, remainder, times
from pyrite.kernel.template.operand import Operand, OperandMap, accumulator_of
from pyrite.kernel.template.panel_config import CpuFacts
from pyrite.kernel.template.planes import Piece, Planes, Volume, copy_planes, store_piece, walk
from pyrite.kernel.template.product import group_number
from pyrite.types import DType, int64


@dataclass(frozen=True, slots=True)
class DirectConfig:
    """How the work is cut up; see the head of this file.  ``width`` is the lanes of a vector."""

    outputs: int
    vectors: int
    width: int
    block_o: int
    block_c: int
    images: int
    rows: int

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_o % self.outputs == 0


def candidates(w: Windows, dtype: DType, facts: CpuFacts) -> list[DirectConfig]:
    """Return the configs that are right for a convolution on a CPU; none for large windows."""
    if prod(w.kernel_size) > _MOST_TAPS:
        return []
    return [
        _config(w, dtype, facts, outputs, vectors, length)
        for outputs, vectors in _shapes(w, facts)
        for length in _LENGTHS
    ]


def select(w: Windows, dtype: DType, facts: CpuFacts) -> DirectConfig:
    """Return the candidate with the least estimated time; see `_cost`."""
    return min(candidates(w, dtype, facts), key=lambda c: _cost(w, c, facts))


#: All taps are written out.
_MOST_TAPS: Final = 49
#: Positions of a tile, roughly, where there are as many.
_LENGTHS: Final = (256, 1024, 4096)
#: Elements of the copy of x, and of the sums that wait, at most: they stay in the second cache.
_ROOM: Final = 40 << 10
#: The most outputs that share a copy.
_OUTPUTS: Final = 64


def _shapes(w: Windows, facts: CpuFacts) -> list[tuple[int, int]]:
    """(outputs, vectors) whose sums fit in registers beside the vectors of a tap."""
    room = facts.registers - 1
    known = [(rows, room // (rows + 1)) for rows in (1, 2, 3, 4, 6, 8, 14)]
    return sorted({(min(rows, w.outputs), min(v, 8)) for rows, v in known if v > 0})


def _config(
    w: Windows, dtype: DType, facts: CpuFacts, outputs: int, vectors: int, length: int
) -> DirectConfig:
    """As many positions as are wanted, then as many outputs and channels as find room."""
    width = facts.vector_bytes // accumulator_of(dtype).itemsize
    planes = Planes(w, 1, w.counts[0], width)
    row = planes.image_size // planes.extents[0]
    rows = -(-w.counts[0] // max(-(-w.counts[0] * row // length), 1))
    images = max(min(w.batch, length // planes.length), 1) if rows == w.counts[0] else 1
    planes = Planes(w, images, rows, width)
    block_c = min(w.channels, max(_ROOM // (planes.size * len(planes.phases)), 1))
    block_o = min(w.outputs, _OUTPUTS, max(_ROOM // planes.size, 1))
    parts = -(-w.outputs // block_o)
    block_o = -(-w.outputs // (parts * outputs)) * outputs
    return DirectConfig(outputs, vectors, width, block_o, block_c, images, rows)


def _cost(w: Windows, config: DirectConfig, facts: CpuFacts) -> float:
    """Estimated cycles: at each tap two products or two reads a cycle, and those of the copies."""
    c = config
    planes = Planes(w, c.images, c.rows, c.width)
    whole, rest = _blocks(planes, c)
    taps = w.channels * prod(w.kernel_size)
    summed = whole * _block_cost(taps, c.outputs, c.vectors)
    if rest:
        summed += _block_cost(taps, c.outputs, rest)
    vectors = planes.length / c.width
    copied = (w.channels * len(planes.phases) * 6 + c.block_o * 8) * vectors
    each = c.block_o // c.outputs * summed + copied
    return -(-workgroups(w, c) // facts.threads) * each


def _block_cost(taps: int, outputs: int, vectors: int) -> float:
    return taps * max(outputs * vectors, 1.8 * vectors + outputs, 8) / 2 + 10


def _blocks(planes: Planes, config: DirectConfig) -> tuple[int, int]:
    """Return how many blocks the positions are cut into, and the vectors that are left."""
    return divmod(-(-planes.length // config.width), config.vectors)


def workgroups(w: Windows, config: DirectConfig) -> int:
    """Return how many workgroups run it."""
    return _tiles(w, config) * w.groups * -(-w.outputs // config.block_o)


def _tiles(w: Windows, config: DirectConfig) -> int:
    return -(-w.batch // config.images) * -(-w.counts[0] // config.rows)


def direct_convolution(
    w: Windows, x: Layout, weight: OperandMap, out: Layout, config: DirectConfig, *, grid: int = 1
) -> Kernel:
    """Return the kernel of a convolution.

    Parameters: the weight, of which (output, (channel, *tap)) are rows and columns and the batch is
    the group; x (N, G C, *S) and out (N, G O, *S'); each followed by its offset if it has one.
    """
    assert config.is_legal(), config
    b = KernelBuilder("direct_convolution", workgroup_size=1, grid=grid, index=int64)
    kernel = _DirectConvolution(b, w, x, weight, out, config)
    number = group_number(b)
    with b.if_(number < workgroups(w, config)):
        kernel.write(number)
    return b.build()


class _DirectConvolution:
    def __init__(
        self, b: KernelBuilder, w: Windows, x: Layout, weight: OperandMap, out: Layout,
        config: DirectConfig,
    ) -> None:  # fmt: skip
        self.b = b
        self.w = w
        self.config = c = config
        self.accumulator = accumulator_of(x.dtype)
        self.weight = Operand(b, "weight", weight, "read")
        self.x, self.out = Volume(b, "x", x, "read"), Volume(b, "out", out, "write")
        self.planes = Planes(w, c.images, c.rows, c.width)
        self.size = self.planes.size
        self.channel_size = len(self.planes.phases) * self.size
        self.copy = b.private(self.accumulator, c.block_c * self.channel_size)
        self.sums = b.private(self.accumulator, c.block_o * self.size)

    def write(self, number: Value) -> None:
        b, w, c = self.b, self.w, self.config
        blocks, across = -(-w.outputs // c.block_o), -(-w.counts[0] // c.rows)
        each = blocks * w.groups
        tile, inside = divided(number, each), remainder(number, each)
        self.image = times(divided(tile, across), c.images)
        self.row = times(remainder(tile, across), c.rows) if across > 1 else 0
        self.group = divided(inside, blocks) if w.groups > 1 else 0
        self.output = times(remainder(inside, blocks), c.block_o) if blocks > 1 else 0
        if w.channels <= c.block_c:
            self.slab(0, w.channels)
        else:
            with b.for_(0, w.channels, step=c.block_c) as slab:
                self.slab(slab.index, b.min(w.channels - slab.index, c.block_c))
        self.store()

    def slab(self, first: Index, count: Index) -> None:
        """Add the products of some channels."""
        b, w, c = self.b, self.w, self.config
        channel = plus(times(self.group, w.channels), first)
        with b.for_(0, count) as loop:
            for number, phase in enumerate(self.planes.phases):
                copy_planes(
                    self.x, self.copy,
                    plus(times(loop.index, self.channel_size), number * self.size),
                    self.planes.spans(phase), c.images, c.width, first_image=self.image,
                    batch=w.batch, first_row=self.row, channel=plus(channel, loop.index),
                    inside=None,
                )  # fmt: skip
        whole, rest = _blocks(self.planes, c)
        step = c.vectors * c.width
        with b.for_(0, c.block_o, step=c.outputs) as output:
            with b.for_(0, whole * step, step=step) as at:
                self.block(output.index, at.index, c.vectors, first, count)
            if rest:
                self.block(output.index, whole * step, rest, first, count)

    def block(self, output: Value, at: Index, vectors: int, first: Index, count: Index) -> None:
        """Add the products of some channels for some outputs and vectors of positions."""
        b, w, c = self.b, self.w, self.config
        taps, kernel_size = self.planes.taps, prod(w.kernel_size)
        axes = self.weight.map
        group = self.weight.at(axes.batch, self.group)
        # Outputs beyond the last are the last again, and not stored.
        rows = [
            self.weight.join(group, self.weight.at(axes.rows, self.row_of(plus(output, r))))
            for r in range(c.outputs)
        ]
        waiting = [
            plus(times(plus(output, r), self.size), plus(at, v * c.width))
            for r in range(c.outputs)
            for v in range(vectors)
        ]
        zero = b.const(0, vector(self.accumulator, c.width))
        start = [zero] * len(waiting)
        if isinstance(first, Value):
            start = [self.sums.load(to, width=c.width, mask=first > 0) for to in waiting]
        with b.for_(0, count, carried=start) as loop:
            sums = list(loop.carried)
            place = plus(times(loop.index, self.channel_size), at)
            column: Index = times(plus(first, loop.index), kernel_size)
            for number, tap in enumerate(taps):
                near = plus(place, tap.phase * self.size + tap.hop)
                right = [
                    self.copy.load(plus(near, v * c.width), width=c.width) for v in range(vectors)
                ]
                along = self.weight.at(axes.columns, column, further=number, period=kernel_size)
                for r, row in enumerate(rows):
                    value = b.cast(self.weight.load(row, along), self.accumulator)
                    many = b.value(value, sums[0].type) if c.width > 1 else value
                    for v, x in enumerate(right):
                        i = r * vectors + v
                        sums[i] = self.added(many, x, sums[i])
            loop.yield_(*sums)
        for to, total in zip(waiting, loop.results, strict=True):
            self.sums.store(to, total)

    def row_of(self, output: Index) -> Index:
        at = plus(self.output, output)
        if self.w.outputs % self.config.block_o == 0:
            return at
        return self.b.min(self.b.index(at), self.w.outputs - 1)

    def added(self, x: Value, y: Value, sum: Value) -> Value:
        return self.b.fma(x, y, sum) if self.accumulator.is_float else sum + x * y

    def store(self) -> None:
        """Write the sums to their places, without what is between the rows."""
        b, w, c = self.b, self.w, self.config
        spans = self.planes.gradient_spans()
        count = prod(span.extent for span in spans)
        outputs = b.min(w.outputs - b.index(self.output), c.block_o)
        with b.for_(0, outputs) as output, b.for_(0, c.images) as image:
            row = plus(self.image, image.index)
            channel = plus(times(self.group, w.outputs), plus(self.output, output.index))

            def store(piece: Piece) -> None:
                value = b.cast(self.sums.load(piece.start, width=c.width), self.out.layout.dtype)
                store_piece(self.out, (row, channel), piece, value)

            start = plus(times(output.index, self.size), times(image.index, count))
            walk(b, spans, self.row, c.width, start, store, b.index(row) < w.batch)
