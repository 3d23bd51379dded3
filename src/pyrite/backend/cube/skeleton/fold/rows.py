"""Folds of which neighbouring elements of an output are a vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyrite.backend.cube.operand import halves, unravel
from pyrite.backend.cube.skeleton.fold.fold import State
from pyrite.backend.cube.skeleton.fold.invocation import Invocation
from pyrite.kernel import Value


class RowFold(Invocation):
    """An invocation folds an output, or several abreast."""

    def shared_out(self, local: Value) -> tuple[Value, Value]:
        """Return which unit of its workgroup an invocation has, and which part of it."""
        return local // self.config.lanes, local % self.config.lanes

    def lane_step(self) -> int:
        """Return how far apart in a workgroup the invocations of one unit are."""
        return 1

    def fold_unit(self, part: Value, unit: Value, exists: Value | None) -> None:
        """Fold one output, or those that go abreast."""
        if self.config.abreast > 1:
            self.fold_rows(unit)
            return
        state = self.across_lanes(self.across_width(self.row(part, unit)), 1)
        self.finish(unit * self.config.parts + part, state, exists)

    def fold_rows(self, unit: Value) -> None:
        """Fold several rows at once, behind the last row that one again, which is not written."""
        b, abreast = self.b, self.config.abreast
        first, last = unit * abreast, self.problem.count - 1
        rows = [b.min(first + i if i else first, last) for i in range(abreast)]
        for i, state in enumerate(self.rows(b.index(0), rows)):
            exists = first + i <= last if i else None
            self.finish(rows[i], self.across_width(state), exists)

    def row(self, part: Value, output: Value) -> State:
        """Return the state of a part of a row."""
        return self.rows(part, [output])[0]

    def rows(self, part: Value, outputs: Sequence[Value]) -> list[State]:
        """Return the states of a part of each of some rows."""
        b, width, lanes, vectors = self.b, self.config.width, self.config.lanes, self.config.vectors
        begin, end = self.bounds(part)
        outers = [unravel(b, output, self.problem.outputs) for output in outputs]
        first = begin if lanes == 1 else begin + self.lane * width
        step, size = lanes * width, self.problem.size
        # What is left behind whole steps is taken in by a second loop, vectors that end beyond the
        # row by a third, masked one of at most one turn.
        is_whole = size % width == 0
        is_even = vectors == 1 or size % (step * vectors * self.config.parts) == 0
        whole = end if is_whole else end - (width - 1)
        stop = whole if is_even else end - (step * vectors - 1)

        def vectors_at(index: Value) -> Iterator[State]:
            for outer in outers:
                for i in range(vectors):
                    yield self.taken(outer, index + i * step if i else index, None)

        states = self.folded(first, stop, step * vectors, vectors_at, self.config.levels)
        parts = [states[i : i + vectors] for i in range(0, len(states), vectors)]
        ended = []
        for outer, row in zip(outers, map(self.joined, parts), strict=True):
            state = row
            if not is_even:
                taken_in = (end - first) // (step * vectors) * (step * vectors)
                state = self.rest(outer, first + taken_in, whole, state)
            ended.append(state if is_whole else self.tail(outer, first, end, state))
        return ended

    def tail(self, outer: list[Value | int], first: Value, end: Value, state: State) -> State:
        """Return a state that takes in a vector which ends beyond the row."""
        b, width = self.b, self.config.width
        step = self.config.lanes * width
        tail = end - end % width
        is_mine = (tail >= first) & ((tail - first) % step == 0)
        start = b.select(is_mine, tail, end)
        with b.for_(start, end, step=step, carried=state) as last:
            mask = self.places(last.index) < self.spread(end)
            taken = self.taken(outer, last.index, mask)
            empty = self.fold.empty(b, width)
            masked = tuple(b.select(mask, x, y) for x, y in zip(taken, empty, strict=True))
            last.yield_(*self.fold.join(self.k, last.carried, masked))
        return last.results

    def rest(self, outer: list[Value | int], begin: Value, stop: Value, state: State) -> State:
        """Return a state that takes in the whole vectors from begin on, one by one."""
        with self.b.for_(begin, stop, step=self.config.width, carried=state) as loop:
            taken = self.taken(outer, loop.index, None)
            loop.yield_(*self.fold.join(self.k, loop.carried, taken))
        return loop.results

    def taken(self, outer: list[Value | int], index: Value, mask: Value | None) -> State:
        inner = unravel(self.b, index, self.problem.reduced)
        return self.loaded([*outer, *inner], self.places(index), mask)

    def across_width(self, state: State) -> State:
        """Join the elements of the vectors."""
        while state[0].width > 1:
            low, high = halves(self.b, state)
            state = self.fold.join(self.k, tuple(low), tuple(high))
        return state

    def joined(self, states: list[State]) -> State:
        """Join states, halves at a time."""
        while len(states) > 1:
            half = len(states) // 2
            pairs = zip(states[:half], states[half:], strict=True)
            states = [self.fold.join(self.k, s, t) for s, t in pairs]
        return states[0]
