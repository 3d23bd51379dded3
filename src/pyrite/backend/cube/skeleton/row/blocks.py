"""Folds of a row in the order of columns: what is a column of the tensor lies here as a row.

In a block each element is joined to those before it (`fold/order.py`), so no two of one block are
taken in at once.  A vector has an element of each of as many blocks: their vectors are turned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.row.passes import Fetch, RowPasses
from pyrite.backend.cube.skeleton.row.vectors import JoinAll, MakeAll, Values
from pyrite.backend.cube.skeleton.turned import turned_by_chunks
from pyrite.kernel import Value

#: How many blocks are folded side by side: tiles of 16 take processors with AVX-512 a tenth longer.
MOST_TOGETHER: Final = 8


class Blocks:
    """A pass over a row that folds it block by block; see `Row.fold`.

    ``none`` is the state of nothing.
    """

    def __init__(self, row: RowPasses, none: Values, join: JoinAll, make: MakeAll) -> None:
        self.row, self.b = row, row.b
        self.none, self.join, self._make = none, join, make
        self.block, self.width = row.config.block, row.config.width
        #: What is made of a block that is folded by itself.
        self.memory = [self.b.private(x.dtype, self.block) for x in none]
        self.fetch: Fetch | None = None

    def fold(self) -> Values:
        """Return the state of all of the row."""
        row, b = self.row, self.b
        assert row.pieces == 1
        assert row.config.lanes == 1
        assert not row.config.turns
        self.fetch = row.begin_pass()
        return self.between(b.index(0), b.index(row.length), row.config.levels)

    def between(self, first: Value, end: Value, levels: int) -> Values:
        """Return the state of elements between bounds: blocks in so many loops."""
        b, join = self.b, self.join
        if levels == 1:
            return self.of_block(first, end)
        span, state = span_of(levels, self.block), self.none
        together = min(self.width, MOST_TOGETHER) if levels == 2 else 1
        while together > 1:
            step = span * together
            whole = first + (end - first) // step * step
            with b.for_(first, whole, step=step, carried=state) as loop:
                joined: Values = loop.carried
                for other in self.side_by_side(loop.index, together):
                    joined = join(joined, other)
                loop.yield_(*joined)
            first, state, together = whole, loop.results, together // 2
        with b.for_(first, end, step=span, carried=state) as loop:
            stop = b.min(loop.index + span, end)
            loop.yield_(*join(loop.carried, self.between(loop.index, stop, levels - 1)))
        return loop.results

    def of_block(self, first: Value, end: Value) -> Values:
        """Return the state of a block, whose elements are joined one by one."""
        b, row, width = self.b, self.row, self.width
        if width == 1:
            with b.for_(first, end, carried=self.none) as loop:
                loop.yield_(*self.join(loop.carried, self.made(loop.index)))
            return loop.results
        whole = first + (end - first) // width * width
        with b.for_(first, whole, step=width) as loop:
            self.put(loop.index - first, self.made(loop.index))
        with b.for_(whole, end, step=width) as last:
            self.put(last.index - first, self.wide(self._make(row.masked(last.index))))
        state = self.none
        for begin, stop, step in (
            (b.index(0), whole - first, width),
            (whole - first, end - first, 1),
        ):
            with b.for_(begin, stop, step=step, carried=state) as loop:
                joined: Values = loop.carried
                for i in range(step):
                    place = loop.index + i if i else loop.index
                    joined = self.join(joined, [memory[place] for memory in self.memory])
                loop.yield_(*joined)
            state = loop.results
        return state

    def put(self, place: Value, values: Values) -> None:
        """Put vectors of a block into memory: lanes one by one are read from there sooner."""
        for memory, x in zip(self.memory, values, strict=True):
            memory.store(place, x, is_aligned=True)

    def side_by_side(self, first: Value, count: int) -> list[Values]:
        """Return the states of so many whole blocks, each in a lane of its own.

        Vectors are made while those before them are turned and joined: a join waits for the one
        before it, and a processor does not look so far ahead for what else there is to do.
        """
        b, kinds = self.b, len(self.none)
        before = list(chain.from_iterable(self.block_vectors(first, count)))
        state: Values = [b.splat(x, count) for x in self.none]
        with b.for_(self.width, self.block, step=self.width, carried=[*state, *before]) as loop:
            state, columns = loop.carried[:kinds], self.columns(loop.carried[kinds:])
            after: list[Value] = []
            for values in self.block_vectors(first + loop.index, count):
                after += values
                for column in islice(columns, self.width // count):
                    state = self.join(state, column)
            loop.yield_(*state, *after)
        state = loop.results[:kinds]
        for column in self.columns(loop.results[kinds:]):
            state = self.join(state, column)
        return [[x[j] for x in state] for j in range(count)]

    def block_vectors(self, first: Value, count: int) -> Iterator[Values]:
        """Make the vectors at one place of so many blocks, one after the other."""
        for j in range(count):
            yield self.made(first + j * self.block if j else first)

    def columns(self, vectors: Sequence[Value]) -> Iterator[Values]:
        """Give the elements that one lane of each block has, one after the other."""
        kinds = len(self.none)
        return zip(*(turned_by_chunks(vectors[i::kinds]) for i in range(kinds)), strict=True)

    def made(self, first: Value) -> Sequence[Value]:
        """Return what is made of a vector that is all in the row."""
        if self.fetch is not None:
            self.fetch(first, 0)
        return self.wide(self._make(self.row.at(first)))

    def wide(self, values: Sequence[Value]) -> Values:
        """Return values for each element of a vector: a number of the row is made once."""
        return [x if x.width == self.width else self.b.splat(x, self.width) for x in values]
