"""Tiles in the memory that a workgroup of a GPU shares, and products of them in registers.

A tile of scores has ``rows`` and ``columns``; an invocation has a few of its rows, in blocks of
four, and of each the same vectors of columns, spread so that neighbours read neighbouring vectors.
Of what is multiplied, one operand is stored with its rows along a line, as the other with its
columns: so both are read by vectors, and 4 or 8 of one serve 4 or more of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.operand import Operand, iota
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Type, vector
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import accumulate
from pyrite.types import DType

#: Elements of a vector: WGSL has no wider ones.
VECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class TileConfig:
    """A workgroup has ``rows`` x ``columns`` scores, an invocation own rows and vectors of each."""

    rows: int
    columns: int
    own_rows: int
    own_vectors: int = 1

    @property
    def across(self) -> int:
        """How many invocations share a row."""
        return self.columns // (VECTOR * self.own_vectors)

    @property
    def threads(self) -> int:
        """Invocations of a workgroup."""
        return self.rows // self.own_rows * self.across

    def vectors(self, size: int) -> int:
        """Return how many vectors of a row of that size an invocation has."""
        return pieces(size, VECTOR * self.across)

    def padded(self, size: int) -> int:
        """Return how many columns all invocations have together."""
        return self.vectors(size) * VECTOR * self.across

    def line(self, size: int) -> int:
        """Return the elements for a tile's columns: as lines of columns, and as rows."""
        return max(size * self.columns, self.columns * self.padded(size))


#: Where the rows of a tile lie in an operand, given which, and whether there is such a row.
Locate = Callable[[Value], tuple[Value, Value]]
#: Vectors of sums: own rows outermost.
Sums = list[Value]
Join = Callable[[Value, Value], Value]


