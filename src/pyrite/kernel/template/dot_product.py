"""A product of few rows with columns that are dense: dot products, for CPUs.

Where both operands lie along K and few rows share a column, nothing is copied or turned: an
invocation goes along ``rows`` rows of x and ``columns`` columns of y at once, by vectors, and adds
up the lanes of each sum at the end.  So y is read once, as it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import Kernel
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import (
    Index,
    divided,
    is_one,
    least,
    limit_of,
    pieces,
    plus,
    remainder,
    times,
)
from pyrite.kernel.template.lanes import sum_of_lanes
from pyrite.kernel.template.operand import AxisPlace, OperandMap
from pyrite.kernel.template.product import At, Fuse, Parts, Product, accumulate, group_number
from pyrite.types import int64


@dataclass(frozen=True, slots=True)
class DotConfig:
    """How the product is cut up: sums of a loop, lanes of a vector, columns of an invocation."""

    rows: int
    columns: int
    width: int
    block_n: int = extent()

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return bool(self.block_n % self.columns == 0)


def candidates(product: Product, machine: Machine) -> list[DotConfig]:
    """Return the configs that are right for a product; none if it is not dense along K."""
    width = machine.vector_bytes // product.accumulator.itemsize
    x, y = product.x, product.y
    if not (x.is_consecutive(x.columns, width) and y.is_consecutive(y.rows, width)):
        return []
    return [
        DotConfig(min(rows, product.m), columns, width, columns * blocks)
        for rows, columns in _SHAPES
        for blocks in (1, 4, 16)
    ]


def select(product: Product, machine: Machine) -> DotConfig | None:
    """Return the candidate for few rows, whose blocks each core gets a few of; None for many."""
    if product.m >= _FEW or product.k < _LONG:
        return None
    fitting = [c for c in candidates(product, machine) if c.rows == product.m]
    busy = [c for c in fitting if workgroups(product, c) >= 4 * machine.threads]
    return max(busy or fitting[:1], key=lambda c: c.block_n, default=None)


#: Sums of a loop: enough to be added to without a wait.
_SHAPES: Final = ((1, 8), (2, 4), (3, 4))
#: With so many rows a copy of y is shared by enough of them.
_FEW: Final = 4
#: The least terms of a sum that are worth adding up lanes.
_LONG: Final = 64


def workgroups(product: Product, config: DotConfig) -> int:
    """Return how many workgroups run a product."""
    return product.batch * pieces(product.n, config.block_n) * pieces(product.m, config.rows)


def dot_product(
    product: Product, config: DotConfig, *, grid: int = 1, epilogue: Fuse | None = None,
    outputs: Sequence[OperandMap] = (),
) -> Kernel:  # fmt: skip
    """Return the kernel of a product.

    Parameters: x, y, the epilogue's, outputs; each operand's offset follows it if it has one.
    """
    assert config.is_legal(), config
    b = KernelBuilder("dot_product", workgroup_size=1, grid=grid, index=int64)
    parts = Parts(b, product, epilogue=epilogue, outputs=outputs, aligns=False)
    kernel = _DotProduct(parts, config)
    number = group_number(b)
    with b.if_(number < workgroups(product, config)):
        kernel.write(number)
    return b.build()


class _DotProduct:
    def __init__(self, parts: Parts, config: DotConfig) -> None:
        self.b = parts.builder
        self.parts = parts
        self.config = config
        self.product = parts.product

    def write(self, number: Value) -> None:
        product, c = self.product, self.config
        across, down = pieces(product.n, c.block_n), pieces(product.m, c.rows)
        batch = divided(number, across * down) if product.batch > 1 else 0
        inside = remainder(number, across * down) if product.batch > 1 else number
        row = 0 if is_one(down) else times(divided(inside, across), c.rows)
        first = times(remainder(inside, across), c.block_n)
        with self.b.for_(0, c.block_n, step=c.columns) as loop:
            self.block(batch, row, plus(first, loop.index))

    def block(self, batch: Index, row: Index, column: Index) -> None:
        """Make ``rows`` x ``columns`` sums."""
        parts, product, c = self.parts, self.product, self.config
        x, y = parts.x, parts.y
        # Rows and columns beyond the last are the last again, and not stored.
        rows = [
            x.join(
                x.at(x.map.batch, batch),
                x.at(x.map.rows, least(self.b, plus(row, i), product.m - 1)),
            )
            for i in range(c.rows)
        ]
        columns = [
            y.join(
                y.at(y.map.batch, batch),
                y.at(y.map.columns, least(self.b, plus(column, i), product.n - 1)),
            )
            for i in range(c.columns)
        ]
        whole = product.k // c.width * c.width
        sums = [parts.zero(c.width)] * (c.rows * c.columns)
        with self.b.for_(0, whole, step=c.width, carried=sums) as loop:
            loop.yield_(*self.add(rows, columns, loop.index, None, list(loop.carried)))
        sums = list(loop.results)
        if limit_of(product.k, c.width) is not None:
            with self.b.if_(self.b.index(whole) < product.k) as branch:
                branch.yield_(*self.add(rows, columns, whole, product.k, sums))
            with branch.else_():
                branch.yield_(*sums)
            sums = list(branch.results)
        for i, sum in enumerate(sums):
            r, n = plus(row, i // c.columns), plus(column, i % c.columns)
            at = At(batch, r, n, product.m, product.n)
            values = parts.finish(sum_of_lanes(sum), at)
            for out, value in zip(parts.outs, values, strict=True):
                places = (
                    out.at(out.map.batch, batch),
                    out.at(out.map.rows, r, limit=product.m),
                    out.at(out.map.columns, n, limit=product.n),
                )
                out.store(value, *places)

    def add(
        self, rows: list[AxisPlace], columns: list[AxisPlace], k: Index, limit: Index | None,
        sums: list[Value],
    ) -> list[Value]:  # fmt: skip
        parts, width = self.parts, self.config.width
        along_x = parts.x.lanes(parts.x.map.columns, k, width, limit=limit)
        along_y = parts.y.lanes(parts.y.map.rows, k, width, limit=limit)
        left = [parts.widened(parts.x.load(row, along_x)) for row in rows]
        right = [parts.widened(parts.y.load(column, along_y)) for column in columns]
        pairs = [(x, y) for x in left for y in right]
        return [accumulate(x, y, sum) for (x, y), sum in zip(pairs, sums, strict=True)]
