"""One row inside a kernel: totals of it, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.backend.cube.operand import halves
from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.row.blocks import Blocks
from pyrite.backend.cube.skeleton.row.config import groups_of
from pyrite.backend.cube.skeleton.row.passes import Fetch, RowPasses
from pyrite.backend.cube.skeleton.row.vectors import (
    At,
    Join,
    JoinAll,
    Make,
    MakeAll,
    Values,
    apart,
    joined,
)
from pyrite.kernel import Value
from pyrite.kernel.ir import scalar, vector
from pyrite.types import DType, Number

Body = Callable[["Row"], None]


class Row(RowPasses):
    """One row, inside the kernel, and its totals: each takes a pass over the row."""

    def run(self, body: Body) -> None:
        """Write the body for each row of the invocation."""
        units = groups_of(self.rows, self.config)
        if self.config.is_part:
            units = units * self.segments
        if self.config.lanes > 1:
            units = -(-units // self.config.slots)
        with self.b.if_(self._group < units):
            if self.config.rows == 1:
                body(self)
            else:
                self._run_together(body)

    def _run_together(self, body: Body) -> None:
        b = self.b
        width = self.config.width
        empty = [b.const(start, vector(self.dtype, width)) for start in self._starts]

        def clear(at: At) -> None:
            for line, nothing in zip(self._lines, empty, strict=True):
                line.store(at, nothing)

        def write_sums(at: At) -> None:
            for line, store in zip(self._lines, self._partial, strict=True):
                store(at, line.load(at))

        self._each(clear)
        first = self._group * self.config.rows
        with b.for_(first, b.min(first + self.config.rows, self.rows)) as loop:
            self._row = loop.index
            body(self)
        self._row = self._group
        self._each(write_sums)

    # ---- totals ----

    def sum(self, make: Make) -> Value:
        """Return the sum of the values over the row."""
        return self._totals(1, lambda at: (make(at),), 0, lambda x, y: x + y)[0]

    def mean(self, make: Make) -> Value:
        """Return the mean of the values over the row."""
        return self.sum(make) * (1.0 / self.length)

    def largest(self, make: Make) -> Value:
        """Return the greatest of the values; NaN may go unnoticed."""
        return self._totals(1, lambda at: (make(at),), self.dtype.lowest, self.b.max)[0]

    def _totals(
        self, count: int, make: Callable[[At], Sequence[Value]], start: Number, join: Join
    ) -> list[Value]:
        def each(xs: Values, ys: Values) -> Values:
            return [join(x, y) for x, y in zip(xs, ys, strict=True)]

        return list(self.fold([(start, self.dtype)] * count, each, make))

    def fold(
        self, start: Sequence[tuple[Number, DType]], join: JoinAll, make: MakeAll, *,
        has_order: bool = True, writes: bool = False,
    ) -> Values:  # fmt: skip
        """Return a state that takes in the values which ``make`` gives of all the row.

        ``start`` has a number and a dtype for each value of the state, ``join`` joins two states.
        One that ``has_order`` has other bits in another.  ``writes`` says that ``make`` stores too.
        """
        b, config = self.b, self.config
        width, vectors = config.width, config.vectors
        empty = [b.const(number, vector(dtype, width)) for number, dtype in start]
        if config.block and has_order:
            none = [b.const(number, scalar(dtype)) for number, dtype in start]
            return Blocks(self, none, join, make).fold()
        if self._turns:
            return self._fold_turns(
                [self._made(make, at, empty) for at in self._turns], empty, join
            )
        fetch = self.begin_pass(writes=writes)

        def segment(index: Value | None) -> Values:
            bounds, ends = self._bounds(index)

            def over_piece(states: Values) -> Values:
                return self._fold_piece(list(states), empty, join, make, fetch, ends)

            states = self._over_pieces(over_piece, empty * vectors, bounds)
            return self._in_one(joined(apart(states, len(empty)), join), join)

        if config.levels and not config.is_part and not config.block:
            none = [b.const(number, scalar(dtype)) for number, dtype in start]
            end = b.index(self.segments)
            return self._over_segments(b.index(0), end, config.levels, none, join, segment)
        state = segment(self._segment)
        return state if config.lanes == 1 else self._across_lanes(state, join)

    def _fold_turns(self, turns: Sequence[Values], empty: Values, join: JoinAll) -> Values:
        """Return the state of a row whose vectors are in registers."""
        if self.config.lanes > 1:
            return self._across_lanes(self._in_one(joined(turns, join), join), join)
        # As what is left behind whole turns of all lanes.
        state = empty
        for of in turns:
            state = join(state, of)
        return self._in_one(state, join)

    def _over_segments(
        self, first: Value, end: Value, levels: int, none: Values, join: JoinAll,
        segment: Callable[[Value], Values],
    ) -> Values:  # fmt: skip
        """Return the state of segments, which are joined in their order, block by block."""
        span = span_of(levels)
        with self.b.for_(first, end, step=span, carried=none) as loop:
            if levels == 1:
                more = segment(loop.index)
            else:
                stop = self.b.min(loop.index + span, end)
                more = self._over_segments(loop.index, stop, levels - 1, none, join, segment)
            loop.yield_(*join(loop.carried, more))
        return loop.results

    def _bounds(
        self, segment: Value | None
    ) -> tuple[tuple[Value, Value] | None, tuple[Value, Value] | None]:
        """Return the first and last pieces of a segment, and where it begins and ends in a piece.

        None where that is all of them.
        """
        if segment is None:
            return None, None
        b, size = self.b, self.piece_size
        if not self.config.cuts:
            first = segment * self.together
            return (first, b.min(first + self.together, self.pieces)), None
        longest = self._longest
        per_piece = -(-size // longest)
        begin = segment if self.pieces == 1 else segment % per_piece
        begin = begin * longest
        piece = segment if self.pieces == 1 else segment // per_piece
        return (piece, piece + 1), (begin, b.min(begin + longest, size))

    def sum_pieces(
        self, count: int, make: MakeAll, take: Callable[[Values, Values], Values], carried: Values
    ) -> Values:
        """Sum each of the ``count`` values that ``make`` gives over each piece by itself.

        ``take`` gets the sums of a piece, and values that it carries on from piece to piece.  An
        invocation has the row to itself, and goes over it in loops.
        """
        assert self.config.lanes == 1
        assert not self._turns
        empty = [self.b.const(0, vector(self.dtype, self.config.width))] * count
        fetch = self.begin_pass()

        def join(xs: Values, ys: Values) -> Values:
            return [x + y for x, y in zip(xs, ys, strict=True)]

        def over_piece(before: Values) -> Values:
            first = empty * self.config.vectors
            states = self._fold_piece(first, empty, join, make, fetch)
            return take(self._in_one(joined(apart(states, count), join), join), before)

        return self._over_pieces(over_piece, carried)

    def _fold_piece(
        self, states: list[Value], empty: Values, join: JoinAll, make: MakeAll, fetch: Fetch | None,
        bounds: tuple[Value, Value] | None = None,
    ) -> Values:  # fmt: skip
        """Return states, one after another, that have taken in the vectors of a piece by turns.

        Or those between ``bounds``.
        """

        def loaded(first: Value, vector: int = 0) -> Values:
            if fetch is not None:
                fetch(first, vector)
            return make(self.at(first))

        b, size = self.b, len(empty)
        width, vectors = self.config.width, self.config.vectors
        step = self.config.lanes * width
        if self._is_one:
            of = self._made(make, self._only_vector(), empty)
            return [*join(states[:size], of), *states[size:]]
        first: Value | int = 0
        begin, end = self._first, None
        if bounds is not None:
            first, end = bounds
            begin = self._first + first
        if vectors > 1:
            first = self._whole(step * vectors) if end is None else end - end % (step * vectors)
            with b.for_(begin, first, step=step * vectors, carried=states) as loop:
                taken: list[Value] = []
                for i in range(vectors):
                    of = loaded(loop.index + i * step if i else loop.index, i)
                    taken += join(loop.carried[i * size : (i + 1) * size], of)
                loop.yield_(*taken)
            states = [*loop.results]
        whole = self._whole(width) if end is None else end - end % width
        with b.for_(self._first + first, whole, step=step, carried=states[:size]) as loop:
            loop.yield_(*join(loop.carried, loaded(loop.index)))
        states[:size] = loop.results
        if self._is_ragged:
            last = self.piece_size if end is None else end
            with b.for_(self._first + whole, last, step=step, carried=states[:size]) as rest:
                of = self._made(make, self.masked(rest.index), empty)
                rest.yield_(*join(rest.carried, of))
            states[:size] = rest.results
        return states

    def _in_one(self, state: Values, join: JoinAll) -> Values:
        """Return the state of all elements of vectors, joined as halves while there are some."""
        while state[0].width > 1:
            state = join(*halves(self.b, state))
        return state

    def _made(self, make: MakeAll, at: At, empty: Values) -> Values:
        """Return what is made of neighbours, and where there are none the start of a total."""
        if at.mask is None:
            return make(at)
        pairs = zip(make(at), empty, strict=True)
        return [self.b.select(at.mask, x, nothing) for x, nothing in pairs]

    def _across_lanes(self, state: Values, join: JoinAll) -> Values:
        """Join the states of a row's invocations in shared memory, halves at a time."""
        b, half = self.b, self.config.lanes // 2
        shared, place = (
            [b.shared(x.dtype, self.config.workgroup_size) for x in state],
            b.local_id(0),
        )

        def put(values: Values) -> None:
            for memory, x in zip(shared, values, strict=True):
                memory[place] = x

        put(state)
        while half:
            b.barrier()
            with b.if_(self._lane < half):
                put(join([m[place] for m in shared], [m[place + half] for m in shared]))
            half //= 2
        b.barrier()
        first = b.index(0) if self.config.slots == 1 else place - self._lane
        return [memory[first] for memory in shared]
