"""The gradient of a convolution's weight on CPUs: vectors along the positions that are summed up.

Each element of the gradient is the sum, over all windows of all images, of an element of g and the
element of x that a tap meets there.  An invocation copies some rows of some images, as
`packed_images` says, for ``block_o`` outputs and ``block_c`` channels, and goes along them by
vectors: at each step it reads a vector of ``outputs`` of g and one of x for each of ``taps`` taps
of ``channels``, and adds all their products to as many vectors of sums in registers.  These wait in
private memory for the next rows; their lanes are added up at the very end.  So nothing is turned,
and no window built.
It is for few outputs, as of depthwise convolutions: of many, `outer_products` computes nothing in
vain.

With ``parts`` > 1 the batch is cut, each part writes partial sums, and the kernel of `split_k` adds
them in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import prod
from typing import Final

from pyrite.cached import cached
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.extent import EXTENT
from pyrite.kernel.ir import Kernel, vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.gradient_blocks import (
    block_of,
    blocks,
    declare,
    each_tile,
    tiles,
    workgroups,
)
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.index import Index, plus, rounded_up, times, written
from pyrite.kernel.template.lanes import sum_of_lanes
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.packed_images import (
    PackedImages,
    Piece,
    ample_room,
    copy_planes,
    divides,
    existing,
    walk,
    within,
)
from pyrite.kernel.template.product import accumulate, group_number
from pyrite.kernel.template.size_class import class_of, most_images
from pyrite.symbol import is_symbol, require_known
from pyrite.types import DType, int32, int64


@dataclass(frozen=True, slots=True)
class WeightGradientConfig:
    """How the work is cut up; see the head of this file.  ``width`` is the lanes of a vector.

    A phase of one channel of the copies has ``room`` elements of memory.
    """

    outputs: int
    channels: int
    taps: int
    width: int
    block_o: int
    block_c: int
    room: int
    images: int = field(metadata=EXTENT)
    rows: int = field(metadata=EXTENT)
    parts: int = field(metadata=EXTENT)

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_o % self.outputs == 0 and self.block_c % self.channels == 0


def candidates(w: Windows, dtype: DType, machine: Machine) -> list[WeightGradientConfig]:
    """Return the configs that are right for a convolution on a CPU."""
    return [config for config, _ in _candidates(w, dtype, machine)]


def _candidates(
    w: Windows, dtype: DType, machine: Machine
) -> list[tuple[WeightGradientConfig, int]]:
    """Return the configs, each with how long its tiles are to be."""
    cuts = combinations(_shapes(w, machine), _LENGTHS, _ROOMS)
    found = [(_config(w, dtype, machine, *cut), cut[1]) for cut in cuts]
    return [(replace(c, parts=n), length) for c, length in found for n in sorted({1, c.parts})]


def select(w: Windows, dtype: DType, machine: Machine) -> WeightGradientConfig:
    """Return the candidate with the least estimated time for the class of sizes; see `cost`."""
    return fitted(*select_for_class(class_of(w), dtype, machine), w)


@cached(4096)
def select_for_class(
    w: Windows, dtype: DType, machine: Machine
) -> tuple[WeightGradientConfig, int]:
    """Return the candidate with the least estimated time, and the length of its tiles."""
    found = _candidates(w, dtype, machine)
    return min(found, key=lambda pair: cost(w, dtype, pair[0], machine))


def fitted(config: WeightGradientConfig, length: int, w: Windows) -> WeightGradientConfig:
    """Return a config that was chosen for a class of sizes, for some of them."""
    # As many images as the greatest batch of the class has: fewer take no more time.
    packed = PackedImages.near(replace(w, batch=most_images(w.batch)), length, config.width)
    return with_room(replace(config, images=packed.images, rows=packed.rows), w)


def shared(config: WeightGradientConfig, length: int, w: Windows) -> WeightGradientConfig:
    """Return `fitted`, with memory for the tiles of most sizes: they share a kernel."""
    found = fitted(config, length, w)
    room = require_known(max(found.room, ample_room(length, found.width)))
    most = _ROOMS[-1] // room
    phases = len(PackedImages(w, 1, 1, found.width).phases)
    return replace(
        found, room=room,
        block_c=within(w.channels, found.block_c, most // phases, found.channels),
        block_o=within(w.outputs, found.block_o, most, found.outputs),
    )  # fmt: skip


def with_room(config: WeightGradientConfig, w: Windows) -> WeightGradientConfig:
    """Return a config with the memory that its tiles take."""
    return replace(config, room=PackedImages(w, config.images, config.rows, config.width).room)


#: Positions of a tile, roughly, where there are as many.
_LENGTHS: Final = (512, 1024, 2048)
#: Elements of the copies of x, of g, and of the sums, each at most: they stay in the second cache.
_ROOMS: Final = (12 << 10, 32 << 10)
#: The most outputs that share a copy of x.
_OUTPUTS: Final = 64
#: Elements of 4 bytes that stay in the first cache.
_NEAR: Final = 8 << 10


def _shapes(w: Windows, machine: Machine) -> list[tuple[int, int, int]]:
    """(outputs, channels, taps) whose sums fit in registers beside a vector of each g and one of x.

    >>> w = Windows(8, 1, 64, 64, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    >>> _shapes(w, Machine.cpu(32, 16))
    [(1, 1, 9), (1, 4, 3), (1, 12, 1), (2, 5, 1), (3, 1, 3), (3, 3, 1), (4, 2, 1), (6, 1, 1)]
    """
    taps = prod(w.kernel_size)
    found = set()
    for some in {t for t in range(1, taps + 1) if taps % t == 0 and t <= machine.registers - 4}:
        for outputs in range(1, min(w.outputs, 8) + 1):
            most = (machine.registers - 3 - outputs) // (outputs * some)
            if channels := min(most, w.channels):
                found.add((outputs, channels, some))
    return sorted(
        shape for shape in found
        if not any(_is_within(shape, other) for other in found if other != shape)
    )  # fmt: skip


def _is_within(shape: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return all(x <= y for x, y in zip(shape, other, strict=True))


def _config(
    w: Windows, dtype: DType, machine: Machine, shape: tuple[int, int, int], length: int, room: int
) -> WeightGradientConfig:
    """Return a config with as many positions as wanted, then outputs and channels as find room."""
    outputs, channels, taps = shape
    width = machine.vector_bytes // accumulator_of(dtype).itemsize
    packed = PackedImages.near(w, length, width)
    block_o = min(w.outputs, _OUTPUTS, max(room // packed.size, 1))
    block_o = _equal(w.outputs, block_o, outputs)
    most = room // max(packed.size * len(packed.phases), block_o * prod(w.kernel_size) * width)
    block_c = _equal(w.channels, max(most, 1), channels)
    config = WeightGradientConfig(
        outputs, channels, taps, width, block_o, block_c, packed.room, packed.images,
        packed.rows, 1,
    )  # fmt: skip
    return replace(config, parts=_parts(w, config, machine))


def _equal(size: int, most: int, unit: int) -> int:
    """Return about equal parts of a size, whole units and at most ``most`` of elements."""
    return rounded_up(-(-size // -(-size // min(size, most))), unit)


def _parts(w: Windows, config: WeightGradientConfig, machine: Machine) -> int:
    """Return so many parts that each core gets a few workgroups."""
    wanted = -(-4 * machine.threads // blocks(w, config))
    return max(1, min(wanted, tiles(w, config)))


def cost(w: Windows, dtype: DType, config: WeightGradientConfig, machine: Machine) -> float:
    """Return the estimated cycles: of products or reads at each step, and what comes from afar.

    An unaligned vector of x is read from two lines of the first cache, mostly; what does not stay
    there beside what is copied and where windows stand, and the copies, take some cycles a vector.
    """
    c = config
    places = c.channels * c.taps
    packed = PackedImages(w, c.images, c.rows, c.width)
    chunks = prod(w.kernel_size) // c.taps
    is_near = (2 * (c.outputs + c.channels) + 1) * packed.size < _NEAR
    far = c.channels / chunks if is_near else c.outputs + c.channels
    reads = (c.outputs + 1.8 * places) / machine.products
    step = max(c.outputs * places / machine.products, reads, 4) + 0.8 * far
    vectors = -(-packed.length // c.width)
    block = 1.05 * step * vectors + 4 * c.outputs * places
    count = (c.block_o // c.outputs) * (c.block_c // c.channels) * chunks
    copied = (c.block_o + c.block_c * len(packed.phases)) * vectors
    each = count * block + 6 * copied
    sums = c.block_o * c.block_c * prod(w.kernel_size)
    rounds = -(-workgroups(w, c) // machine.threads)
    return rounds * (-(-tiles(w, c) // c.parts) * each + 16 * sums)


def weight_gradient(
    w: Windows,
    x: OperandLayout,
    g: OperandLayout,
    out: DType,
    config: WeightGradientConfig,
    *,
    grid: int = 1,
) -> Kernel:
    """Return the kernel of the gradient of the weight.

    Parameters: x (N, G C, *S), g (N, G O, *S'), each followed by its offset if it has one, and the
    dense result (G O, C, *K); or, of the accumulator's dtype, ``parts`` of them.
    """
    assert config.is_legal(), config
    b = KernelBuilder("weight_gradient", workgroup_size=1, grid=grid, index=int64)
    kernel = _WeightGradient(b, w, x, g, out, config)
    number = group_number(b)
    with b.if_(number < workgroups(w, config)):
        kernel.write(number)
    return b.build()


class _WeightGradient:
    def __init__(
        self, b: KernelBuilder, w: Windows, x: OperandLayout, g: OperandLayout, out: DType,
        config: WeightGradientConfig,
    ) -> None:  # fmt: skip
        self.b = b
        self.w = w
        self.config = config
        self.accumulator = accumulator_of(x.dtype)
        self.packed = PackedImages(w, config.images, config.rows, config.width)
        self.x, self.g, self.out = declare(b, x, g, out, config)
        self.kernel_size = prod(w.kernel_size)
        self.steps = self.packed.steps(b)
        #: Positions of a tile, and of them those of images that exist.
        self.length = self.stop = written(b, self.packed.length)
        phases, size = len(self.packed.phases), config.room
        assert is_symbol(self.packed.size) or self.packed.size <= size, config
        self.channel_size = phases * size
        self.copy_x = b.private(self.accumulator, config.block_c * self.channel_size)
        self.copy_g = b.private(self.accumulator, config.block_o * size)
        #: 1 where a window stands, 0 between rows and beyond the last.
        self.is_window = b.private(int32, size)
        #: Elements of the sums of one output: a vector for each tap of each channel.
        self.columns = config.block_c * self.kernel_size * config.width
        self.sums = b.private(self.accumulator, config.block_o * self.columns)

    def write(self, number: Value) -> None:
        self.at = block_of(number, self.w, self.config)
        self.clear()
        each_tile(self.b, self.w, self.config, self.at.part, self.tile)
        self.store()

    def clear(self) -> None:
        """Set all sums to 0, and note where windows stand."""
        b, width = self.b, self.config.width
        zero = b.const(0, vector(self.accumulator, width))
        with b.for_(0, self.config.block_o * self.columns, step=width) as loop:
            self.sums.store(loop.index, zero)
        nowhere = b.const(0, vector(int32, width))
        with b.for_(0, self.config.room, step=width) as loop:
            self.is_window.store(loop.index, nowhere)
        spans = self.packed.limit_spans()
        count = prod(span.extent for span in spans)

        def note(piece: Piece) -> None:
            one = b.const(1, vector(int32, width))
            self.is_window.store(piece.start, b.select(piece.mask, one, nowhere))

        with b.for_(0, self.config.images) as image:
            walk(b, spans, 0, width, times(image.index, written(b, count)), note)

    def tile(self, image: Index, row: Index) -> None:
        """Add the products of some rows of some images."""
        b, w, c = self.b, self.w, self.config
        size = c.room
        batch = None if divides(c.images, w.batch) else w.batch
        images = existing(b, image, w.batch, c.images)
        self.stop = self.length
        if isinstance(images, Value):
            self.stop = b.min(times(images, written(b, self.packed.image_size)), self.length)
        with b.for_(0, existing(b, self.at.channel, w.channels, c.block_c)) as loop:
            for number, phase in enumerate(self.packed.phases):
                copy_planes(
                    self.x, self.copy_x,
                    plus(times(loop.index, self.channel_size), number * size),
                    self.packed.spans(phase), c.images, c.width, first_image=image, batch=batch,
                    first_row=row, channel=plus(self.at.first_channel, loop.index),
                )  # fmt: skip
        with b.for_(0, existing(b, self.at.output, w.outputs, c.block_o)) as loop:
            copy_planes(
                self.g, self.copy_g, times(loop.index, size), self.packed.gradient_spans(),
                c.images, c.width, first_image=image, batch=batch, first_row=row,
                channel=plus(self.at.first_output, loop.index),
            )  # fmt: skip
        blocks_c = c.block_c // c.channels
        with b.for_(0, c.block_o // c.outputs) as across_o, b.for_(0, blocks_c) as across_c:
            for first in range(0, self.kernel_size, c.taps):
                self.block(across_o.index * c.outputs, across_c.index * c.channels, first)

    def block(self, output: Value, channel: Value, first_tap: int) -> None:
        """Add the products of some outputs with some taps of some channels."""
        b, c, width = self.b, self.config, self.config.width
        size = c.room
        taps = self.packed.taps[first_tap : first_tap + c.taps]
        places = [
            tap.place(
                plus(times(plus(channel, i), self.channel_size), tap.phase * size), self.steps
            )
            for i in range(c.channels)
            for tap in taps
        ]
        rows = [times(plus(output, i), size) for i in range(c.outputs)]
        waiting = [
            plus(
                times(plus(output, r), self.columns),
                times(plus(times(plus(channel, i), self.kernel_size), first_tap + t), width),
            )
            for i in range(c.channels)
            for t in range(c.taps)
            for r in range(c.outputs)
        ]
        start = [self.sums.load(at, width=width, is_aligned=True) for at in waiting]
        with b.for_(0, self.stop, step=width, carried=start) as loop:
            mask = self.is_window.load(loop.index, width=width, is_aligned=True) != 0
            left = [
                self.copy_g.load(plus(row, loop.index), width=width, mask=mask, is_aligned=True)
                for row in rows
            ]
            sums: list[Value] = []
            for place in places:
                right = self.copy_x.load(plus(place, loop.index), width=width, mask=mask)
                sums += [accumulate(x, right, loop.carried[len(sums) + r])
                         for r, x in enumerate(left)]  # fmt: skip
            loop.yield_(*sums)
        for at, total in zip(waiting, loop.results, strict=True):
            self.sums.store(at, total, is_aligned=True)

    def store(self) -> None:
        """Write the sums of the outputs and channels that exist."""
        b, w, c, width = self.b, self.w, self.config, self.config.width
        row = w.channels * self.kernel_size
        most = c.block_c * self.kernel_size
        count = b.min((w.channels - b.index(self.at.channel)) * self.kernel_size, most)
        outputs = b.min(w.outputs - b.index(self.at.output), c.block_o)
        begin = plus(
            times(self.at.part, w.groups * w.outputs * row),
            times(self.at.channel, self.kernel_size),
        )
        with b.for_(0, outputs) as output, b.for_(0, count) as column:
            at = output.index * self.columns + column.index * width
            total = sum_of_lanes(self.sums.load(at, width=width, is_aligned=True))
            to = plus(times(plus(self.at.first_output, output.index), row), begin)
            self.out.store(plus(to, column.index), b.cast(total, self.out.dtype))
