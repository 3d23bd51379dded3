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
do not meet in the same sets of the cache.

One kernel serves all sizes: the loops' ends and all strides are numbers that it gets.  The last
rows of a tile are made by a piece that begins so much earlier that it ends with them, of half the
rows if those do; some are then made twice, and the same is stored twice.  The last columns are
made by panels of half the vectors, whose lanes are masked; with few rows by a whole panel.

The same loops without copies, one panel for each of many ``invocations`` of a workgroup, are the
direct schedule of GPUs, for products with too few rows to share anything.

Source: Goto & van de Geijn 2008, doi:10.1145/1356052.1356053; here x is only copied, not shuffled,
since processors repeat a scalar from memory for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Kernel
from pyrite.kernel.template.index import (
    Index,
    divided,
    is_one,
    least,
    minus,
    pieces,
    plus,
    remainder,
    rounded_up,
    times,
)
from pyrite.kernel.template.lanes import part_of
from pyrite.kernel.template.operand import Axis, Operand, OperandMap
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
    At,
    Fuse,
    Parts,
    Product,
    accumulate,
    group_number,
)
from pyrite.symbol import require_known
from pyrite.types import int32, int64


def panel_gemm(
    product: Product,
    config: PanelConfig,
    *,
    name: str = "panel_gemm",
    grid: int = 1,
    epilogue: Fuse | None = None,
    outputs: Sequence[OperandMap] = (),
) -> Kernel:
    """Return the kernel of a product, for at least `workgroups` workgroups on ``grid`` axes.

    Parameters: x, y, the epilogue's, outputs; each operand's offset follows it if it has one.
    """
    assert config.is_legal(), config
    # Processors add 64-bit indices for nothing, in the address itself; GPUs lack them.
    index = int64 if config.invocations == 1 else int32
    b = KernelBuilder(name, workgroup_size=config.invocations, grid=grid, index=index)
    parts = Parts(b, product, epilogue=epilogue, outputs=outputs, aligns=config.aligns)
    kernel = _PanelGemm(parts, config)
    number, count = group_number(b), tile_count(product, config)
    if config.invocations > 1:
        number = number * config.invocations + b.local_index()
    elif grid == 1:
        kernel.write(number)
        return b.build()
    with b.if_(number < count):
        kernel.write(number)
    return b.build()


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of a tile that are made together: from ``first`` of the tile on, ``count`` ones.

    Their sums wait as those of the rows from ``slot`` on, which no others share.
    """

    first: Index
    count: int
    slot: Index


@dataclass(frozen=True, slots=True)
class _Panel:
    """So many vectors of columns from ``first`` of the tile on; ``limit`` is the product's end."""

    first: Index
    vectors: int
    limit: int | None


