"""A matrix product by workgroups that share tiles of the operands: the schedule for GPUs.

A workgroup makes ``block_m`` x ``block_n`` sums.  It goes along K in steps of ``block_k``: all
invocations together copy a slab of x and one of y to shared memory, K-major both, then each adds
the products for its own ``thread_m`` x ``thread_n`` sums, which it holds in registers.  These are
blocks of 4 x 4, spread over the tile, so that neighbours read neighbouring vectors: no bank of
shared memory is asked twice.  32 invocations in a row, which run together, have 8 x 4 blocks, of
which halves read as few vectors as they can.  While it computes, the next slab is already on its
way to registers.

An operand whose vectors lie along K is read by them, and turned as it is stored.

With two ``stages`` there are two slabs of shared memory and one barrier a step, with one two
barriers.  ``pad`` elements between the rows of x's slab spread the stores of vectors over the banks
where neighbours store down a column.  With ``split_k`` > 1 that many workgroups share a tile; each
writes partial sums, and the kernel of `split_k` adds them in a fixed order.

One kernel serves all sizes of a kind: of each axis whether it is whole tiles, of each operand
whether its vectors lie where a device loads them at once, and whether the sums are split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Kernel
from pyrite.kernel.template.index import (
    Index,
    divided,
    is_one,
    least,
    pieces,
    plus,
    remainder,
    times,
)
from pyrite.kernel.template.lanes import mixed
from pyrite.kernel.template.operand import Axis, AxisPlace, Digit, Operand, OperandMap
from pyrite.kernel.template.product import (
    At,
    Fuse,
    Parts,
    Product,
    accumulate,
    group_number,
    known,
    tile_of,
)
from pyrite.kernel.template.tiled_config import VECTOR, TiledConfig, workgroups
from pyrite.symbol import is_symbol
from pyrite.types import DType

#: Orders of a vector's lanes: swapped by pairs, from the last to the first, and both.
SWAPPED: Final = (1, 0, 3, 2)
BACK: Final = (3, 2, 1, 0)
SWAPPED_BACK: Final = (2, 3, 0, 1)


def partial_sums(product: Product, config: TiledConfig) -> OperandMap:
    """Return where the partial sums of a split product lie: (split, batch, M, N), dense."""
    size = product.m * product.n
    return OperandMap(
        product.accumulator,
        (Digit(config.split_k, product.batch * size), Digit(product.batch, size)),
        (Digit(product.m, product.n),),
        (Digit(product.n, 1),),
    )


def tiled_gemm(
    product: Product,
    config: TiledConfig,
    *,
    name: str = "tiled_gemm",
    grid: int = 1,
    epilogue: Fuse | None = None,
    outputs: Sequence[OperandMap] = (),
) -> Kernel:
    """Return the kernel of a product, for at least `workgroups` workgroups on ``grid`` axes.

    Parameters: x, y, the epilogue's, outputs; each operand's offset follows it if it has one.  With
    ``split_k`` > 1 out is `partial_sums`, and there is no epilogue.
    """
    assert config.is_legal(), config
    b = KernelBuilder(name, workgroup_size=config.threads, grid=grid)
    if config.split_k > 1:
        assert epilogue is None
        assert not outputs
        assert not product.is_lower
        product = Product(product.x, product.y, partial_sums(product, config))
    parts = Parts(b, product, epilogue=epilogue, outputs=outputs)
    kernel = _TiledGemm(parts, config)
    number, count = group_number(b), workgroups(kernel.whole, config)
    if grid == 1:
        kernel.write(known(b, number, count))
    else:
        with b.if_(number < count):
            kernel.write(number)
    return b.build()


class _Slab:
    """A slab of one operand: how it comes from memory, by way of registers, to shared memory."""

    def __init__(
        self, operand: Operand, across: Axis, along: Axis, block: int, pad: int,
        config: TiledConfig, dtype: DType, *, swaps: bool,
    ) -> None:  # fmt: skip
        b = operand.builder
        self.operand = operand
        self.along = along
        self.across = across
        self.dtype = dtype
        self.block_k = config.block_k
        self.row = block + pad
        self.block = block
        self.stage = config.block_k * self.row
        self.memory: Memory = b.shared(dtype, config.stages * self.stage)
        self.count = block * config.block_k // (VECTOR * config.threads)
        self.threads = config.threads
        #: Whether its vectors lie along K in memory, and are turned as they are stored.
        self.is_turned = operand.map.is_aligned(along, VECTOR)
        #: Whether neighbours change places in shared memory; see `_TiledGemm.multiply`.
        self.swaps = swaps

    def begin(self, batch: AxisPlace, first: Index, size: int) -> None:
        """Compute what stays the same along K; ``first`` is the tile's first row or column."""
        b = self.operand.builder
        limit = size if size % self.block else None
        self.k: list[Index] = []
        self.to: list[Index] = []
        self.places: list[AxisPlace] = []
        for i in range(self.count):
            unit = plus(b.local_index(), i * self.threads)
            k, start = self.unit(unit)
            if self.is_turned:
                place = self.operand.at(self.across, plus(first, start), limit=limit)
            else:
                place = self.operand.lanes(self.across, plus(first, start), VECTOR, limit=limit)
            self.k.append(k)
            to = start ^ 1 if self.is_turned and self.swaps else start
            self.to.append(plus(times(k, self.row), to))
            self.places.append(self.operand.join(batch, place))

    def unit(self, number: Index) -> tuple[Index, Index]:
        """Return the first k of a unit of four elements, and its first row or column.

        Neighbours read neighbouring places where there are any.
        """
        if self.is_turned:
            vectors = self.block_k // VECTOR
            return times(remainder(number, vectors), VECTOR), divided(number, vectors)
        if self.operand.map.lane_stride(self.along) == 1:
            return remainder(number, self.block_k), times(divided(number, self.block_k), VECTOR)
        vectors = self.block // VECTOR
        return divided(number, vectors), times(remainder(number, vectors), VECTOR)

    def fetch(self, step: Index, k: int) -> list[Value]:
        """Load this invocation's part of a step's slab."""
        b, operand, values = self.operand.builder, self.operand, []
        limit = k if k % self.block_k else None
        for inner, place in zip(self.k, self.places, strict=True):
            row = plus(times(step, self.block_k), inner)
            if self.is_turned:
                along = operand.lanes(self.along, row, VECTOR, limit=limit)
            else:
                along = operand.at(self.along, row, limit=limit)
            values.append(b.cast(operand.load(place, along), self.dtype))
        return values

    def put(self, values: list[Value], stage: Index) -> None:
        """Store it."""
        for value, to in zip(values, self.to, strict=True):
            place = plus(times(stage, self.stage), to)
            if self.is_turned:
                for i in range(VECTOR):
                    self.memory.store(plus(place, i * self.row), value[i])
            else:
                stored = mixed(value, SWAPPED) if self.swaps else value
                self.memory.store(place, stored, is_aligned=True)

    def take(self, stage: Index, k: int, start: Index) -> Value:
        """Read a vector of a row of the slab."""
        place = plus(plus(times(stage, self.stage), start), k * self.row)
        return self.memory.load(place, width=VECTOR, is_aligned=True)


