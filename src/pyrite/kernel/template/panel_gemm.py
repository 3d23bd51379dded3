"""A matrix product by single invocations with wide vectors: the schedule for CPUs.

A workgroup is one invocation, which makes ``block_m`` x ``block_n`` sums.  Its inner loop holds
``rows`` x ``vectors`` vectors of sums in registers: each step along K reads ``vectors`` vectors of
a row of y and, for each row, one element of x, which the processor repeats in all lanes while it
multiplies.  Around it, from the inside:

    rows of the block, ``rows`` at a time       a panel of y stays in the first or second cache
    columns of the block, a panel at a time     the slab of x stays in the second cache
    K, ``block_k`` at a time                    both slabs fit; the sums wait in private memory

``packs_y`` copies a panel of y to private memory before it is used block_m / rows times, where its
lanes are then neighbours and its rows too; ``packs_x`` does it with the slab of x, whose rows then
do not meet in the same sets of the cache.  Edges are panels and row blocks of their own, of the
exact size, so nothing is computed in vain but lanes.

The same loops without copies, one panel for each of many ``invocations`` of a workgroup, are the
direct schedule of GPUs, for products with too few rows to share anything: depthwise convolutions.

Source: Goto & van de Geijn 2008, doi:10.1145/1356052.1356053; here x is only copied, not shuffled,
since processors repeat a scalar from memory for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lcm
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Kernel
from pyrite.kernel.symbol import require_known
from pyrite.kernel.template.index import Index, divided, plus, remainder, rounded_up, times
from pyrite.kernel.template.lanes import part_of
from pyrite.kernel.template.operand import Axis
from pyrite.kernel.template.panel_config import PanelConfig, tile_count
from pyrite.kernel.template.panel_packing import (
    SQUARE,
    PackedPanel,
    PackedRows,
    Read,
    panel_lanes,
    panel_pieces,
)
from pyrite.kernel.template.product import (
    Fuse,
    Parts,
    Product,
    accumulate,
    group_number,
    known,
    tile_of,
)
from pyrite.types import int32, int64


def panel_gemm(
    product: Product,
    config: PanelConfig,
    *,
    name: str = "panel_gemm",
    grid: int = 1,
    epilogue: Fuse | None = None,
) -> Kernel:
    """Return the kernel of a product, for at least `workgroups` workgroups on ``grid`` axes.

    Parameters: x, y, the epilogue's, out; each operand's offset follows it if it has one.
    """
    assert config.is_legal(), config
    # Processors add 64-bit indices for nothing, in the address itself; GPUs lack them.
    index = int64 if config.invocations == 1 else int32
    b = KernelBuilder(name, workgroup_size=config.invocations, grid=grid, index=index)
    kernel = _PanelGemm(Parts(b, product, epilogue=epilogue), config)
    number, count = group_number(b), tile_count(product, config)
    if config.invocations > 1:
        number = number * config.invocations + b.local_index()
    elif grid == 1:
        kernel.write(known(b, number, count))
        return b.build()
    with b.if_(number < count):
        kernel.write(known(b, number, count))
    return b.build()


@dataclass(frozen=True, slots=True)
class _Pieces:
    """An axis of a tile cut into pieces: ``whole`` ones, then one of ``rest`` elements in some.

    The rest begins at ``rest_start`` and is there if ``has_rest``; None says always.
    """

    size: int
    whole: Index
    rest: int
    rest_start: int
    has_rest: Value | None


class _PanelGemm:
    def __init__(self, parts: Parts, config: PanelConfig) -> None:
        b, product = parts.builder, parts.product
        self.b = b
        self.parts = parts
        self.config = config
        self.product = product
        self.period = known_period(product)
        self.unroll = self.period if self.period > 1 else config.unroll
        # A slab begins at a multiple of what is unrolled and of the vectors that are copied.
        unit = lcm(self.unroll, config.width if config.packs_x else 1, SQUARE)
        self.depth = min(rounded_up(config.block_k, unit), rounded_up(product.k, unit))
        self.slabs = -(-product.k // self.depth)
        self.height = min(config.block_m, rounded_up(product.m, config.rows))
        self.packed_x = (
            PackedRows(parts, self.height, self.depth, config.width, self.period)
            if config.packs_x
            else None
        )
        self.packed_y = (
            PackedPanel(parts, config, self.depth, self.unroll, self.period)
            if config.packs_y
            else None
        )
        self.sums: Memory | None = None
        if self.slabs > 1:
            self.sums = b.private(parts.accumulator, self.height * config.block_n)

    # ---- around the inner loop ----

    def write(self, number: Index) -> None:
        config, product = self.config, self.product
        rows, columns = -(-product.m // config.block_m), -(-product.n // config.block_n)
        tiles = rows * columns
        self.batch = divided(number, tiles) if product.batch > 1 else 0
        tile: Index = 0
        if tiles > 1:
            tile = remainder(number, tiles) if product.batch > 1 else number
        row, column = tile_of(tile, rows, columns, rows)
        self.first_row = times(row, config.block_m)
        self.first_column = times(column, config.block_n)
        self.rows = self.pieces(row, rows, product.m, config.block_m, config.rows)
        self.panels = self.pieces(column, columns, product.n, config.block_n, config.panel)
        x, y, out = self.parts.x, self.parts.y, self.parts.out
        self.x_batch = x.at(x.map.batch, self.batch)
        self.y_batch = y.at(y.map.batch, self.batch)
        self.out_batch = out.at(out.map.batch, self.batch)
        if self.slabs == 1:
            self.slab(0)
        else:
            with self.b.for_(0, self.slabs) as loop:
                self.slab(loop.index)
            self.each(self.panels, self.finish_panel)

    def pieces(self, tile: Index, tiles: int, size: int, block: int, piece: int) -> _Pieces:
        last = size - (tiles - 1) * block
        rest = last % piece
        if isinstance(tile, int):
            return _Pieces(piece, last // piece, rest, last - rest, None)
        is_last = tile == tiles - 1
        whole: Index = block // piece
        if last // piece != whole:
            whole = self.b.select(is_last, self.b.index(last // piece), self.b.index(whole))
        return _Pieces(piece, whole, rest, last - rest, is_last)

    def each(self, pieces: _Pieces, body: Callable[[Index, int], None]) -> None:
        """Run the body on the start and the size of each piece."""
        if not isinstance(pieces.whole, int) or pieces.whole > 1:
            with self.b.for_(0, pieces.whole) as loop:
                body(times(loop.index, pieces.size), pieces.size)
        elif pieces.whole == 1:
            body(0, pieces.size)
        if pieces.rest and pieces.has_rest is None:
            body(pieces.rest_start, pieces.rest)
        elif pieces.rest:
            assert pieces.has_rest is not None
            with self.b.if_(pieces.has_rest):
                body(pieces.rest_start, pieces.rest)

    def slab(self, slab: Index) -> None:
        k, depth = self.product.k, self.depth
        self.is_further = None if isinstance(slab, int) else slab > 0
        self.first_k = times(slab, depth)
        self.count: Index = min(k, depth)
        if k % depth and isinstance(slab, Value):
            self.count = self.b.min(self.b.index(k) - self.first_k, depth)
        if self.packed_x is not None:
            extent = plus(times(self.rows.whole, self.rows.size), 0)
            if self.rows.rest:
                full = self.b.index(plus(extent, self.rows.rest))
                extent = (
                    full
                    if self.rows.has_rest is None
                    else self.b.select(self.rows.has_rest, full, self.b.index(extent))
                )
            self.packed_x.fill(self.x_batch, self.first_row, extent, self.first_k, self.count)
        self.each(self.panels, self.panel)

    def panel(self, start: Index, size: int) -> None:
        column = plus(self.first_column, start)
        if self.packed_y is not None:
            self.packed_y.fill(self.y_batch, column, size, self.first_k, self.count)
        self.each(self.rows, lambda row, rows: self.block(row, rows, start, size))

    # ---- the inner loop ----

    def block(self, row: Index, rows: int, start: Index, size: int) -> None:
        """Make or continue ``rows`` x ``size`` sums."""
        vectors = -(-size // self.config.width)
        column = plus(self.first_column, start)
        sums = self.begin(row, rows, start, vectors)
        x = self.x_reader(row, rows)
        y = self.y_reader(column, size, vectors)
        whole = self.count
        if self.product.k % self.unroll:
            whole = times(divided(self.count, self.unroll), self.unroll)
        sums = self.run(0, whole, self.unroll, sums, x, y)
        if self.product.k % self.unroll:
            sums = self.run(whole, self.count, 1, sums, x, y)
        if self.sums is None:
            self.finish(row, rows, column, size, sums)
            return
        for i in range(rows):
            for v in range(vectors):
                self.sums.store(self.waiting(row, i, start, v), sums[i * vectors + v])

    def begin(self, row: Index, rows: int, start: Index, vectors: int) -> list[Value]:
        zero = self.parts.zero(self.config.width)
        if self.sums is None:
            return [zero] * (rows * vectors)
        return [
            self.sums.load(
                self.waiting(row, i, start, v), width=self.config.width, mask=self.is_further
            )
            for i in range(rows)
            for v in range(vectors)
        ]

    def run(
        self, start: Index, stop: Index, step: int, sums: list[Value], x: Read, y: Read
    ) -> list[Value]:
        """Add the products from start to stop."""
        if isinstance(start, int) and isinstance(stop, int) and start >= stop:
            return sums
        if isinstance(start, int) and isinstance(stop, int) and stop - start == step:
            return self.add(start, step, sums, x, y)
        with self.b.for_(start, stop, step=step, carried=sums) as loop:
            loop.yield_(*self.add(loop.index, step, list(loop.carried), x, y))
        return list(loop.results)

    def add(self, k: Index, steps: int, sums: list[Value], x: Read, y: Read) -> list[Value]:
        width = self.config.width
        for further in range(steps):
            right = y(k, further)
            left = x(k, further)
            sums = [
                accumulate(
                    self.b.value(left[at // len(right)], sum.type) if width > 1
                    else left[at // len(right)],
                    right[at % len(right)], sum,
                )
                for at, sum in enumerate(sums)
            ]  # fmt: skip
        return sums

    def x_reader(self, row: Index, rows: int) -> Read:
        """Return what reads an element of each row."""
        if self.packed_x is not None:
            return self.packed_x.reader(row, rows)
        x, first = self.parts.x, plus(self.first_row, row)
        places = [x.join(self.x_batch, x.at(x.map.rows, plus(first, i))) for i in range(rows)]

        def read(k: Index, further: int) -> list[Value]:
            along = x.at(x.map.columns, plus(self.first_k, k), further=further, period=self.period)
            return [self.parts.widened(x.load(place, along)) for place in places]

        return read

    def y_reader(self, column: Index, size: int, vectors: int) -> Read:
        """Return what reads a panel's vectors of one row."""
        if self.packed_y is not None:
            return self.packed_y.reader(vectors)
        y, places = self.parts.y, panel_lanes(self.parts.y, column, size, self.config.width)
        places = [y.join(self.y_batch, place) for place in places]

        def read(k: Index, further: int) -> list[Value]:
            along = y.at(y.map.rows, plus(self.first_k, k), further=further, period=self.period)
            return [self.parts.widened(y.load(place, along)) for place in places]

        return read

    # ---- results ----

    def waiting(self, row: Index, i: int, start: Index, vector: int) -> Index:
        """Where a vector of sums waits for the next slab."""
        panel = self.config.panel
        first = plus(times(start, self.height), times(row, panel))
        return plus(first, i * panel + vector * self.config.width)

    def finish(self, row: Index, rows: int, column: Index, size: int, sums: list[Value]) -> None:
        out, width = self.parts.out, self.config.width
        pieces = panel_pieces(out, column, size, width)
        vectors = -(-size // width)
        for i in range(rows):
            at = plus(self.first_row, plus(row, i))
            place = out.join(self.out_batch, out.at(out.map.rows, at))
            for v in range(vectors):
                first = plus(column, v * width)
                value = self.parts.finish(sums[i * vectors + v], self.batch, at, first)
                for start, lanes in pieces:
                    if start // width == v:
                        out.store(part_of(value, start % width, lanes.width), place, lanes)

    def finish_panel(self, start: Index, size: int) -> None:
        """Store the sums of a panel that waited for the last slab."""
        sums = self.sums
        assert sums is not None

        def row(at: Index, rows: int) -> None:
            vectors = -(-size // self.config.width)
            found = [
                sums.load(self.waiting(at, i, start, v), width=self.config.width)
                for i in range(rows)
                for v in range(vectors)
            ]
            self.finish(at, rows, plus(self.first_column, start), size, found)

        self.each(self.rows, row)


def known_period(product: Product) -> int:
    """Return after how many steps along K the last digits of both operands are the same again.

    The inner loop is unrolled by it, so that the place in a window is known; 1 if it is not.
    """
    periods = [_periods(axis) for axis in (product.x.columns, product.y.rows)]
    if all(p is None for p in periods):
        return 1
    found = set.intersection(*(p for p in periods if p is not None))
    return max(found)


def _periods(axis: Axis) -> set[int] | None:
    """The products of an axis' last digits that may be unrolled; None if any number will do."""
    if len(axis) < 2:
        return None
    found, size = {1}, 1
    for digit in reversed(axis[1:]):
        size *= digit.size
        if size <= _LONGEST:
            found.add(require_known(size))
    return found


#: The most steps that are written out.
_LONGEST: Final = 27
