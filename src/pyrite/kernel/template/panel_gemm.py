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

from pyrite.kernel.build import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Kernel
from pyrite.kernel.template.index import Index, divided, plus, remainder, times
from pyrite.kernel.template.operand import Axis, Operand, Place
from pyrite.kernel.template.product import Fuse, Parts, Product, group_number, known, tile_of
from pyrite.types import int32, int64


@dataclass(frozen=True, slots=True)
class PanelConfig:
    """How a product is cut up; see the head of this file.  ``width`` is the lanes of a vector."""

    rows: int
    vectors: int
    width: int
    block_m: int
    block_n: int
    block_k: int
    packs_x: bool = False
    packs_y: bool = False
    unroll: int = 4
    invocations: int = 1

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.width

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_m % self.rows == 0 and self.block_n % self.panel == 0


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """Facts of a CPU: bytes of a vector register, how many there are, and how many cores."""

    vector_bytes: int = 32
    registers: int = 16
    threads: int = 2


def candidates(product: Product, facts: CpuFacts) -> list[PanelConfig]:
    """Return the configs that are right for a product on a CPU."""
    packings = [(x, y) for x in (False, True) for y in (False, True)]
    found = [
        _config(product, facts, shape, share, *packs)
        for shape in _shapes(product, facts)
        for share in _SHARES
        for packs in packings
    ]
    return [*found, streamed(product, facts)] if product.m < _ROWS_FOR_A_PANEL else found


def select(product: Product, facts: CpuFacts) -> PanelConfig:
    """Return the candidate that seems best.

    That is the shape of registers with the least work, blocks of which each core gets a few, and
    copies where operands are not as the inner loop wants them and are read more than once.
    """
    if _is_streamed(product, facts):
        return streamed(product, facts)
    shape = min(_shapes(product, facts), key=lambda s: _inner_cost(product, facts, *s))
    rows = shape[0]
    share = next((s for s in _SHARES if _groups(product, facts, shape, s) >= 4 * facts.threads),
                 _SHARES[-1])  # fmt: skip
    y = product.y
    width = width_of(product, facts)
    converts = y.dtype is not product.accumulator
    gathers = not y.is_consecutive(y.columns, width)
    # Rows of y on pages of their own: the table of pages is too small for a panel.
    is_apart = product.n * y.dtype.itemsize > _PAGE and product.m > 4 * rows
    # An element of x that is tested, or converted again and again, is dearer than a copy.
    is_tested = any(product.x.needs_test(i) for i in range(len(product.x.windows)))
    packs_x = is_tested or (converts and product.n > shape[1] * width)
    packs_y = gathers or is_apart or (converts and product.m > rows)
    return _config(product, facts, shape, share, packs_x, packs_y)