def arranged(local: Value, down: int, across: int) -> tuple[Value, Value]:
    """Return the row and the column of an invocation's blocks in the tile.

    The hardware serves 16 invocations at once, of which two neighbours ask for the same row.
    """
    if down % 8 or across % 4:
        return local // across, local % across
    lane, subgroup = local % 32, local // 32
    row, column = lane // 2 % 8, lane // 16 * 2 + lane % 2
    count = across // 4
    return subgroup // count * 8 + row, subgroup % count * 4 + column


class _TiledGemm:
    def __init__(self, parts: Parts, config: TiledConfig) -> None:
        self.b = parts.builder
        self.parts = parts
        self.config = config
        self.product = parts.product
        #: The product as it would be without a split.
        self.whole = self.product
        if config.split_k > 1:
            out = self.product.out
            self.whole = Product(
                self.product.x, self.product.y,
                OperandMap(out.dtype, out.batch[1:], out.rows, out.columns),
            )  # fmt: skip
        x, y = parts.x, parts.y
        dtype = parts.accumulator
        self.x = _Slab(
            x, x.map.rows, x.map.columns, config.block_m, config.pad, config, dtype, swaps=False
        )
        self.y = _Slab(
            y, y.map.columns, y.map.rows, config.block_n, 0, config, dtype, swaps=config.swaps
        )
        self.steps = pieces(self.product.k, config.block_k)

    def write(self, number: Index) -> None:
        config, product = self.config, self.product
        rows, columns = pieces(product.m, config.block_m), pieces(product.n, config.block_n)
        tiles = rows * columns
        many = self.whole.batch > 1 or config.split_k > 1
        tile = remainder(number, tiles) if many else number
        self.batch: Index = divided(number, tiles) if many else 0
        if product.is_lower:  # the tiles with the most terms begin first, in all batches
            batches = self.whole.batch
            self.batch = remainder(number, batches)
            tile = plus(tiles - 1, times(divided(number, batches), -1))
        if is_one(tiles):
            tile = 0
        split = divided(self.batch, self.whole.batch)
        inner = remainder(self.batch, self.whole.batch) if config.split_k > 1 else self.batch
        if config.split_k == 1:
            split = 0
        row, column = tile_of(self.b, tile, rows, columns, config.group)
        self.begin(inner, times(row, config.block_m), times(column, config.block_n))
        self.store(self.sums(split))

    def begin(self, batch: Index, first_row: Index, first_column: Index) -> None:
        config, b = self.config, self.b
        x, y = self.parts.x, self.parts.y
        self.x.begin(x.at(x.map.batch, batch), first_row, self.product.m)
        self.y.begin(y.at(y.map.batch, batch), first_column, self.product.n)
        across = config.block_n // config.thread_n
        thread_row, thread_column = arranged(b.local_index(), config.threads // across, across)
        self.blocks_m, self.blocks_n = config.thread_m // VECTOR, config.thread_n // VECTOR
        spread_m, spread_n = config.block_m // self.blocks_m, config.block_n // self.blocks_n
        my_row, my_column = times(thread_row, 4), times(thread_column, 4)
        self.rows = [plus(my_row, i * spread_m) for i in range(self.blocks_m)]
        self.columns = [plus(my_column, i * spread_n) for i in range(self.blocks_n)]
        self.first = first_row, first_column

    def range(self, split: Index) -> tuple[Index, Index]:
        """Return the first step of this workgroup, and the one behind its last."""
        if self.product.is_lower:
            step = self.config.block_k
            behind = divided(plus(self.first[0], self.config.block_m + step - 1), step)
            return 0, least(self.b, behind, self.steps)
        if is_one(self.config.split_k):
            return 0, self.steps
        each = pieces(self.steps, self.config.split_k)
        first = times(split, each)
        return first, least(self.b, plus(first, each), self.steps)

    def sums(self, split: Index) -> list[Value]:
        """Run along K and return the accumulators: rows outermost, then vectors of columns."""
        b, k = self.b, self.product.k
        first, end = self.range(split)
        zero = self.parts.zero(VECTOR)
        sums = [zero] * (self.config.thread_m * self.blocks_n)
        last = plus(end, -1)
        # Every workgroup has terms.  A driver that has to mind none (of an H200) gives sums other
        # registers, of which twice as many multiply-adds wait: of 4096 in 16 x 8 3,204 µs, 2,828.
        is_entered = is_symbol(k) or k > 0
        fetched = self.x.fetch(first, k) + self.y.fetch(first, k)
        if self.config.stages == 2:
            self.put(fetched, 0)
            b.barrier()
            with b.for_(first, end, carried=sums, is_entered=is_entered) as loop:
                done = loop.index if isinstance(first, int) else loop.index - first
                stage = done & 1
                following = b.min(loop.index + 1, last)
                fetched = self.x.fetch(following, k) + self.y.fetch(following, k)
                sums = self.multiply(list(loop.carried), stage)
                self.put(fetched, 1 - stage)
                b.barrier()
                loop.yield_(*sums)
            return list(loop.results)
        with b.for_(first, end, carried=sums + fetched, is_entered=is_entered) as loop:
            self.put(list(loop.carried[len(sums) :]), 0)
            b.barrier()
            following = b.min(loop.index + 1, last)
            fetched = self.x.fetch(following, k) + self.y.fetch(following, k)
            sums = self.multiply(list(loop.carried[: len(sums)]), 0)
            b.barrier()
            loop.yield_(*sums, *fetched)
        return list(loop.results[: len(sums)])

    def put(self, fetched: list[Value], stage: Index) -> None:
        self.x.put(fetched[: self.x.count], stage)
        self.y.put(fetched[self.x.count :], stage)

    def multiply(self, sums: list[Value], stage: Index) -> list[Value]:
        """Add the products of one slab, along a row of sums there and along the next one back.

        So each multiply-add reads an element of x or y that the last one read, and processors read
        two registers for it, not three.  With many sums that is lane by lane, and the registers of
        y and of the sum lie in different banks, for the lanes of y are swapped by pairs in memory.
        """
        swaps = self.config.swaps
        for k in range(self.config.block_k):
            left = [self.x.take(stage, k, row) for row in self.rows]
            right = [self.y.take(stage, k, column) for column in self.columns]
            ways = [
                [mixed(y, lanes) for y in right] if swaps else right
                for lanes in (SWAPPED, SWAPPED_BACK)
            ]
            for i in range(self.config.thread_m):
                for j in range(self.blocks_n)[:: 1 if i % 2 == 0 else -1]:
                    at = i * self.blocks_n + j
                    x = left[i // VECTOR][i % VECTOR]
                    sums[at] = accumulate(x, ways[i % 2][j], sums[at])
        return sums

    def store(self, sums: list[Value]) -> None:
        outs = self.parts.outs
        m, n = self.product.m, self.product.n
        row_limit = m if m % self.config.block_m else None
        column_limit = n if n % self.config.block_n else None
        columns = [plus(self.first[1], c) for c in self.columns]
        batches = [out.at(out.map.batch, self.batch) for out in outs]
        lanes = [
            [out.lanes(out.map.columns, c, VECTOR, limit=column_limit) for c in columns]
            for out in outs
        ]
        for i in range(self.config.thread_m):
            row = plus(self.first[0], plus(self.rows[i // VECTOR], i % VECTOR))
            places = [out.at(out.map.rows, row, limit=row_limit) for out in outs]
            for j in range(self.blocks_n):
                sum = sums[i * self.blocks_n + j]
                if i % 2 and self.config.swaps:
                    sum = mixed(sum, BACK)
                at = At(self.batch, row, columns[j], row_limit, column_limit)
                values = self.parts.finish(sum, at)
                for n, (out, value) in enumerate(zip(outs, values, strict=True)):
                    out.store(value, batches[n], places[n], lanes[n][j])
