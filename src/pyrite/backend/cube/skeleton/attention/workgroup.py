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
from pyrite.kernel.extent import varying
from pyrite.kernel.ir import Type, vector
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import accumulate
from pyrite.types import DType

#: Elements of a vector: WGSL has no wider ones.
VECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class TileConfig:
    """A workgroup has ``rows`` x ``columns`` scores, an invocation own rows and vectors of each.

    Operands of scores come to shared memory ``depth`` elements of a head at a time.  So many steps
    of a product, a multiple of four, are written out at once.
    """

    rows: int = varying()
    columns: int = varying()
    own_rows: int = varying()
    own_vectors: int = varying(default=1)
    unroll: int = varying(default=8)
    depth: int = varying(default=32)

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

    @property
    def lines(self) -> int:
        """How many columns of scores one vector of each invocation has."""
        return VECTOR * self.across

    @property
    def left(self) -> int:
        """Elements of a slab of rows: some of a head, or their scores with some columns."""
        return self.rows * max(self.depth, self.lines)

    def right(self, size: int) -> int:
        """Return the elements of a slab of columns, turned, or as rows of that size."""
        return max(self.depth * self.columns, self.lines * self.padded(size))

    def slabs(self, size: int) -> list[Slab]:
        """Return where the slabs of a head begin, and how many elements each has."""
        return [(first, min(self.depth, size - first)) for first in range(0, size, self.depth)]