def streamed(product: Product, facts: CpuFacts) -> PanelConfig:
    """Return the config for a few rows of x, which read y once, from memory: by whole rows of it.

    Panels follow each other along a few rows of y, which come in the order in which they lie, and
    as long as each core has work: 4096 columns at once take two thirds of the time of 1024.
    """
    width, threads = width_of(product, facts), facts.threads
    vectors = min(8 // product.m + 1, 4, -(-product.n // width))
    block_n = min(-(-product.n * product.batch // threads), product.n, _STREAM // product.m)
    block_n = rounded_up(block_n, vectors * width)
    return PanelConfig(product.m, vectors, width, product.m, block_n, 8)


def _is_streamed(product: Product, facts: CpuFacts) -> bool:
    y = product.y
    is_long = y.is_consecutive(y.columns, width_of(product, facts)) and product.k > 8
    return is_long and product.m < _ROWS_FOR_A_PANEL and product.n > _STREAM // 4


#: Rows of x that make a panel of y worth its jumps from row to row.
_ROWS_FOR_A_PANEL: Final = 4
#: Sums of streamed rows that stay in the first cache.
_STREAM: Final = 4096


def width_of(product: Product, facts: CpuFacts) -> int:
    """Return the lanes of a vector: fewer than fit in a register where rows of y are short.

    That is for few rows of x: for more, a copy of y is joined from its short rows.
    """
    full = facts.vector_bytes // product.accumulator.itemsize
    if product.m >= _ROWS_FOR_A_COPY:
        return full
    return product.y.reach(product.y.columns, full) or full


#: Rows of x that share a copy of y, at least.
_ROWS_FOR_A_COPY: Final = 6
#: What a tile is, as parts of 128 x 192 sums: those stay in the second cache with both slabs.
_SHARES: Final = ((1, 1), (2, 2), (4, 4))
_TILE: Final = (128, 192)
#: Bytes of a page of memory.
_PAGE: Final = 4096


def _config(
    product: Product, facts: CpuFacts, shape: tuple[int, int], share: tuple[int, int],
    packs_x: bool, packs_y: bool,
) -> PanelConfig:  # fmt: skip
    rows, vectors = shape
    width = width_of(product, facts)
    block_m, block_n = _blocks(product, rows, vectors * width, share)
    return PanelConfig(rows, vectors, width, block_m, block_n, 256, packs_x, packs_y)


def _blocks(product: Product, rows: int, panel: int, share: tuple[int, int]) -> tuple[int, int]:
    """Whole multiples of what the inner loop makes, so that tiles are about equal."""
    units = zip((rows, panel), (product.m, product.n), _TILE, share, strict=True)
    block_m, block_n = (
        rounded_up(-(-size // max(-(-size * parts // most), 1)), unit)
        for unit, size, most, parts in units
    )
    return block_m, block_n


def _groups(
    product: Product, facts: CpuFacts, shape: tuple[int, int], share: tuple[int, int]
) -> int:
    return workgroups(product, _config(product, facts, shape, share, False, False))


def _shapes(product: Product, facts: CpuFacts) -> list[tuple[int, int]]:
    """Sums that fit in registers beside a row of y and an element of x, no more than needed.

    >>> from pyrite.types import float32
    >>> from pyrite.kernel.template.operand import row_major_map
    >>> square = row_major_map(float32, (), 64, 64)
    >>> _shapes(Product(square, square, square), CpuFacts(32, 16))
    [(1, 8), (2, 5), (4, 3), (6, 2), (14, 1)]
    """
    width = width_of(product, facts)
    known = _OF_32 if facts.registers >= 32 else _OF_16
    most = -(-product.n // width)
    return sorted({(min(rows, product.m), min(vectors, most)) for rows, vectors in known})


_OF_32: Final = ((1, 12), (2, 8), (4, 6), (6, 4), (8, 2), (8, 3), (14, 1))
_OF_16: Final = ((1, 8), (2, 5), (4, 3), (6, 2), (14, 1))


def _inner_cost(product: Product, facts: CpuFacts, rows: int, vectors: int) -> float:
    """Estimated cycles of the inner loops for each step along K, edges included.

    A step multiplies one vector a cycle, and reads two vectors or elements a cycle, but takes 8
    cycles at least: so long is it until a sum can be added to again, on two pipelines.
    """
    width = width_of(product, facts)
    total = 0.0
    lines = -(-product.n // width)
    for height, times_m in ((rows, product.m // rows), (product.m % rows, 1)):
        for wide, times_n in ((vectors, lines // vectors), (lines % vectors, 1)):
            if height and wide:
                one = max(height * wide, (height + wide) / 2, 8.0) + 0.5
                total += times_m * times_n * one
    return total


def direct(product: Product, invocations: int = 64) -> PanelConfig:
    """Return the config of the direct schedule of GPUs."""
    rows = min(product.m, 4)
    depth = rounded_up(product.k, 32)
    return PanelConfig(rows, 1, 4, rows, 4, depth, invocations=invocations)


def workgroups(product: Product, config: PanelConfig) -> int:
    """Return how many workgroups run a product."""
    return -(-tile_count(product, config) // config.invocations)


def tile_count(product: Product, config: PanelConfig) -> int:
    """Return how many tiles a product has, one for each invocation."""
    tiles = -(-product.m // config.block_m) * -(-product.n // config.block_n)
    return tiles * product.batch


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
        unit = lcm(self.unroll, config.width if config.packs_x else 1, _BLOCK)
        self.depth = min(rounded_up(config.block_k, unit), rounded_up(product.k, unit))
        self.slabs = -(-product.k // self.depth)
        self.height = min(config.block_m, rounded_up(product.m, config.rows))
        self.packed_x = (
            _PackedRows(parts, self.height, self.depth, config.width, self.period)
            if config.packs_x
            else None
        )
        self.packed_y = (
            _PackedPanel(parts, config, self.depth, self.unroll, self.period)
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
        self, start: Index, stop: Index, step: int, sums: list[Value], x: _Read, y: _Read
    ) -> list[Value]:
        """Add the products from start to stop."""
        if isinstance(start, int) and isinstance(stop, int) and start >= stop:
            return sums
        if isinstance(start, int) and isinstance(stop, int) and stop - start == step:
            return self.add(start, step, sums, x, y)
        with self.b.for_(start, stop, step=step, carried=sums) as loop:
            loop.yield_(*self.add(loop.index, step, list(loop.carried), x, y))
        return list(loop.results)

    def add(self, k: Index, steps: int, sums: list[Value], x: _Read, y: _Read) -> list[Value]:
        width = self.config.width
        for further in range(steps):
            right = y(k, further)
            left = x(k, further)
            sums = [
                self.parts.accumulate(
                    self.b.value(left[at // len(right)], sum.type) if width > 1
                    else left[at // len(right)],
                    right[at % len(right)], sum,
                )
                for at, sum in enumerate(sums)
            ]  # fmt: skip
        return sums

    def x_reader(self, row: Index, rows: int) -> _Read:
        """Return what reads an element of each row."""
        if self.packed_x is not None:
            return self.packed_x.reader(row, rows)
        x, first = self.parts.x, plus(self.first_row, row)
        places = [x.join(self.x_batch, x.at(x.map.rows, plus(first, i))) for i in range(rows)]

        def read(k: Index, further: int) -> list[Value]:
            along = x.at(x.map.columns, plus(self.first_k, k), further=further, period=self.period)
            return [self.parts.widened(x.load(place, along)) for place in places]

        return read

    def y_reader(self, column: Index, size: int, vectors: int) -> _Read:
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


#: Reads the vectors, or elements, at a step along K: (index, what is added to it) -> values.
_Read = Callable[[Index, int], list[Value]]


def panel_lanes(operand: Operand, column: Index, size: int, width: int) -> list[Place]:
    """Return the places of a panel's columns by vectors, the last limited to the panel's size."""
    axis = operand.map.columns
    return [
        operand.lanes(
            axis,
            plus(column, start),
            width,
            limit=plus(column, size) if start + width > size else None,
        )
        for start in range(0, size, width)
    ]


def panel_pieces(operand: Operand, column: Index, size: int, width: int) -> list[tuple[int, Place]]:
    """Return the same as the longest pieces of vectors that are neighbours, and where they begin.

    Whole vectors where no two columns are neighbours.
    """
    piece = operand.map.reach(operand.map.columns, width) or width
    places = panel_lanes(operand, column, size, piece)
    return [(i * piece, place) for i, place in enumerate(places)]


def part_of(value: Value, start: int, width: int) -> Value:
    """Return some lanes of a vector."""
    if width == value.width:
        return value
    lanes = [value[start + i] for i in range(width)]
    return value.builder.make(lanes) if width > 1 else lanes[0]


def sum_of_lanes(x: Value) -> Value:
    """Return the sum of a vector's lanes: halves are added until one is left."""
    while x.width > 1:
        half = x.width // 2
        x = part_of(x, 0, half) + part_of(x, half, half)
    return x


class _PackedPanel:
    """A panel of y in private memory: (depth, panel), dense, in the accumulator's dtype."""

    def __init__(
        self, parts: Parts, config: PanelConfig, depth: int, unroll: int, period: int
    ) -> None:
        self.b = parts.builder
        self.parts = parts
        self.config = config
        self.unroll = unroll
        self.period = period
        self.memory = self.b.private(parts.accumulator, depth * config.panel)

    def reader(self, vectors: int) -> _Read:
        panel, width = self.config.panel, self.config.width

        def read(k: Index, further: int) -> list[Value]:
            row = plus(times(k, panel), further * panel)
            return [
                self.memory.load(plus(row, v * width), width=width, is_aligned=True)
                for v in range(vectors)
            ]

        return read

    def fill(self, batch: Place, column: Index, size: int, first_k: Index, count: Index) -> None:
        y = self.parts.y
        is_turned = y.map.is_consecutive(y.map.rows, _BLOCK) and self.period == 1
        if is_turned and not y.map.is_consecutive(y.map.columns, self.config.width):
            self.fill_turned(batch, column, size, first_k, count)
            return
        pieces = panel_pieces(y, column, size, self.config.width)
        places = [(start, y.join(batch, lanes)) for start, lanes in pieces]
        with self.b.for_(0, count, step=self.period) as loop:
            for further in range(self.period):
                along = y.at(
                    y.map.rows, plus(first_k, loop.index), further=further, period=self.period
                )
                row = plus(times(loop.index, self.config.panel), further * self.config.panel)
                for start, place in places:
                    value = self.parts.widened(y.load(place, along))
                    self.memory.store(plus(row, start), value, is_aligned=True)

    def fill_turned(
        self, batch: Place, column: Index, size: int, first_k: Index, count: Index
    ) -> None:
        """By blocks of 4 x 4 turned in registers, of a y whose columns are dense."""
        y, b, k = self.parts.y, self.b, self.parts.product.k
        limit = k if k % _BLOCK else None
        end = plus(column, size) if size % _BLOCK else None
        with b.for_(0, size, step=_BLOCK) as across, b.for_(0, count, step=_BLOCK) as along:
            lanes = y.lanes(y.map.rows, plus(first_k, along.index), _BLOCK, limit=limit)
            loaded = []
            for i in range(_BLOCK):
                at = y.at(y.map.columns, plus(column, plus(across.index, i)), limit=end)
                loaded.append(self.parts.widened(y.load(batch, at, lanes)))
            for i in range(_BLOCK):
                turned = b.make([value[i] for value in loaded])
                to = plus(times(plus(along.index, i), self.config.panel), across.index)
                self.memory.store(to, turned, is_aligned=True)


#: Sides of the blocks in which a dense column becomes rows: processors turn 4 x 4 in 8 shuffles.
_BLOCK: Final = 4
#: Elements between the rows of a packed slab of x, so that they do not share sets of the cache.
_GAP: Final = 16


class _PackedRows:
    """The slab of x of a tile in private memory, in the accumulator's dtype.

    Rows stay dense, or columns do if they are dense in x.
    """

    def __init__(self, parts: Parts, height: int, depth: int, width: int, period: int) -> None:
        self.b = parts.builder
        self.parts = parts
        self.width = width
        self.period = period
        x = parts.x
        self.is_turned = x.map.lane_stride(x.map.columns) != 1 and x.map.is_consecutive(
            x.map.rows, width
        )
        inner = height if self.is_turned else depth
        outer = depth if self.is_turned else height
        self.stride = rounded_up(inner, width) + _GAP
        self.memory = self.b.private(parts.accumulator, outer * self.stride)

    def reader(self, row: Index, rows: int) -> _Read:
        def read(k: Index, further: int) -> list[Value]:
            if self.is_turned:
                start = plus(plus(times(k, self.stride), row), further * self.stride)
                return [self.memory.load(plus(start, i)) for i in range(rows)]
            start = plus(plus(times(row, self.stride), k), further)
            return [self.memory.load(plus(start, i * self.stride)) for i in range(rows)]

        return read

    def fill(
        self, batch: Place, first_row: Index, rows: Index, first_k: Index, count: Index
    ) -> None:
        x, b, width = self.parts.x, self.b, self.width
        product = self.parts.product
        across, along, size = x.map.rows, x.map.columns, product.k
        if self.is_turned:
            across, along, size = along, across, product.m
            first_row, rows, first_k, count = first_k, count, first_row, rows
        width = x.map.reach(along, width) or width
        limit = size if size % width else None
        with b.for_(0, rows) as outer:
            place = x.join(batch, x.at(across, plus(first_row, outer.index)))
            with b.for_(0, count, step=width) as inner:
                lanes = x.lanes(along, plus(first_k, inner.index), width, limit=limit)
                value = self.parts.widened(x.load(place, lanes))
                self.memory.store(plus(times(outer.index, self.stride), inner.index), value)


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
            found.add(size)
    return found


#: The most steps that are written out.
_LONGEST: Final = 27


def rounded_up(x: int, unit: int) -> int:
    """Return the least multiple of the unit that is not less than x."""
    return -(-x // unit) * unit