class _PanelGemm:
    def __init__(self, parts: Parts, config: PanelConfig) -> None:
        b, product = parts.builder, parts.product
        assert config.rows <= product.m, "the last rows are made by as many as any"
        self.b = b
        self.parts = parts
        self.config = config
        self.product = product
        # A GPU's threads wait for few loads: there only windows are written out, no rows of images.
        most = _LONGEST if config.invocations == 1 else min(_LONGEST, positions(product))
        self.period = known_period(product, most)
        #: Steps along K that are written out where rows and vectors are all that registers hold.
        self.steps = config.steps if self.period == 1 else self.period
        # A slab begins at a multiple of what is unrolled and of the vectors that are copied.
        unit = lcm(self.steps, config.width if config.packs_x else 1, SQUARE)
        self.depth = rounded_up(config.block_k, unit)
        # The small tiles of GPUs know their columns: a division is dear there.
        is_small = config.invocations > 1
        self.block_n = require_known(config.block_n) if is_small else config.block_n
        #: Whether sums wait for further slabs: a kernel of its own, to spare others their stores.
        self.waits = bool(product.k > self.depth)
        most_m, most_n = config.room
        self.packed_x = (
            PackedRows(parts, most_m, self.depth, config.width, self.period)
            if config.packs_x
            else None
        )
        self.packed_y = (
            PackedPanel(parts, config, self.depth, self.period) if config.packs_y else None
        )
        #: Sums of a piece and a panel, where what follows them is gone over row by row.
        self.finished: Memory | None = None
        if parts.has_outputs and config.invocations == 1:
            self.finished = b.private(parts.accumulator, config.rows * config.panel)
        self.sums: Memory | None = None
        if self.waits:
            self.sums = b.private(parts.accumulator, most_m * most_n)

    # ---- around the inner loop ----

    def write(self, number: Index) -> None:
        config, product = self.config, self.product
        down, across = self.tiles_down(), pieces(product.n, self.block_n)
        tiles = down * across
        self.batch = divided(number, tiles) if product.batch > 1 else 0
        tile = remainder(number, tiles) if product.batch > 1 else number
        self.first_row = times(remainder(tile, down), config.block_m)
        self.first_column = times(divided(tile, down), self.block_n)
        self.first_own: Index | None = None
        if not is_one(down) and (product.m - 1) % config.block_m + 1 < config.rows:
            # The last tile begins earlier, to have the rows of a piece; others store some of them.
            self.first_own = self.first_row
            self.first_row = least(self.b, self.first_row, product.m - config.rows)
        self.height = least(self.b, config.block_m, minus(product.m, self.first_row))
        x, y = self.parts.x, self.parts.y
        self.x_batch = x.at(x.map.batch, self.batch)
        self.y_batch = y.at(y.map.batch, self.batch)
        if not self.waits:
            self.slab(0)
            return
        with self.b.for_(0, pieces(product.k, self.depth)) as loop:
            self.slab(loop.index)

    def tiles_down(self) -> int:
        """Return how many tiles have the same columns: one where a piece has all rows."""
        rows, block = self.config.rows, self.config.block_m
        has_all = block == rows and self.product.m == rows
        return 1 if has_all else pieces(self.product.m, block)

    def each_rows(self, body: Callable[[_Rows], None]) -> None:
        """Run the body on the pieces of the tile's rows."""
        count, half = self.config.rows, self.config.rows // 2
        if self.config.block_m == count:
            body(_Rows(0, count, 0))
            return
        # Half of a piece is enough for a rest of no more rows.
        whole = divided(plus(self.height, count - half - 1), count)
        with self.b.for_(0, whole) as loop:
            slot = times(loop.index, count)
            body(_Rows(least(self.b, slot, minus(self.height, count)), count, slot))
        slot = times(whole, count)
        if half:
            with self.b.if_(self.b.index(slot) < self.height):
                body(_Rows(minus(self.height, half), half, slot))

    def each_panel(self, body: Callable[[_Panel], None]) -> None:
        """Run the body on the panels of the tile's columns."""
        b, config, n = self.b, self.config, self.product.n
        columns = least(b, self.block_n, minus(n, self.first_column))
        whole = divided(columns, config.panel)
        with b.for_(0, whole) as loop:
            body(_Panel(times(loop.index, config.panel), config.vectors, None))
        first = times(whole, config.panel)
        if config.rows >= _ROWS_FOR_PART:
            vectors = max(config.vectors // 2, 1)
            part = vectors * config.width
            rest = divided(plus(minus(columns, first), part - 1), part)
            with b.for_(0, rest) as loop:
                body(_Panel(plus(first, times(loop.index, part)), vectors, n))
        else:
            with b.if_(b.index(first) < columns):
                body(_Panel(first, config.vectors, n))

    def slab(self, slab: Index) -> None:
        k, depth = self.product.k, self.depth
        self.is_further = None if isinstance(slab, int) else slab > 0
        self.is_last = None if isinstance(slab, int) else slab + 1 >= pieces(k, depth)
        self.first_k = times(slab, depth)
        self.count: Index = k
        if self.waits:
            self.count = least(self.b, minus(k, self.first_k), depth)
        if self.packed_x is not None:
            self.packed_x.fill(self.x_batch, self.first_row, self.height, self.first_k, self.count)
        self.each_panel(self.panel)

    def panel(self, panel: _Panel) -> None:
        if self.packed_y is not None:
            column = plus(self.first_column, panel.first)
            self.packed_y.fill(
                self.y_batch, column, panel.vectors, panel.limit, self.first_k, self.count
            )
        self.each_rows(lambda rows: self.block(rows, panel))

    # ---- the inner loop ----

    def block(self, rows: _Rows, panel: _Panel) -> None:
        """Make or continue the sums of some rows and a panel."""
        if self.sums is None and self.config.invocations == 1:
            self.fetch(rows, panel)
        sums = self.begin(rows, panel)
        x, y = self.x_reader(rows), self.y_reader(panel)
        is_whole = (rows.count, panel.vectors) == (self.config.rows, self.config.vectors)
        steps = self.steps if is_whole else self.period
        whole = self.count
        if steps != self.period:
            whole = times(divided(self.count, steps), steps)
        sums = self.run(0, whole, steps, sums, x, y)
        if steps != self.period:
            sums = self.run(whole, self.count, 1, sums, x, y)
        if self.sums is None or self.is_last is None:
            self.finish(rows, panel, sums)
            return
        with self.b.if_(self.is_last) as last:
            self.finish(rows, panel, sums)
        with last.else_():
            for place, sum in zip(self.waiting(rows, panel), sums, strict=True):
                self.sums.store(place, sum)

    def run(
        self, start: Index, stop: Index, steps: int, sums: list[Value], x: Read, y: Read
    ) -> list[Value]:
        """Add the products from one step along K to another, so many in each turn."""
        with self.b.for_(start, stop, step=steps, carried=sums) as loop:
            loop.yield_(*self.add(loop.index, steps, list(loop.carried), x, y))
        return list(loop.results)

    def begin(self, rows: _Rows, panel: _Panel) -> list[Value]:
        width = self.config.width
        if self.sums is None:
            return [self.parts.zero(width)] * (rows.count * panel.vectors)
        return [
            self.sums.load(place, width=width, mask=self.is_further)
            for place in self.waiting(rows, panel)
        ]

    def add(self, k: Index, steps: int, sums: list[Value], x: Read, y: Read) -> list[Value]:
        """Add the products of some steps."""
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

    def x_reader(self, rows: _Rows) -> Read:
        """Return what reads an element of each row."""
        if self.packed_x is not None:
            return self.packed_x.reader(rows.first, rows.count)
        x, first = self.parts.x, plus(self.first_row, rows.first)
        places = [x.join(self.x_batch, x.at(x.map.rows, plus(first, i))) for i in range(rows.count)]

        def read(k: Index, further: int) -> list[Value]:
            along = x.at(x.map.columns, plus(self.first_k, k), further=further, period=self.period)
            return [self.parts.widened(x.load(place, along)) for place in places]

        return read

    def y_reader(self, panel: _Panel) -> Read:
        """Return what reads a panel's vectors of one row."""
        if self.packed_y is not None:
            return self.packed_y.reader(panel.vectors)
        y, width = self.parts.y, self.config.width
        column = plus(self.first_column, panel.first)
        places = [
            y.join(self.y_batch, lanes)
            for lanes in panel_lanes(y, column, panel.vectors * width, width, panel.limit)
        ]

        def read(k: Index, further: int) -> list[Value]:
            along = y.at(y.map.rows, plus(self.first_k, k), further=further, period=self.period)
            return [self.parts.widened(y.load(place, along)) for place in places]

        return read

    # ---- results ----

    def waiting(self, rows: _Rows, panel: _Panel) -> list[Index]:
        """Return the places where vectors of sums wait for the next slab."""
        wide = panel.vectors * self.config.width
        first = plus(times(panel.first, self.config.block_m), times(rows.slot, wide))
        return [plus(first, i * self.config.width) for i in range(rows.count * panel.vectors)]

    def writers(self, panel: _Panel) -> list[_Writer]:
        """Return what stores the sums of a panel in each of the outputs."""
        column = plus(self.first_column, panel.first)
        return [_Writer(self, out, column, panel) for out in self.parts.outs]

    def fetch(self, rows: _Rows, panel: _Panel) -> None:
        """Ask for what will be written: a short sum is over before its rows, far apart, are there.

        A gradient of 64 x 11616 by 32 terms takes 0.83 of the time.
        """
        for writer in self.writers(panel):
            for i in range(rows.count):
                writer.begin(plus(self.first_row, plus(rows.first, i)))
                writer.fetch()

    def finish(self, rows: _Rows, panel: _Panel, sums: list[Value]) -> None:
        writers = self.writers(panel)
        vectors, made = panel.vectors, self.finished
        if made is None:
            for i in range(rows.count):
                self.finish_row(
                    plus(rows.first, i), panel, sums[i * vectors : (i + 1) * vectors], writers
                )
            return
        # Written out for each row, what follows takes the registers of the sums, and the cache of
        # instructions: a gradient of GELU took 0.8 ms behind a product, 0.5 alone.
        width = self.config.width
        for i, sum in enumerate(sums):
            made.store(i * width, sum)
        with self.b.for_(0, rows.count) as loop:
            first = times(loop.index, vectors * width)
            found = [made.load(plus(first, v * width), width=width) for v in range(vectors)]
            self.finish_row(plus(rows.first, loop.index), panel, found, writers)

    def finish_row(
        self, row: Index, panel: _Panel, sums: Sequence[Value], writers: Sequence[_Writer]
    ) -> None:
        """Write what is made of the sums of a row."""
        at, column = plus(self.first_row, row), plus(self.first_column, panel.first)
        for writer in writers:
            writer.begin(at)
        for v, sum in enumerate(sums):
            first = plus(column, v * self.config.width)
            values = self.parts.finish(sum, At(self.batch, at, first, None, panel.limit))
            for writer, value in zip(writers, values, strict=True):
                writer.store(value, v)


class _Writer:
    """What stores the sums of a panel in one of the outputs."""

    def __init__(self, gemm: _PanelGemm, out: Operand, column: Index, panel: _Panel) -> None:
        self.out, self.width = out, gemm.config.width
        self._first_own = gemm.first_own
        self._batch = out.at(out.map.batch, gemm.batch)
        size = panel.vectors * self.width
        self._lanes = panel_pieces(out, column, size, self.width, panel.limit)

    def begin(self, row: Index) -> None:
        """Go to a row."""
        out = self.out
        self._place = out.join(self._batch, out.at(out.map.rows, row, first=self._first_own))

    def fetch(self) -> None:
        """Ask for each line of the row's part."""
        for start, lanes in self._lanes:
            if lanes.is_consecutive and start * self.out.map.dtype.itemsize % _LINE == 0:
                self.out.prefetch(self._place, lanes)

    def store(self, value: Value, vector: int) -> None:
        """Store a vector of the panel."""
        for start, lanes in self._lanes:
            if start // self.width == vector:
                self.out.store(part_of(value, start % self.width, lanes.width), self._place, lanes)


#: Bytes that a processor fetches together.
_LINE: Final = 64
#: Rows of which half a panel is enough sums to be added to without a wait; nearly.
_ROWS_FOR_PART: Final = 5


def known_period(product: Product, most: int) -> int:
    """Return after how many steps along K the last digits of both operands are the same again.

    The inner loop is unrolled by it, so that the place in a window is known; 1 if it is more than
    so many.
    """
    periods = [_periods(axis, most) for axis in (product.x.columns, product.y.rows)]
    if all(p is None for p in periods):
        return 1
    found = set.intersection(*(p for p in periods if p is not None))
    return max(found)


def positions(product: Product) -> int:
    """Return how many positions windows have: where sums go over these, windows have the rest."""
    kept = (*product.x.rows, *product.y.columns)
    return prod(digit.size for digit in kept if digit.steps)


def _periods(axis: Axis, most: int) -> set[int] | None:
    """Return the products of an axis' last digits that may be unrolled; None if any may."""
    if len(axis) < 2:
        return None
    found, size = {1}, 1
    for digit in reversed(axis[1:]):
        size *= digit.size
        if size <= most:
            found.add(require_known(size))
    return found


#: The most steps that are written out.
_LONGEST: Final = 27