#: The first of some elements or columns, and how many there are.
Slab = tuple[int, int]
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
        #: The numbers of own blocks of four rows.
        self.own_blocks = [down + i * spread // VECTOR for i in range(config.own_rows // VECTOR)]
        self.own_rows = [block * VECTOR + i for block in self.own_blocks for i in range(VECTOR)]
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

    def turn(self, vector: Value, of: Value) -> Value:
        """Return where a vector of a turned tile's line lies in it, by the number of four lines.

        So those that are written at once, along a line and down the lines, are in different banks.
        """
        groups = min(self.config.rows, self.config.columns) // VECTOR
        return vector ^ (of % groups)

    def lines(
        self, memory: Memory, operand: Operand, locate: Locate, rows: int, slab: Slab,
        factor: float = 1.0,
    ) -> Copy:  # fmt: skip
        """Return the copy of a slab of rows of an operand, turned: [i, first + d] to [d, i].

        It is 0 where there is no row.
        """
        begin, size = slab
        vectors = pieces(size, VECTOR)
        near = next(n for n in (8, 4, 2, 1) if vectors % n == 0)

        def load(row: Value, number: Value) -> Value:
            return self._loaded(operand, locate, row, number * VECTOR, size, factor, begin=begin)

        def store(row: Value, number: Value, found: Value) -> None:
            vector = self.turn(row // VECTOR, number)
            for i in range(VECTOR):
                element = number * VECTOR + i
                mask = None if size % VECTOR == 0 else element < size
                start = element * rows + vector * VECTOR
                memory.store(start + row % VECTOR, found[i], mask=mask)

        return Copy(self, vectors, rows, near, load, store)

    def rows(self, memory: Memory, operand: Operand, locate: Locate, size: int) -> Copy:
        """Return the copy of the rows of a slab of columns.

        It is 0 where there is no row, and behind its end.
        """
        padded = self.config.padded(size)

        def load(row: Value, number: Value) -> Value:
            return self._loaded(operand, locate, row, number * VECTOR, size, ends=padded > size)

        def store(row: Value, number: Value, found: Value) -> None:
            memory.store(row * padded + number * VECTOR, found, is_aligned=True)

        vectors = padded // VECTOR
        return Copy(self, vectors, self.config.lines, vectors, load, store)

    def _loaded(
        self, operand: Operand, locate: Locate, row: Value, first: Value, size: int,
        factor: float = 1.0, *, begin: int = 0, ends: bool = False,
    ) -> Value:  # fmt: skip
        place, exists = locate(row)
        mask = None
        if size % VECTOR or ends:
            mask = self.b.splat(first, VECTOR) + iota(self.b, VECTOR) < size
        # A place is that of some row, so what is there can be read before it is asked for.
        first = first + begin if begin else first
        place = place + first * operand.layout.strides[-1]
        found = operand.load_along(place, VECTOR, mask=mask, is_aligned=True)
        found = self.b.select(self.b.splat(exists, VECTOR), found, 0)
        return found if factor == 1.0 else found * factor

    # ---- products ----

    def multiply(
        self, sums: Sequence[Value], x: Memory, y: Memory, depth: int, width: int,
        *, is_turned: bool = False,
    ) -> Sums:  # fmt: skip
        """Return sums with the products of lines: x [k, rows] and y [k, width], over k < depth.

        ``width`` columns are all invocations' vectors together.  Both are turned, or x alone.
        """
        b, config = self.b, self.config
        vectors = width // (VECTOR * config.across)

        def added(first: Value, further: int, sums: Sums) -> Sums:
            k = first + further if further else first
            four = (first + further // VECTOR * VECTOR) // VECTOR
            left = [
                x.load(
                    k * config.rows + self.turn(block, four) * VECTOR,
                    width=VECTOR, is_aligned=True,
                )
                for block in self.own_blocks
            ]  # fmt: skip
            columns = [self.across + v * config.across for v in range(vectors)]
            if is_turned:
                columns = [self.turn(column, four) for column in columns]
            right = [
                y.load(k * width + column * VECTOR, width=VECTOR, is_aligned=True)
                for column in columns
            ]
            return [
                accumulate(
                    b.splat(left[n // vectors // VECTOR][n // vectors % VECTOR], VECTOR),
                    right[n % vectors], sum,
                )
                for n, sum in enumerate(sums)
            ]  # fmt: skip

        unroll = config.unroll
        whole = depth // unroll * unroll
        found = list(sums)
        for start, stop, step in ((0, whole, unroll), (whole, depth, depth - whole)):
            if start < stop:
                with b.for_(start, stop, step=step, carried=found) as loop:
                    inner = list(loop.carried)
                    for further in range(step):
                        inner = added(loop.index, further, inner)
                    loop.yield_(*inner)
                found = list(loop.results)
        return found

    def put_turned(self, memory: Memory, values: Sequence[Value], v: int = 0) -> None:
        """Write a slab, vector ``v`` of each own row, as lines of rows: [column, row]."""
        b, config = self.b, self.config
        vectors = config.own_vectors
        for n, block in enumerate(self.own_blocks):
            four = [values[(n * VECTOR + i) * vectors + v] for i in range(VECTOR)]
            turned = self.turn(block, self.across) * VECTOR
            for i in range(VECTOR):
                place = (self.across * VECTOR + i) * config.rows + turned
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


class Copy:
    """Vectors of rows on their way from a buffer to shared memory; all invocations share the work.

    ``near`` invocations have vectors of one row.  What is fetched early is in registers until it is
    put, so that nobody waits for it; many vectors are fetched as they are put.
    """

    def __init__(
        self, group: Workgroup, vectors: int, rows: int, near: int,
        load: Callable[[Value, Value], Value], store: Callable[[Value, Value, Value], None],
    ) -> None:  # fmt: skip
        self.group, self.near, self.rows = group, near, rows
        self.load, self.store = load, store
        self.threads = group.config.threads
        self.count = rows * vectors
        #: Vectors of each invocation; some have one more.
        self.whole = self.count // self.threads
        #: Of these, how many are fetched early: none where they are too many for registers.
        self.early = self.whole if self.whole <= _EARLY else 0

    def place(self, n: int) -> tuple[Value, Value]:
        """Return the row and the number of an invocation's vector."""
        local, near, threads = self.group.local, self.near, self.threads
        steps = self.rows * near
        if threads % near == 0 and steps % threads == 0:
            row, further = n * threads % steps // near, n * threads // steps * near
            first, number = local // near, local % near
            return first + row if row else first, number + further if further else number
        at = local + n * threads if n else local
        return at // near % self.rows, at % near + at // steps * near

    def fetch(self) -> list[Value]:
        """Load an invocation's vectors that are fetched early."""
        return self._loaded(0, self.early)

    def put(self, fetched: Sequence[Value]) -> None:
        """Store what was fetched, or load it now."""
        if not fetched:
            for first in range(0, self.whole, _EARLY):
                last = min(first + _EARLY, self.whole)
                self._stored(first, self._loaded(first, last))
        else:
            self._stored(0, fetched)
        if self.count % self.threads:
            b = self.group.b
            with b.if_(self.group.local + self.whole * self.threads < self.count):
                self._stored(self.whole, self._loaded(self.whole, self.whole + 1))

    def _loaded(self, first: int, last: int) -> list[Value]:
        return [self.load(*self.place(n)) for n in range(first, last)]

    def _stored(self, first: int, values: Sequence[Value]) -> None:
        for n, value in enumerate(values, first):
            self.store(*self.place(n), value)


def fetched_of(copies: Sequence[Copy]) -> list[Value]:
    """Return what is fetched of copies that are put together."""
    return [x for copy in copies for x in copy.fetch()]


def put(copies: Sequence[Copy], fetched: Sequence[Value]) -> None:
    """Store what was fetched of copies."""
    rest = list(fetched)
    for copy in copies:
        copy.put(rest[: copy.early])
        rest = rest[copy.early :]


def over_lanes(x: Value, join: Join) -> Value:
    """Return the lanes of a vector of four, joined."""
    return join(join(x[0], x[1]), join(x[2], x[3]))


#: Vectors of a copy that an invocation has in registers.
_EARLY = 8
