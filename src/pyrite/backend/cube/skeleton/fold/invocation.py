"""An invocation of a fold: what it does whichever side the elements of its vectors are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyrite.backend.cube.operand import Layout, Operand, iota, workgroup_of
from pyrite.backend.cube.skeleton.finish import Finish
from pyrite.backend.cube.skeleton.fold.config import BLOCK, ReductionConfig, units
from pyrite.backend.cube.skeleton.fold.fold import KernelFold, State
from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.fold.reduction import Reduction
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, int32


class Invocation:
    """The kernel of one fold, while it is being written: see `RowFold` and `ColumnFold`.

    Without ``ends`` it writes states, each value to a target of its own; and it joins such states,
    rather than take in elements, where it has a source for each of their values.
    """

    def __init__(
        self, fused: Fused, reduction: Reduction, config: ReductionConfig, grid: int,
        index: DType = int32,
    ) -> None:  # fmt: skip
        assert fused.body is not None
        fold: KernelFold = fused.body.of
        self.fold = fold.ending(count=reduction.count)
        self.problem, self.config = reduction.problem, config
        self.takes, self.ends = reduction.takes, reduction.ends
        b = self.b = KernelBuilder(
            fold.name, workgroup_size=config.workgroup_size, grid=grid, index=index
        )
        self.k = RecordingAlgebra(b)
        self.sources = [Operand(b, f"x{i}", of, "read") for i, of in enumerate(reduction.sources)]
        self.made = Finish(b, fused.epilogue)
        targets = fused.outputs or [Layout(target, (1,)) for target in reduction.targets]
        self.targets = [
            Operand(b, f"out{i}", _layout_of(target), "write") for i, target in enumerate(targets)
        ]

    def write(self) -> None:
        """Write it, for the unit that is this invocation's."""
        b, config = self.b, self.config
        #: How many outputs, or vectors of them, a workgroup has, and which one an invocation.
        self.slots = config.workgroup_size // config.lanes
        local = b.local_id(0)
        self.slot, self.lane = self.shared_out(local)
        self.units = units(self.problem, config)
        self.groups = -(-self.units // self.slots)
        group = workgroup_of(b)
        with b.if_(group < self.groups * config.parts):
            part, first = b.index(0), group
            if config.parts > 1:
                part, first = group // self.groups, group % self.groups
            unit = first * self.slots + self.slot
            if config.lanes > 1:
                # All lanes come to the barriers, so those beyond the last unit repeat it.
                self.fold_unit(part, b.min(unit, self.units - 1), unit < self.units)
                return
            with b.if_(unit < self.units):
                self.fold_unit(part, unit, None)

    def shared_out(self, local: Value) -> tuple[Value, Value]:
        """Return which unit of its workgroup an invocation has, and which part of it."""
        raise NotImplementedError

    def fold_unit(self, part: Value, unit: Value, exists: Value | None) -> None:
        """Fold one output, or vectors of them; the parts of a column lie in rows of outputs."""
        raise NotImplementedError

    def lane_step(self) -> int:
        """Return how far apart in a workgroup the invocations of one unit are."""
        raise NotImplementedError

    def bounds(self, part: Value) -> tuple[Value, Value]:
        """Return where a part of the reduced side begins and ends."""
        b, size, config = self.b, self.problem.size, self.config
        if config.parts == 1:
            return b.index(0), b.index(size)
        step = config.lanes * config.width * config.vectors if config.along == "rows" else 1
        per_part = -(-size // (config.parts * step)) * step
        begin = part * per_part
        return b.min(begin, size), b.min(begin + per_part, size)

    def folded(
        self,
        first: Value,
        end: Value,
        step: int,
        taken: Callable[[Value], Iterable[State]],
        levels: int,
    ) -> list[State]:
        """Return the states that take in what is at each step, block by block in levels."""
        ordered = self.config.first
        block = span_of(levels, ordered) if ordered else step * BLOCK ** (levels - 1)
        with self.b.for_(first, end, step=block, carried=self.empty()) as loop:
            more = taken(loop.index)
            if levels > 1:
                stop = self.b.min(loop.index + block, end)
                more = self.folded(loop.index, stop, step, taken, levels - 1)
            joined: list[Value] = []
            for state, other in zip(self.states(loop.carried), more, strict=True):
                joined += self.fold.join(self.k, state, other)
            loop.yield_(*joined)
        return self.states(loop.results)

    def empty(self) -> State:
        """Return the states of no elements, one after another."""
        together = self.config.vectors * self.config.abreast
        return self.fold.empty(self.b, self.config.width) * together

    def states(self, values: Sequence[Value]) -> list[State]:
        """Return the states that a loop carries."""
        size = len(self.fold.start)
        return [tuple(values[i : i + size]) for i in range(0, len(values), size)]

    def loaded(self, at: Sequence[Value | int], position: Value, mask: Value | None) -> State:
        """Return the states of neighbouring elements, or the neighbouring states, of the source."""
        width, axis = self.config.width, self.problem.axis_along(self.config)
        values = tuple(
            source.load_along(source.at(at), width, axis=axis, mask=mask, is_aligned=True)
            for source in self.sources
        )
        return self.fold.take(self.k, values[0], position) if self.takes else values

    def places(self, first: Value) -> Value:
        """Return the positions of a vector of reduced elements."""
        width = self.config.width
        return first if width == 1 else first + iota(self.b, width)

    def spread(self, x: Value) -> Value:
        width = self.config.width
        return x if width == 1 else self.b.splat(x, width)

    def across_lanes(self, state: State, width: int) -> State:
        """Join the states of a workgroup's lanes in shared memory, halves at a time."""
        b, lanes = self.b, self.config.lanes
        if lanes == 1:
            return state
        size = self.config.workgroup_size * width
        shared = [b.shared(dtype, size) for _, dtype in self.fold.start]
        step = self.lane_step() * width
        place = b.local_id(0) * width

        def put(of: State) -> None:
            for memory, x in zip(shared, of, strict=True):
                memory.store(place, x, is_aligned=True)

        def get(place: Value) -> State:
            return tuple(memory.load(place, width=width, is_aligned=True) for memory in shared)

        put(state)
        half = lanes // 2
        while half:
            b.barrier()
            with b.if_(self.lane < half):
                put(self.fold.join(self.k, get(place), get(place + half * step)))
            half //= 2
        return get(place)

    def finish(
        self, place: Value, state: State, exists: Value | None, mask: Value | None = None
    ) -> None:
        """Write a state, its end, or what is made of that; of several lanes the first does."""
        results: Sequence[Value] = self.fold.end(self.k, state) if self.ends else state

        def write() -> None:
            if self.made.stage is None:
                for target, result in zip(self.targets, results, strict=True):
                    target.store_along(place, result, mask=mask)
                return
            made = self.made(results[0], [place], mask)
            for target, result in zip(self.targets, made, strict=True):
                target.store_along(target.at([place]), result, mask=mask)

        if exists is None:
            write()
            return
        with self.b.if_(exists & (self.lane == 0)):
            write()


def _layout_of(target: object) -> Layout:
    assert isinstance(target, Layout), "what a fold writes has one axis"
    return target