class Workgroup:
    """One invocation of a workgroup, and what it shares with the others."""

    def __init__(self, b: KernelBuilder, config: TileConfig, dtype: DType) -> None:
        self.b, self.config, self.dtype = b, config, dtype
        self.local = b.local_index()
        down, across = self.local // config.across, self.local % config.across
        #: Which of those that share a row this invocation is.
        self.across = across
        spread = config.rows // (config.own_rows // VECTOR)
        #: The first of each block of four own rows, and of each further vector of columns.
        self.own_blocks = [down * VECTOR + i * spread for i in range(config.own_rows // VECTOR)]
        self.own_rows = [block + i for block in self.own_blocks for i in range(VECTOR)]
        self.first_column = across * VECTOR

    @property
    def type(self) -> Type:
        """The type of a vector."""
        return vector(self.dtype, VECTOR)

    def shared(self, size: int) -> Memory:
        """Allocate memory of the workgroup."""
        return self.b.shared(self.dtype, size)

    def zeros(self, vectors: int) -> Sums:
        """Return empty sums of so many vectors for each own row."""
        return [self.b.const(0, self.type)] * (self.config.own_rows * vectors)

    def column(self, v: int) -> Value:
        """Return the first column of a vector."""
        return self.first_column + v * VECTOR * self.config.across

    # ---- from buffers to shared memory ----

    def each(self, count: int, body: Callable[[Value], None]) -> None:
        """Run the body for all numbers below a count, which all invocations share."""
        b, threads = self.b, self.config.threads
        with b.for_(0, pieces(count, threads)) as loop:
            number = loop.index * threads + self.local
            if count % threads == 0:
                body(number)
            else:
                with b.if_(number < count):
                    body(number)
            loop.yield_()

    def fill_lines(
        self, memory: Memory, operand: Operand, locate: Locate, rows: int, size: int,
        factor: float = 1.0,
    ) -> None:  # fmt: skip
        """Copy rows of an operand, turned: element [i, d] to [d, i]; 0 where there is no row."""
        vectors = pieces(size, VECTOR)

        def copy(number: Value) -> None:
            # Neighbours have neighbouring rows, so that they write to different banks.
            row, first = number % rows, number // rows * VECTOR
            found = self._loaded(operand, locate, row, first, size, factor)
            for i in range(VECTOR):
                mask = None if size % VECTOR == 0 else first + i < size
                memory.store((first + i) * rows + row, found[i], mask=mask)

        self.each(rows * vectors, copy)

    def fill_rows(
        self, memory: Memory, operand: Operand, locate: Locate, size: int, factor: float = 1.0
    ) -> None:
        """Copy as many rows as a tile has columns; 0 where there is no row, and behind its end."""
        padded = self.config.padded(size)
        vectors = padded // VECTOR

        def copy(number: Value) -> None:
            row, first = number // vectors, number % vectors * VECTOR
            found = self._loaded(operand, locate, row, first, size, factor, ends=padded > size)
            memory.store(row * padded + first, found, is_aligned=True)

        self.each(self.config.columns * vectors, copy)

    def _loaded(
        self, operand: Operand, locate: Locate, row: Value, first: Value, size: int,
        factor: float, *, ends: bool = False,
    ) -> Value:  # fmt: skip
        place, exists = locate(row)
        mask = None
        if size % VECTOR or ends:
            mask = self.b.splat(first, VECTOR) + iota(self.b, VECTOR) < size
        found = operand.load_along(
            place + first * operand.layout.strides[-1],
            VECTOR,
            mask=mask,
            exists=exists,
            is_aligned=True,
        )
        return found if factor == 1.0 else found * factor

    # ---- products ----

    def multiply(self, sums: Sequence[Value], x: Memory, y: Memory, depth: int, width: int) -> Sums:
        """Return sums with the products of lines: x [k, rows] and y [k, width], over k < depth.

        ``width`` columns are all invocations' vectors together.
        """
        b, config = self.b, self.config
        vectors = width // (VECTOR * config.across)

        def added(k: Value, sums: Sums) -> Sums:
            left = [
                x.load(k * config.rows + block, width=VECTOR, is_aligned=True)
                for block in self.own_blocks
            ]
            right = [
                y.load(k * width + self.column(v), width=VECTOR, is_aligned=True)
                for v in range(vectors)
            ]
            return [
                accumulate(
                    b.splat(left[n // vectors // VECTOR][n // vectors % VECTOR], VECTOR),
                    right[n % vectors], sum,
                )
                for n, sum in enumerate(sums)
            ]  # fmt: skip

        whole = depth // _UNROLL * _UNROLL
        found = list(sums)
        for start, stop, step in ((0, whole, _UNROLL), (whole, depth, 1)):
            if start < stop:
                with b.for_(start, stop, step=step, carried=found) as loop:
                    inner = list(loop.carried)
                    for further in range(step):
                        inner = added(loop.index + further if further else loop.index, inner)
                    loop.yield_(*inner)
                found = list(loop.results)
        return found

    def put_turned(self, memory: Memory, values: Sequence[Value]) -> None:
        """Write a tile, own vectors of each own row, as lines of rows: [column, row]."""
        b, config = self.b, self.config
        vectors = config.own_vectors
        for n, block in enumerate(self.own_blocks):
            for v in range(vectors):
                four = [values[(n * VECTOR + i) * vectors + v] for i in range(VECTOR)]
                for i in range(VECTOR):
                    place = (self.column(v) + i) * config.rows + block
                    memory.store(place, b.make([x[i] for x in four]), is_aligned=True)

    # ---- over rows ----

    def over_rows(self, memory: Memory, own: Sequence[Value], join: Join) -> list[Value]:
        """Return of each own row what those that share it have, joined: all get the same.

        Nobody reads the memory before, and the next to write it waits for all.
        """
        across = self.config.across
        for row, value in zip(self.own_rows, own, strict=True):
            memory.store(row * across + self.across, value)
        self.b.barrier()
        found = []
        for row in self.own_rows:
            joined: Value | None = None
            for first in range(0, across, VECTOR):
                part = memory.load(row * across + first, width=VECTOR, is_aligned=True)
                joined = part if joined is None else join(joined, part)
            assert joined is not None
            found.append(over_lanes(joined, join))
        return found

    def store_rows(
        self, operand: Operand, locate: Locate, sums: Sequence[Value], size: int,
        factors: Sequence[Value | float],
    ) -> None:  # fmt: skip
        """Write own rows of sums, each times a factor, where there is such a row and column."""
        b, vectors = self.b, self.config.vectors(size)
        for i, (row, factor) in enumerate(zip(self.own_rows, factors, strict=True)):
            place, exists = locate(row)
            step = operand.layout.strides[-1]
            with b.if_(exists):
                for v in range(vectors):
                    column = self.column(v)
                    mask = None
                    if self.config.padded(size) > size:
                        mask = b.splat(column, VECTOR) + iota(b, VECTOR) < size
                    value = sums[i * vectors + v] * factor
                    operand.store_along(place + column * step, value, mask=mask, is_aligned=True)


def over_lanes(x: Value, join: Join) -> Value:
    """Return the lanes of a vector of four, joined."""
    return join(join(x[0], x[1]), join(x[2], x[3]))


#: Steps of a product that are written out at once.
_UNROLL = 4
