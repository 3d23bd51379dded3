"""A workgroup as the unit of a scan: one line, tile by tile in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import unravel, workgroup_of
from pyrite.backend.cube.skeleton.fold import KernelFold, State
from pyrite.backend.cube.skeleton.scan.config import ScanConfig
from pyrite.backend.cube.skeleton.scan.lanes import scanned_lanes
from pyrite.backend.cube.skeleton.scan.walk import Line, Walk, Walked
from pyrite.kernel import Memory, Value


class WalkTogether(Walk):
    """The kernel in which the invocations of a workgroup walk together."""

    def __init__(self, fold: KernelFold, of: Walked, config: ScanConfig, grid: int) -> None:
        super().__init__(fold, of, config, grid)
        self.tile, self.totals = (
            [self.b.shared(dtype, size) for _, dtype in self.fold.start]
            for size in (config.step, config.lanes)
        )

    def write(self) -> None:
        """Write the kernel."""
        self.share(workgroup_of(self.b), self.walk)

    def walk(self, part: Value, line: Value) -> None:
        b, lane = self.b, self.b.local_id(0)
        at = unravel(b, line, self.lines.shape)
        begin, end = self.bounds(part)
        carry = self.fold.empty(b, 1)
        if self.targets:
            if self.config.parts > 1:
                carry = self.before(part, line)
            if self.lines.extra:
                with b.if_((part == 0) & (lane == 0)):
                    self.put_initial(at, 1)
        with b.for_(begin, end, step=self.config.step, carried=carry) as loop:
            loop.yield_(*self.tiled(at, loop.index, end, loop.carried))
        if not self.targets:
            with b.if_(lane == 0):
                _store(self.partial, part * self.lines.count + line, loop.results)

    def tiled(self, at: Line, begin: Value, end: Value, carry: State) -> State:
        """Take a tile of a line, write its folds, and return the state after it."""
        b, items, lanes = self.b, self.config.items, self.config.lanes
        lane = b.local_id(0)
        for number in range(items):
            place = lane + number * lanes
            _store(self.tile, place, self.taken(at, begin + place, end))
        b.barrier()
        local = [_load(self.tile, lane * items)]
        for number in range(1, items):
            local.append(self.join(local[-1], _load(self.tile, lane * items + number)))
        scanned_lanes(b, self.totals, local[-1], self.join)
        after = self.join(carry, _load(self.totals, b.index(lanes - 1)))
        if self.targets:
            self.put_tile(at, begin, end, local, carry)
        # The next tile is written over this one.
        b.barrier()
        return after

    def put_tile(
        self, at: Line, begin: Value, end: Value, local: Sequence[State], carry: State
    ) -> None:
        """Write the results of a tile, of whose elements each lane has joined its own."""
        b, items, lanes = self.b, self.config.items, self.config.lanes
        lane = b.local_id(0)
        prefix = self.join(carry, self.exclusive(lane))
        for number, state in enumerate(local):
            _store(self.tile, lane * items + number, self.join(prefix, state))
        b.barrier()
        for number in range(items):
            place = lane + number * lanes
            results = self.ended(_load(self.tile, place))
            inside = begin + place < end
            self.store(self.written_at(at, begin + place), results, axis=-1, mask=inside)

    def taken(self, at: Line, i: Value, end: Value) -> State:
        """Return the state of one element of a line, or of none behind its end."""
        b, inside = self.b, i < end
        x = self.source.load(self.read_at(at, i), mask=inside)
        state = self.fold.take(self.k, x, i)
        empty = self.fold.empty(b, 1)
        return tuple(b.select(inside, v, e) for v, e in zip(state, empty, strict=True))

    def exclusive(self, lane: Value) -> State:
        """Return the join of the totals of the lanes before this one."""
        b, is_first = self.b, lane == 0
        empty = self.fold.empty(b, 1)
        return tuple(
            b.select(is_first, e, memory.load(lane - 1, mask=~is_first))
            for memory, e in zip(self.totals, empty, strict=True)
        )

    def before(self, part: Value, line: Value) -> State:
        """Return the fold of the parts before this one: each lane joins a few neighbours."""
        b, config, lane = self.b, self.config, self.b.local_id(0)
        state = self.fold.empty(b, 1)
        each = -(-config.parts // config.lanes)
        for number in range(each):
            other = lane * each + number
            is_before = other < part
            place = other * self.lines.count + line
            found = tuple(m.load(place, mask=is_before) for m in self.partial)
            joined = self.join(state, found)
            state = tuple(b.select(is_before, v, s) for v, s in zip(joined, state, strict=True))
        scanned_lanes(b, self.totals, state, self.join)
        carry = _load(self.totals, b.index(config.lanes - 1))
        b.barrier()
        return carry


def _load(memories: Sequence[Memory], place: Value) -> State:
    return tuple(memory[place] for memory in memories)


def _store(memories: Sequence[Memory], place: Value, state: Sequence[Value]) -> None:
    for memory, value in zip(memories, state, strict=True):
        memory[place] = value
