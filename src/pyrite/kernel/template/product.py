"""What a contraction is: batches of x (M, K) times y (K, N), wherever their elements lie.

Every template of the family takes a `Product` and callbacks.  A `Fuse` adds what stands around it
to the kernel: it is called once, after the operands are declared and before out, declares what it
reads, and returns a function of a value and its place.  The epilogue gets a sum in the
accumulator's dtype, and gives a value for each of the outputs, which is rounded to that one's
dtype.  The sum may have lanes, along the columns, of which it gets the place of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.template.index import (
    Index,
    divided,
    is_one,
    least,
    minus,
    plus,
    remainder,
    times,
)
from pyrite.kernel.template.operand import Operand, OperandMap, accumulator_of, axis_size
from pyrite.types import DType


class At(NamedTuple):
    """Where sums stand in the result; what is at a limit or behind it does not exist."""

    batch: Index
    row: Index
    column: Index
    row_limit: Index | None = None
    column_limit: Index | None = None


#: How far behind the diagonal of a lower triangle a kernel may read: a tile and a step.
BEHIND: Final = 192

Apply = Callable[[Value, At], Sequence[Value]]
Fuse = Callable[[KernelBuilder], Apply]


@dataclass(frozen=True, slots=True)
class Product:
    """A batch of matrix products: x (M, K) @ y (K, N) -> out (M, N).

    Sizes are those of the maps' axes, which agree: x's columns are y's rows.  Where x ``is_lower``,
    row i has no terms behind column i: what x has there is 0, or not read more than `BEHIND` behind
    it.
    """

    x: OperandMap
    y: OperandMap
    out: OperandMap
    is_lower: bool = False

    @property
    def batch(self) -> int:
        """The number of products."""
        return axis_size(self.out.batch)

    @property
    def m(self) -> int:
        """Rows of the result."""
        return axis_size(self.out.rows)

    @property
    def n(self) -> int:
        """Columns of the result."""
        return axis_size(self.out.columns)

    @property
    def k(self) -> int:
        """The number of terms of each sum."""
        return axis_size(self.x.columns)

    @property
    def accumulator(self) -> DType:
        """The dtype in which sums are built."""
        return accumulator_of(self.x.dtype)

    @property
    def transposed(self) -> Product:
        """The same numbers as outᵀ = yᵀ xᵀ."""
        assert not self.is_lower
        return Product(self.y.transposed, self.x.transposed, self.out.transposed)


class Parts:
    """The operands of a product inside a kernel, and what is fused onto them.

    ``outputs`` are what is written where that is not the product's own result alone.
    """

    def __init__(
        self,
        b: KernelBuilder,
        product: Product,
        *,
        epilogue: Fuse | None = None,
        outputs: Sequence[OperandMap] = (),
        aligns: bool = True,
    ) -> None:
        self.builder = b
        self.product = product
        self.accumulator = product.accumulator
        self.x = Operand(b, "x", product.x, "read", aligns=aligns)
        self.y = Operand(b, "y", product.y, "read", aligns=aligns)
        self._epilogue = epilogue(b) if epilogue else None
        self.has_outputs = bool(outputs)
        self.outs = declared_outputs(b, outputs or (product.out,), aligns=aligns)

    def zero(self, width: int) -> Value:
        """Return the empty sum."""
        return self.builder.const(0, vector(self.accumulator, width))

    def widened(self, value: Value) -> Value:
        """Return elements of an operand in the accumulator's dtype."""
        return self.builder.cast(value, self.accumulator)

    def finish(self, sum: Value, at: At) -> list[Value]:
        """Return a sum as it is stored: a value for each of ``outs``."""
        found = [sum] if self._epilogue is None else self._epilogue(sum, at)
        return rounded(found, self.outs)


def declared_outputs(
    b: KernelBuilder, maps: Sequence[OperandMap], *, aligns: bool = True
) -> list[Operand]:
    """Return what a kernel writes: the first is called out."""
    names = ["out", *(f"out{n}" for n in range(1, len(maps)))]
    return [Operand(b, n, m, "write", aligns=aligns) for n, m in zip(names, maps, strict=True)]


def rounded(values: Sequence[Value], outs: Sequence[Operand]) -> list[Value]:
    """Return values in the dtypes of the outputs that they are stored to."""
    return [x.builder.cast(x, out.map.dtype) for x, out in zip(values, outs, strict=True)]


def accumulate(x: Value, y: Value, sum: Value) -> Value:
    """Return x * y + sum, where x or y may be one for all lanes."""
    return sum.builder.fma(x, y, sum) if sum.dtype.is_float else sum + x * y


def group_number(b: KernelBuilder) -> Value:
    """Return which workgroup this is, counted along all axes of the grid, the first fastest."""
    number = b.workgroup_id(b.grid - 1)
    for axis in reversed(range(b.grid - 1)):
        number = number * b.num_workgroups(axis) + b.workgroup_id(axis)
    return number


def known(b: KernelBuilder, number: Value, count: int) -> Index:
    """Return a number that is less than ``count``: 0 if there is known to be only one."""
    return 0 if is_one(count) else number


def tile_of(
    b: KernelBuilder | None, tile: Index, rows: int, columns: int, group: int
) -> tuple[Index, Index]:
    """Return the row and column of tiles in which a tile stands.

    Tiles are counted in bands of at most ``group`` rows, down each column of a band, so that those
    which run at the same time share operands in a cache.

    >>> [tile_of(None, i, 4, 2, 2) for i in range(8)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1)]
    """
    if is_one(columns):
        return tile, 0
    if isinstance(rows, int):  # bands of equal heights spare a division
        group = max(n for n in range(1, group + 1) if rows % n == 0)
    size = times(columns, group)
    first = times(divided(tile, size), group)
    if isinstance(rows, int) and rows == group:
        return remainder(tile, group), divided(tile, group)
    inside = remainder(tile, size)
    height = group if isinstance(rows, int) else least(b, minus(rows, first), group)
    return plus(first, remainder(inside, height)), divided(inside, height)
