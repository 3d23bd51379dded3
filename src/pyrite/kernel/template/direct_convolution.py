"""A convolution on CPUs without a matrix: vectors along the positions, windows read in place.

An invocation copies some rows of some images, as `packed_images` says, and makes ``block_o``
outputs of them.  Its inner loop holds ``outputs`` x ``vectors`` vectors of sums in registers; for
each channel and tap it reads ``vectors`` vectors of the copy, at the tap's distance, and one
element of the weight for each output.  So an image is copied once for all taps, and rows of any
length fill the vectors.  If there are more channels than ``block_c``, the sums wait in private
memory.

What it makes between the rows is never stored.  The same kernel is the gradient of the input: then
it reads g, and the weight by its other side.  With a stride that is several convolutions of one
copy, see `polyphase`, and rows of out are joined from their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import Kernel, vector
from pyrite.kernel.template.direct_config import DirectConfig, blocks, workgroups
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.kernel.template.index import (
    Index,
    both,
    divided,
    iota,
    plus,
    remainder,
    times,
    written,
)
from pyrite.kernel.template.lanes import interleaved
from pyrite.kernel.template.operand import AxisPlace, Operand, OperandMap, accumulator_of
from pyrite.kernel.template.packed_images import (
    PackedImages,
    Piece,
    Volume,
    copy_planes,
    existing,
    repeated,
    walk,
)
from pyrite.kernel.template.polyphase import Part, Polyphase
from pyrite.kernel.template.product import accumulate, group_number
from pyrite.symbol import is_symbol
from pyrite.types import int64

#: What is made of sums for each of the outputs: of a value whose lanes lie along the last axis, the
#: coordinates of the first in out, and which of them exist.
Finish = Callable[[Value, Sequence[Index], Value | None], Sequence[Value]]


def direct_convolution(
    p: Polyphase, x: OperandLayout, weight: OperandMap, out: OperandLayout, config: DirectConfig, *,
    grid: int = 1, epilogue: Callable[[KernelBuilder], Finish] | None = None,
    outputs: Sequence[OperandLayout] = (),
) -> Kernel:  # fmt: skip
    """Return the kernel of a convolution.

    Parameters: the weight, of which (output, (channel, *tap)) are rows and columns and the batch is
    the group; x (N, G C, *S), the epilogue's, and out (N, G O, *S'), or other outputs in its place;
    each followed by its offset if it has one.
    """
    assert config.is_legal(), config
    b = KernelBuilder("direct_convolution", workgroup_size=1, grid=grid, index=int64)
    kernel = _DirectConvolution(b, p, x, weight, outputs or (out,), config, epilogue)
    number = group_number(b)
    with b.if_(number < workgroups(p, config)):
        kernel.write(number)
    return b.build()


class _DirectConvolution:
    def __init__(
        self, b: KernelBuilder, p: Polyphase, x: OperandLayout, weight: OperandMap,
        outs: Sequence[OperandLayout], config: DirectConfig,
        epilogue: Callable[[KernelBuilder], Finish] | None,
    ) -> None:  # fmt: skip
        self.b = b
        self.polyphase = p
        self.w = w = p.windows
        self.config = c = config
        self.accumulator = accumulator_of(x.dtype)
        self.weight = Operand(b, "weight", weight, "read")
        self.x = Volume(b, "x", x, "read")
        self.finish = epilogue(b) if epilogue else None
        names = ["out", *(f"out{n}" for n in range(1, len(outs)))]
        self.outs = [Volume(b, n, of, "write") for n, of in zip(names, outs, strict=True)]
        self.packed = PackedImages(w, c.images, c.rows, c.width)
        self.size, self.taps = c.room, self.packed.taps
        self.steps, self.channel_size = self.packed.steps(b), len(self.packed.phases) * self.size
        self.copy = b.private(self.accumulator, c.block_c * self.channel_size)
        assert is_symbol(self.packed.size) or self.packed.size <= self.size, config
        #: Blocks of whole vectors of positions, and the vectors that are left.
        self.whole, self.left = blocks(self.packed, c)
        #: For each output the parts of a row of out, one after the other.
        self.sums = b.private(self.accumulator, c.block_o * len(p.parts) * self.size)

    def write(self, number: Value) -> None:
        b, w, c = self.b, self.w, self.config
        blocks, across = -(-w.outputs // c.block_o), -(-w.counts[0] // c.rows)
        each = blocks * w.groups
        tile, inside = divided(number, each), remainder(number, each)
        self.image = times(divided(tile, across), c.images)
        self.images = existing(b, self.image, w.batch, c.images)
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
            for number, phase in enumerate(self.packed.phases):
                copy_planes(
                    self.x, self.copy,
                    plus(times(loop.index, self.channel_size), number * self.size),
                    self.packed.spans(phase), self.images, c.width, first_image=self.image,
                    first_row=self.row, channel=plus(channel, loop.index),
                )  # fmt: skip
        step = c.vectors * c.width
        with b.for_(0, c.block_o, step=c.outputs) as output:
            rows = self.filters(output.index)
            stop = written(b, self.whole * step)
            if isinstance(self.images, int):
                with b.for_(0, stop, step=step) as at:
                    self.block(output.index, rows, at.index, c.vectors, first, count)
                self.rest(output.index, rows, first, count)
            else:  # nothing is computed for images that do not exist
                with b.for_(0, b.min(self.length(), stop), step=step) as at:
                    self.block(output.index, rows, at.index, c.vectors, first, count)
                with b.if_(self.length() > stop):
                    self.rest(output.index, rows, first, count)

    def length(self) -> Value:
        """Return the number of positions, up to the last window of the images that exist."""
        of_image = self.packed.image_size
        behind = self.packed.images * of_image - self.packed.length
        length = times(self.images, written(self.b, of_image))
        return self.b.index(plus(length, -behind))

    def rest(self, output: Value, rows: list[AxisPlace], first: Index, count: Index) -> None:
        """Add the products for the vectors of positions that are less than a block.

        If their number is not known they are blocks of 4, 2 and 1, each of which there may be.
        """
        b, c, whole = self.b, self.config, self.whole
        start, left = whole * c.vectors * c.width, self.left
        if not is_symbol(left):
            if left:
                self.block(output, rows, start, left, first, count)
            return
        for vectors in (v for v in (4, 2, 1) if v < c.vectors):
            before = left // (2 * vectors) * (2 * vectors)
            with b.if_(b.index((left - before) // vectors) > 0):
                at = b.index(start + before * c.width)
                self.block(output, rows, at, vectors, first, count)

    def filters(self, output: Value) -> list[AxisPlace]:
        """Return where the weights of some outputs are; beyond the last they are the last again."""
        w, c, weight = self.w, self.config, self.weight
        group = weight.at(weight.map.batch, self.group)
        found = []
        for r in range(c.outputs):
            at = plus(self.output, plus(output, r))
            if w.outputs % c.block_o:
                at = self.b.min(self.b.index(at), w.outputs - 1)
            found.append(weight.join(group, weight.at(weight.map.rows, at)))
        return found

    def block(
        self,
        output: Value,
        rows: list[AxisPlace],
        at: Index,
        vectors: int,
        first: Index,
        count: Index,
    ) -> None:
        """Add the products of some channels for some outputs and vectors of positions."""
        b, c, parts = self.b, self.config, self.polyphase.parts
        zero = b.const(0, vector(self.accumulator, c.width))
        for number, part in enumerate(parts):
            waiting = [
                plus(self.waiting(plus(output, r), number), plus(at, v * c.width))
                for r in range(c.outputs)
                for v in range(vectors)
            ]
            start = [zero] * len(waiting)
            if isinstance(first, Value):
                start = [self.sums.load(to, width=c.width, mask=first > 0) for to in waiting]
            with b.for_(0, count, carried=start) as loop:
                place = plus(times(loop.index, self.channel_size), at)
                channel = plus(first, loop.index)
                loop.yield_(*self.channel(part, rows, place, channel, list(loop.carried)))
            for to, total in zip(waiting, loop.results, strict=True):
                self.sums.store(to, total)

    def channel(
        self, part: Part, rows: list[AxisPlace], place: Index, channel: Index, sums: list[Value]
    ) -> list[Value]:
        """Add the products of a channel of the copy, of which ``place`` is an element."""
        b, width, weight = self.b, self.config.width, self.weight
        vectors = len(sums) // len(rows)
        size = prod(self.polyphase.kernel_size)
        for number, of_weight in part.taps:
            tap = self.taps[number]
            near = tap.place(plus(place, tap.phase * self.size), self.steps)
            right = [self.copy.load(plus(near, v * width), width=width) for v in range(vectors)]
            along = weight.at(
                weight.map.columns, times(channel, size), further=of_weight, period=size
            )
            for r, row in enumerate(rows):
                value = b.cast(weight.load(row, along), self.accumulator)
                many = b.value(value, sums[0].type) if width > 1 else value
                for v, x in enumerate(right):
                    sums[r * vectors + v] = accumulate(many, x, sums[r * vectors + v])
        return sums

    def waiting(self, output: Index, part: int) -> Index:
        """Return the places of the sums of a part of an output."""
        return times(plus(times(output, len(self.polyphase.parts)), part), self.size)

    # ---- results ----

    def store(self) -> None:
        """Write the sums to their places, without what is between the rows."""
        b, w, c = self.b, self.w, self.config
        spans = self.packed.result_spans()
        outputs = b.min(w.outputs - b.index(self.output), c.block_o)
        with b.for_(0, outputs) as output, b.for_(0, self.images) as image:
            row = plus(self.image, image.index)
            channel = plus(times(self.group, w.outputs), plus(self.output, output.index))
            image_size = written(b, self.packed.image_size)
            start = plus(self.waiting(output.index, 0), times(image.index, image_size))
            walk(
                b, spans, self.row, c.width, start,
                lambda piece: self.store_rows((row, channel), piece),
            )  # fmt: skip

    def store_rows(self, before: tuple[Index, Index], piece: Piece) -> None:
        """Write a piece of each row of out that is made of the same windows."""
        p, width = self.polyphase, self.config.width
        across = p.stride[-1]
        for first in range(0, len(p.parts), across):
            sums = [
                self.sums.load(plus(piece.start, (first + i) * self.size), width=width)
                for i in range(across)
            ]
            starts = zip(piece.coordinates, p.stride, p.parts[first].start, strict=True)
            place = [plus(times(at, s), r) for at, s, r in starts]
            places = [out.at([*before, *place]) for out in self.outs]
            exists = both(piece.is_row, self.is_row(p.parts[first].start, place))
            for i, value in enumerate(interleaved(sums)):
                each = plus(place[-1], i * width) + iota(self.b, width)
                # Along a single axis a piece may go on behind the rows of this tile.
                is_within = piece.is_within and across == 1 and len(piece.coordinates) > 1
                mask = None if exists is None else repeated(exists, width)
                if not is_within:
                    mask = both(each < self.end(), mask)
                along = i * width
                values: Sequence[Value] = [value]
                if self.finish is not None:
                    first_lane = [*before, *place[:-1], plus(place[-1], along)]
                    values = self.finish(value, first_lane, mask)
                for out, at, x in zip(self.outs, places, values, strict=True):
                    to = out.lanes(plus(at, along * out.layout.strides[-1]), 1, width)
                    out.memory.store(to, self.b.cast(x, out.layout.dtype), mask=mask)

    def is_row(self, start: tuple[int, ...], place: list[Index]) -> Value | None:
        """Whether out reaches to a row; None if it does wherever there is a window."""
        p, found = self.polyphase, None
        for axis, (size, s) in enumerate(zip(p.sizes[:-1], p.stride[:-1], strict=True)):
            if (self.w.counts[axis] - 1) * s + start[axis] >= size:
                found = both(found, self.b.index(place[axis]) < size)
        return found

    def end(self) -> Index:
        """Return where the rows of out end, or of a single axis what the windows make."""
        p, c = self.polyphase, self.config
        if len(p.sizes) > 1 or c.rows == self.w.counts[0]:
            return p.sizes[-1]
        return self.b.min(times(plus(self.row, c.rows), p.stride[0]), p.sizes[0])
