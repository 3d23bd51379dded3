"""The gradient of a convolution's weight on CPUs: vectors along the outputs, a position at a time.

Each position of each image adds an outer product to the gradient: the elements of g there, one for
each output, by the elements of x that the taps meet.  An invocation copies some rows of some images
of ``block_c`` channels with zeros around them, and turns ``block_o`` outputs of g so that those of
a position are neighbours.  At each position it reads ``vectors`` vectors of g and one element of x
for each of ``taps`` taps of ``channels``, and adds all their products to as many vectors of sums in
registers.  These wait in private memory for the next rows.

Nothing between the rows is computed, whatever the size of images, the window and the stride; but a
group needs outputs enough to fill the vectors: `weight_gradient` is for those with few.

With ``parts`` > 1 the batch is cut, each part writes partial sums, and the kernel of `split_k` adds
them in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product as combinations
from math import prod
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import Kernel, vector
from pyrite.kernel.template.gradient_blocks import block_of, declare, each_tile, workgroups
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.index import Index, iota, plus, times, total, written
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.outer_config import SQUARE as _SQUARE
from pyrite.kernel.template.outer_config import OuterConfig, extents_of
from pyrite.kernel.template.packed_images import Span, copy_planes, existing, steps_of
from pyrite.kernel.template.product import accumulate, group_number
from pyrite.symbol import is_symbol
from pyrite.types import DType, int64

#: Products that are written out, so that the loop costs nothing beside them.  With more, elements
#: that neighbouring positions share are kept in registers, for which there is no room.
_UNROLLED: Final = 24


def outer_products(
    w: Windows,
    x: OperandLayout,
    g: OperandLayout,
    out: DType,
    config: OuterConfig,
    *,
    grid: int = 1,
) -> Kernel:
    """Return the kernel of the gradient of the weight.

    Parameters: x (N, G C, *S), g (N, G O, *S'), each followed by its offset if it has one, and the
    dense result (G O, C, *K); or, of the accumulator's dtype, ``parts`` of them.
    """
    assert config.is_legal(), config
    b = KernelBuilder("outer_products", workgroup_size=1, grid=grid, index=int64)
    kernel = _OuterProducts(b, w, x, g, out, config)
    number = group_number(b)
    with b.if_(number < workgroups(w, config)):
        kernel.write(number)
    return b.build()


class _OuterProducts:
    def __init__(
        self, b: KernelBuilder, w: Windows, x: OperandLayout, g: OperandLayout, out: DType,
        config: OuterConfig,
    ) -> None:  # fmt: skip
        self.b = b
        self.w = w
        self.config = c = config
        self.accumulator = accumulator_of(x.dtype)
        self.x, self.g, self.out = declare(b, x, g, out, c)
        self.kernel_size = prod(w.kernel_size)
        self.extents = extents_of(w, c.rows)
        self.steps = _written_steps(b, self.extents)
        self.channel_size, self.panel_size = c.room, c.turned * c.panel
        self.copy_x = b.private(self.accumulator, c.block_c * self.channel_size)
        self.turned_g = b.private(self.accumulator, c.block_o // c.panel * self.panel_size)
        #: A row of sums, of all outputs, for each tap of each channel.
        self.places = c.block_c * self.kernel_size
        #: Rows are read by whole vectors: the last is as long.
        behind = c.width if c.has_half else 0
        self.sums = b.private(self.accumulator, self.places * c.block_o + behind)
        #: Whether all vectors of rows and panels begin at a multiple of their lanes.
        self.is_aligned = not c.has_half

    def write(self, number: Value) -> None:
        b, w, c = self.b, self.w, self.config
        self.at = block_of(number, w, c)
        zero = b.const(0, vector(self.accumulator, c.lanes[-1]))
        with b.for_(0, self.places * c.block_o, step=c.lanes[-1]) as loop:
            self.sums.store(loop.index, zero, is_aligned=True)
        each_tile(b, w, c, self.at.part, self.tile)
        self.store()

    def tile(self, image: Index, row: Index) -> None:
        """Add the products of some rows of some images."""
        b, w, c = self.b, self.w, self.config
        self.images = existing(b, image, w.batch, c.images)
        self.rows = b.min(w.counts[0] - b.index(row), c.rows)
        self.copy(image, row)
        self.turn(image, row)
        with (
            b.for_(0, c.block_o // c.panel) as panel,
            b.for_(0, c.block_c, step=c.channels) as channel,
        ):
            for first in range(0, self.kernel_size, c.taps):
                self.block(panel.index, channel.index, first)

    def copy(self, image: Index, row: Index) -> None:
        """Copy the channels of x, with zeros where windows stand out of the images."""
        b, w, c = self.b, self.w, self.config
        spans = [
            Span(extent, extent, 1, min(0, (k - 1) * d) - p, size, extent)
            for extent, k, d, p, size in zip(
                self.extents, w.kernel_size, w.dilation, w.padding, w.sizes, strict=True
            )
        ]
        with b.for_(0, existing(b, self.at.channel, w.channels, c.block_c)) as loop:
            copy_planes(
                self.x, self.copy_x, times(loop.index, self.channel_size), spans, self.images,
                c.width, first_image=image, first_row=times(row, w.stride[0]),
                channel=plus(self.at.first_channel, loop.index),
            )  # fmt: skip

    def turn(self, image: Index, row: Index) -> None:
        """Turn g by small squares: (outputs, positions) becomes (panels, positions, panel)."""
        b, w, c = self.b, self.w, self.config
        merged = _is_dense(self.g.layout.strides[2:], w.counts)
        # Lines of positions that lie at one step: all of an image, or those of its last axis.
        others: list[Index] = [] if merged else [self.rows, *w.counts[1:-1]]
        row_size = written(b, prod(w.counts[1:]))
        length = b.index(times(self.rows, row_size) if merged else w.counts[-1])
        per_image = times(row_size, c.rows)
        with b.for_(0, self.images) as loop:
            start = times(loop.index, per_image)
            self.turn_lines(others, [plus(image, loop.index)], row, start, length)

    def turn_lines(
        self, others: list[Index], at: list[Index], row: Index, start: Index, length: Value
    ) -> None:
        """Turn the lines of an image; ``at`` is where, as far as is known, and ``start`` where to.

        The sizes of the axes before the line that are yet to be walked are ``others``.
        """
        if others:
            inner = written(self.b, prod(self.w.counts[len(at) :]))
            with self.b.for_(0, others[0]) as loop:
                here = [*at, plus(loop.index, row) if len(at) == 1 else loop.index]
                self.turn_lines(
                    others[1:], here, row, plus(start, times(loop.index, inner)), length
                )
            return
        at = at if len(at) > 1 else [*at, row]
        # An image and a place on each axis: the line begins at the beginning of those not walked.
        at = [*at, *[0] * (1 + len(self.w.counts) - len(at))]
        with self.b.for_(0, self.config.block_o, step=_SQUARE) as output:
            self.turn_line(at, output.index, start, length)

    def turn_line(self, at: list[Index], output: Value, start: Index, length: Value) -> None:
        """Turn some outputs of a line; ``at`` is an image and a place."""
        b, w, c = self.b, self.w, self.config
        image, *place = at
        # Outputs beyond the last are the last again, and not stored.
        last = w.outputs - 1 - b.index(self.at.output)
        rows = [
            self.g.at([image, plus(self.at.first_output, b.min(output + i, last)), *place])
            for i in range(_SQUARE)
        ]
        panel = plus(times(output // c.panel, self.panel_size), output % c.panel)
        with b.for_(0, length, step=_SQUARE) as loop:
            mask = iota(b, _SQUARE) + loop.index < b.splat(length, _SQUARE)
            far = loop.index * self.g.layout.strides[-1]
            loaded = [
                b.cast(
                    self.g.memory.load(
                        self.g.lanes(plus(r, far), 1, _SQUARE), width=_SQUARE, mask=mask
                    ),
                    self.accumulator,
                )
                for r in rows
            ]
            for i in range(_SQUARE):
                turned = b.make([value[i] for value in loaded])
                to = plus(panel, times(plus(plus(start, loop.index), i), c.panel))
                self.turned_g.store(to, turned, is_aligned=True)

    def block(self, panel: Value, channel: Value, first_tap: int) -> None:
        """Add the products of a panel of outputs with some taps of some channels."""
        c = self.config
        taps = self.taps()[first_tap : first_tap + c.taps]
        hops = [plus(tap, i * self.channel_size) for i in range(c.channels) for tap in taps]
        first_row = plus(times(channel, self.kernel_size), first_tap)
        waiting = [
            plus(
                times(plus(first_row, i * self.kernel_size + t), c.block_o),
                plus(times(panel, c.panel), v * c.width),
            )
            for i in range(c.channels)
            for t in range(c.taps)
            for v in range(len(c.lanes))
        ]
        aligned, widths = self.is_aligned, c.lanes * (c.channels * c.taps)
        start = [
            self.sums.load(at, width=width, is_aligned=aligned)
            for at, width in zip(waiting, widths, strict=True)
        ]
        x = times(channel, self.channel_size)
        g = times(panel, self.panel_size)
        for at, found in zip(waiting, self.along_images(x, g, hops, start), strict=True):
            self.sums.store(at, found, is_aligned=aligned)

    def taps(self) -> list[Index]:
        """Return how far each element of the window is from its first position in the copy."""
        axes = zip(self.w.kernel_size, self.w.dilation, strict=True)
        moves = [[t * d - min(0, (k - 1) * d) for t in range(k)] for k, d in axes]
        return [
            total(times(s, m) for m, s in zip(place, self.steps, strict=True))
            for place in combinations(*moves)
        ]

    def along_images(
        self, x: Index, g: Index, hops: list[Index], sums: list[Value]
    ) -> Iterable[Value]:
        """Go along the images of a tile; x and g are where they begin in the copies."""
        c = self.config
        b = self.b
        of_g = written(b, c.rows * prod(self.w.counts[1:]) * c.panel)
        of_x = written(b, prod(self.extents))
        with b.for_(0, self.images, carried=sums) as loop:
            here = plus(x, times(loop.index, of_x))
            there = plus(g, times(loop.index, of_g))
            loop.yield_(*self.along(0, here, there, hops, list(loop.carried)))
        return loop.results

    def along(
        self, axis: int, x: Index, g: Index, hops: list[Index], sums: list[Value]
    ) -> list[Value]:
        """Go along an axis of the positions, and the axes inside of it."""
        w, c = self.w, self.config
        count: Index = self.rows if axis == 0 else w.counts[axis]
        is_last = axis == len(w.counts) - 1
        of_x = times(self.steps[axis], w.stride[axis])
        of_g = written(self.b, prod(w.counts[axis + 1 :]) * c.panel)

        def go(start: Index, stop: Index, step: int, sums: list[Value]) -> list[Value]:
            with self.b.for_(start, stop, step=step, carried=sums) as loop:
                found = list(loop.carried)
                for i in range(step):
                    here = plus(plus(x, times(loop.index, of_x)), times(of_x, i))
                    there = plus(plus(g, times(loop.index, of_g)), times(of_g, i))
                    if is_last:
                        found = self.position(here, there, hops, found)
                    else:
                        found = self.along(axis + 1, here, there, hops, found)
                loop.yield_(*found)
            return list(loop.results)

        most = max(_UNROLLED // len(sums), 1) if is_last and axis else 1
        if not is_symbol(count):
            known = count if isinstance(count, int) else 1
            return go(0, count, next(u for u in range(most, 0, -1) if known % u == 0), sums)
        whole = w.counts[axis] // most * most
        sums = go(0, whole, most, sums)
        return sums if most == 1 else go(whole, count, 1, sums)

    def position(self, x: Index, g: Index, hops: list[Index], sums: list[Value]) -> list[Value]:
        """Add the outer product of a position."""
        b, c = self.b, self.config
        left = [
            self.turned_g.load(plus(g, v * c.width), width=width, is_aligned=self.is_aligned)
            for v, width in enumerate(c.lanes)
        ]
        added: list[Value] = []
        for hop in hops:
            element = self.copy_x.load(plus(x, hop))
            added += [
                accumulate(b.value(element, y.type), y, sums[len(added) + v])
                for v, y in enumerate(left)
            ]
        return added

    def store(self) -> None:
        """Write the sums of the outputs and channels that exist."""
        b, w, c = self.b, self.w, self.config
        row = w.channels * self.kernel_size
        count = b.min((w.channels - b.index(self.at.channel)) * self.kernel_size, self.places)
        begin = plus(
            times(self.at.part, w.groups * w.outputs * row),
            times(self.at.channel, self.kernel_size),
        )
        lanes = iota(b, c.width) if c.width > 1 else 0
        end = w.outputs - b.index(self.at.output)
        with b.for_(0, c.block_o, step=c.width) as output, b.for_(0, count) as place:
            value = self.sums.load(
                place.index * c.block_o + output.index, width=c.width, is_aligned=self.is_aligned
            )
            first = plus(times(plus(self.at.first_output, output.index), row), begin)
            to = b.index(plus(first, place.index)) + times(lanes, row)
            exists = plus(lanes, output.index) < end
            self.out.store(to, b.cast(value, self.out.dtype), mask=exists)


def _written_steps(b: KernelBuilder, extents: tuple[int, ...]) -> list[Index]:
    """Return how far neighbours on each axis of a copy are from each other, inside a kernel."""
    return [
        1 if n == len(extents) - 1 else written(b, prod(extents[n + 1 :]))
        for n in range(len(extents))
    ]


def _is_dense(strides: tuple[int, ...], counts: tuple[int, ...]) -> bool:
    """Whether all positions lie at one step from each other."""
    return all(
        stride == strides[-1] * step for stride, step in zip(strides, steps_of(counts), strict=True)
    )
