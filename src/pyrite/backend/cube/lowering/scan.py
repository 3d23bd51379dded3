"""Scans: along each line of an axis, the fold of all elements up to each; by one scheme.

A unit walks along its line, carrying a state.  The config says who is a unit:

- with ``lanes`` = 1 an invocation, on ``width`` * ``strips`` lines at once, which are best
  neighbours in memory, ``items`` elements at a time: of one line they are joined among themselves
  before they meet the carried state, so that the next ones wait for one join only; of several that
  are no neighbours they are read and written as they lie, and turned in registers;
- with more a workgroup, on one line, tile by tile in shared memory: each lane joins ``items``
  neighbours, the lanes' totals are scanned by doubling, and both are joined to the carried state.

With ``parts`` > 1 a line is cut.  A first launch folds each part; in the second the unit of a part
begins with the fold of the parts before it.  Who joins whom is fixed by the config, so a sum has
the same bits in every run; with one part and one item at a time they are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.layout import merged
from pyrite.backend.cube.lowering.reduction import Fold, State
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    iota,
    unravel,
    workgroup_of,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Shape, TensorType, element_count

# ---- configs ----


@dataclass(frozen=True, slots=True)
class ScanConfig:
    """How the work is shared; see the head of this file."""

    workgroup_size: int
    lanes: int
    width: int
    strips: int
    items: int
    parts: int

    @property
    def step(self) -> int:
        """How many elements of a line a unit takes at once."""
        return self.lanes * self.items

    @property
    def lines(self) -> int:
        """On how many lines a unit walks."""
        return self.width * self.strips


@dataclass(frozen=True, slots=True)
class Lines:
    """What is scanned: the lines, merged to as few axes as they have, and the axis along them.

    Strides are of the source and of the target; the last of each is that of the axis.  The result
    is ``extra`` = 1 longer where it holds the state of no elements too.
    """

    shape: Shape
    size: int
    source: tuple[int, ...]
    target: tuple[int, ...]
    extra: int
    is_reverse: bool

    @property
    def count(self) -> int:
        """How many lines there are."""
        return element_count(self.shape)

    @property
    def are_neighbours(self) -> bool:
        """Whether the elements of several lines lie side by side."""
        return bool(self.shape) and self.source[-2:-1] == self.target[-2:-1] == (1,)


def lines_of(
    x: CubeTensor, target: CubeTensor, axis: int, *, has_initial: bool, is_reverse: bool
) -> Lines:
    """Return the lines of a tensor along an axis, and of the target that they are written to."""
    others = [a for a in range(len(x.shape)) if a != axis]
    (shape, source), (_, written) = merged(
        tuple(x.shape[a] for a in others),
        [tuple(t.strides[a] for a in others) for t in (x, target)],
    )
    return Lines(
        shape, x.shape[axis], (*source, x.strides[axis]), (*written, target.strides[axis]),
        int(has_initial), is_reverse,
    )  # fmt: skip


#: Parts of a line; the unit of the last one joins the states of all others.
_PARTS = (1, 4, 16, 64, 256)


def candidates(lines: Lines, states: int, machine: Machine) -> tuple[ScanConfig, ...]:
    """Return the configs that are right for lines, and a fold of so many values of state."""
    small = min(64, machine.workgroup_sizes[0])
    last = lines.shape[-1] if lines.shape else 1
    most = 8 if lines.are_neighbours else 1
    shared = [
        (size, size, 1, 1, items)
        for size in machine.workgroup_sizes
        for items in (8, 4)
        # The memory that every WebGPU device gives a workgroup is 16 KiB.
        if size >= 64 and states * size * (items + 1) * 8 <= 1 << 14
    ]
    alone = [
        (small, 1, width, strips, items)
        for width in (16, 8, 4, 2, 1)
        for strips in (8, 4, 2, 1)
        for items in ((1, 4) if strips == 1 and (width == 1 or not lines.are_neighbours) else (1,))
        if strips <= most and last % (width * strips) == 0
    ]
    return tuple(
        ScanConfig(*unit, parts)
        for unit in (*shared, *alone)
        for parts in _PARTS
        if parts == 1 or parts * unit[1] * unit[4] <= lines.size
    )


def select(lines: Lines, fold: Fold, machine: Machine) -> ScanConfig:
    """Return a config: along neighbouring lines where there are many, else along each line."""
    found = candidates(lines, len(fold.start), machine)
    if machine.kind == "cpu":
        fitting = _for_cpu(lines, fold, found, machine)
        least, busy = 1 << 14, 32
    else:
        fitting = _for_gpu(lines, found)
        least, busy = 4, 1024
    units = max(1, lines.count // fitting[0].lines)
    if fitting[0].lanes == 1 and machine.kind == "gpu":
        least, busy = 64, 16384
    # A cut line is read twice: it is not worth it where there are lines enough.
    wanted = 1 if units * 4 > busy else busy // units
    return max(
        (c for c in fitting if c.parts <= max(1, min(wanted, lines.size // (c.step * least)))),
        key=lambda c: c.parts,
    )


def _for_cpu(
    lines: Lines, fold: Fold, found: Sequence[ScanConfig], machine: Machine
) -> list[ScanConfig]:
    is_cheap = fold.name in ("sum", "prod")
    # To turn elements of several lines takes as long as a few joins, and the lines share the few
    # places of a cache that their distance allows.
    most = machine.vector
    if not lines.are_neighbours:
        most = 1 if is_cheap else max(1, most // 2)
    width = max(c.width for c in found if c.width <= most)
    # Several vectors of a row of lines are read while its page is at hand.
    strips = max(
        c.strips for c in found
        if c.width == width and (c.strips == 1 or c.lines * 4 <= lines.count)
    )  # fmt: skip
    is_turned = width > 1 and not lines.are_neighbours
    items = 4 if is_turned or (width == strips == 1 and is_cheap) else 1
    wanted = (width, strips, items)
    return [c for c in found if (c.width, c.strips, c.items) == wanted]


def _for_gpu(lines: Lines, found: Sequence[ScanConfig]) -> list[ScanConfig]:
    is_alone = lines.size < 64 or (lines.are_neighbours and lines.shape[-1] >= 64)
    best = next(
        c for c in found if (c.lanes == c.lines == c.items == 1 if is_alone else c.lanes > 1)
    )
    return [c for c in found if (c.lanes, c.lines, c.items) == (best.lanes, best.lines, best.items)]


# ---- lanes ----


def scanned_lanes(
    b: KernelBuilder,
    memories: Sequence[Memory],
    state: State,
    join: Callable[[State, State], State],
) -> None:
    """Write to memories of the workgroup, at each lane, the join of the states up to its own.

    By doubling: Hillis & Steele 1986, "Data parallel algorithms".  Begins without and ends with a
    barrier.
    """
    lanes, lane = b.workgroup_size[0], b.local_id(0)
    for memory, value in zip(memories, state, strict=True):
        memory[lane] = value
    distance = 1
    while distance < lanes:
        b.barrier()
        reaches = lane >= distance
        before = tuple(m.load(lane - distance, mask=reaches) for m in memories)
        joined = join(before, state)
        state = tuple(b.select(reaches, x, y) for x, y in zip(joined, state, strict=True))
        b.barrier()
        for memory, value in zip(memories, state, strict=True):
            memory[lane] = value
        distance *= 2
    b.barrier()


# ---- the kernel ----


class _Body:
    """The kernel of one launch, while it is being written."""

    def __init__(
        self, fold: Fold, lines: Lines, source: Layout, target: DType | None, config: ScanConfig,
        grid: int,
    ) -> None:  # fmt: skip
        self.fold, self.lines, self.config = fold, lines, config
        b = self.b = KernelBuilder(
            f"scan_{fold.name}", workgroup_size=config.workgroup_size, grid=grid
        )
        self.k = RecordingAlgebra(b)
        self.source = Operand(b, "x", source, "read")
        access = "read" if target is not None else "write"
        self.partial = [
            b.buffer(f"partial{i}", dtype, access)  # type: ignore[arg-type]  # one of two words
            for i, (_, dtype) in enumerate(fold.start if config.parts > 1 else ())
        ]
        layout = None if target is None else Layout(target, lines.target)
        self.target = None if layout is None else Operand(b, "out", layout, "write")
        if config.lanes > 1:
            sizes = (config.step, config.lanes)
            self.tile, self.totals = (
                [b.shared(dtype, size) for _, dtype in fold.start] for size in sizes
            )

    def join(self, s: State, t: State) -> State:
        return self.fold.join(self.k, s, t)

    def write(self) -> None:
        b, config = self.b, self.config
        unit = invocation_of(b) if config.lanes == 1 else workgroup_of(b)
        groups = self.lines.count // config.lines
        with b.if_(unit < groups * config.parts):
            part, first = unit // groups, (unit % groups) * config.lines
            walk = self.walk_alone if config.lanes == 1 else self.walk_together
            walk(part, first)

    def bounds(self, part: Value) -> tuple[Value, Value]:
        """Return where a part of a line begins and ends."""
        b, size, config = self.b, self.lines.size, self.config
        if config.parts == 1:
            return b.index(0), b.index(size)
        length = -(-size // (config.parts * config.step)) * config.step
        begin = b.min(part * length, size)
        return begin, b.min(begin + length, size)

    def read_at(self, line: list[Value | int], i: Value) -> Value:
        """Return where element i of a line is read, counted in the order of the scan."""
        return self.source.at([*line, self.lines.size - 1 - i if self.lines.is_reverse else i])

    def written_at(self, line: list[Value | int], i: Value | int) -> Value:
        """Return where the fold of the elements up to i of a line is written; i = -1: of none."""
        assert self.target is not None
        size, extra = self.lines.size, self.lines.extra
        return self.target.at([*line, size - 1 - i if self.lines.is_reverse else i + extra])

    def put_initial(self, line: list[Value | int], width: int) -> None:
        self.put(line, -1, self.fold.end(self.k, self.fold.empty(self.b, width)), width)

    # ---- an invocation as a unit ----

    def walk_alone(self, part: Value, first: Value) -> None:
        b, config, fold = self.b, self.config, self.fold
        width = config.width
        self.at = [
            unravel(b, first + strip * width, self.lines.shape) for strip in range(config.strips)
        ]
        empty = [fold.empty(b, width)] * config.strips
        begin, end = self.bounds(part)
        carry = empty
        if self.target is not None:
            if config.parts > 1:
                carry = self.before_alone(part, first, empty)
            if self.lines.extra:
                with b.if_(part == 0):
                    for line in self.at:
                        self.put_initial(line, width)
        stop = end - (config.items - 1) if config.items > 1 else end
        carry, reached = self.walked(begin, stop, config.items, carry)
        if config.items > 1:
            carry, _ = self.walked(reached, end, 1, carry)
        if self.target is None:
            for strip, state in enumerate(carry):
                place = part * self.lines.count + first + strip * width
                for memory, value in zip(self.partial, state, strict=True):
                    memory.store(place, value)

    def walked(
        self, begin: Value, stop: Value, items: int, carry: list[State]
    ) -> tuple[list[State], Value]:
        """Return the states after the elements from begin on, and where it ended."""
        b, width = self.b, self.config.width
        parts = len(carry[0])
        flat = [value for state in carry for value in state]
        with b.for_(begin, stop, step=items, carried=[*flat, begin]) as loop:
            states = _grouped(loop.carried[:-1], parts)
            for strip, line in enumerate(self.at):
                states[strip] = self.stepped(line, loop.index, items, width, states[strip])
            loop.yield_(*(value for state in states for value in state), loop.index + items)
        return _grouped(loop.results[:-1], parts), loop.results[-1]

    def stepped(
        self, line: list[Value | int], i: Value, items: int, width: int, carry: State
    ) -> State:
        """Take so many elements of a line, write the folds, and return the last one."""
        b, fold = self.b, self.fold
        if width > 1 and items > 1:
            return self.stepped_turned(line, i, items, width, carry)
        local: State | None = None
        joined = carry
        for number in range(items):
            position = i + number if number else i
            x = self.read(line, position, width)
            spread = position if width == 1 else b.splat(position, width)
            state = fold.take(self.k, x, spread)
            local = state if local is None else self.join(local, state)
            joined = self.join(carry, local)
            if self.target is not None:
                self.put(line, position, fold.end(self.k, joined), width)
        return joined

    def stepped_turned(
        self, line: list[Value | int], i: Value, items: int, width: int, carry: State
    ) -> State:
        """Take so many elements of several lines, which are read line by line."""
        b, fold = self.b, self.fold
        # In the order of the scan they may go backward in memory.
        order = range(items - 1, -1, -1) if self.lines.is_reverse else range(items)
        first = i + (items - 1) if self.lines.is_reverse else i
        *_, line_step, step = self.lines.source
        start = self.read_at(line, first)
        read = [
            self.source.load(_neighbours(b, start + n * line_step, items, step))
            if step != 1 else self.source.load(start + n * line_step, width=items)
            for n in range(width)
        ]  # fmt: skip
        results, state = [], carry
        for number, at in enumerate(order):
            position = b.splat(i + number, width)
            x = b.make([values[at] for values in read])
            state = self.join(state, fold.take(self.k, x, position))
            results.append(fold.end(self.k, state))
        if self.target is not None:
            *_, line_step, step = self.lines.target
            start = self.written_at(line, first)
            for n in range(width):
                turned = b.make([results[order[at]][n] for at in range(items)])
                place = start + n * line_step
                self.target.store(
                    place if step == 1 else _neighbours(b, place, items, step), turned
                )
        return state

    def read(self, line: list[Value | int], i: Value, width: int) -> Value:
        """Return element i of so many lines."""
        place = self.read_at(line, i)
        if width == 1 or self.lines.are_neighbours:
            return self.source.load(place, width=width)
        return self.source.load(place + iota(self.b, width) * self.lines.source[-2])

    def put(self, line: list[Value | int], i: Value | int, result: Value, width: int) -> None:
        """Write the fold of the elements up to i of so many lines."""
        assert self.target is not None
        place = self.written_at(line, i)
        if width > 1 and not self.lines.are_neighbours:
            place = place + iota(self.b, width) * self.lines.target[-2]
        self.target.store(place, result)

    def before_alone(self, part: Value, first: Value, empty: list[State]) -> list[State]:
        """Return the folds of the parts before this one."""
        b, width, count = self.b, self.config.width, self.lines.count
        states = len(empty[0])
        with b.for_(0, part, carried=[value for state in empty for value in state]) as loop:
            found = _grouped(loop.carried, states)
            for strip, state in enumerate(found):
                place = loop.index * count + first + strip * width
                other = tuple(m.load(place, width=width) for m in self.partial)
                found[strip] = self.join(state, other)
            loop.yield_(*(value for state in found for value in state))
        return _grouped(loop.results, states)

    # ---- a workgroup as a unit ----

    def walk_together(self, part: Value, line: Value) -> None:
        b, lane = self.b, self.b.local_id(0)
        at = unravel(b, line, self.lines.shape)
        begin, end = self.bounds(part)
        carry = self.fold.empty(b, 1)
        if self.target is not None:
            if self.config.parts > 1:
                carry = self.before_together(part, line)
            if self.lines.extra:
                with b.if_((part == 0) & (lane == 0)):
                    self.put_initial(at, 1)
        with b.for_(begin, end, step=self.config.step, carried=carry) as loop:
            loop.yield_(*self.tiled(at, loop.index, end, loop.carried))
        if self.target is None:
            with b.if_(lane == 0):
                for memory, value in zip(self.partial, loop.results, strict=True):
                    memory[part * self.lines.count + line] = value

    def tiled(self, at: list[Value | int], begin: Value, end: Value, carry: State) -> State:
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
        if self.target is not None:
            prefix = self.join(carry, self.exclusive(lane))
            for number, state in enumerate(local):
                _store(self.tile, lane * items + number, self.join(prefix, state))
            b.barrier()
            for number in range(items):
                place = lane + number * lanes
                result = self.fold.end(self.k, _load(self.tile, place))
                inside = begin + place < end
                self.target.store(self.written_at(at, begin + place), result, mask=inside)
        # The next tile is written over this one.
        b.barrier()
        return after

    def taken(self, at: list[Value | int], i: Value, end: Value) -> State:
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

    def before_together(self, part: Value, line: Value) -> State:
        """Return the fold of the parts before this one: each lane joins a few neighbours."""
        b, config, lane = self.b, self.config, self.b.local_id(0)
        empty = self.fold.empty(b, 1)
        each = -(-config.parts // config.lanes)
        state = empty
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


def _neighbours(b: KernelBuilder, first: Value, count: int, step: int) -> Value:
    """Return the places of so many elements of a line."""
    return first + iota(b, count) * step


def _grouped(flat: Sequence[Value], size: int) -> list[State]:
    return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]


def _load(memories: Sequence[Memory], place: Value) -> State:
    return tuple(memory[place] for memory in memories)


def _store(memories: Sequence[Memory], place: Value, state: State) -> None:
    for memory, value in zip(memories, state, strict=True):
        memory[place] = value


# ---- launching ----


def scan_axis(
    launcher: Launcher,
    fold: Fold,
    x: CubeTensor,
    axis: int,
    type: TensorType,
    *,
    has_initial: bool = False,
    is_reverse: bool = False,
    config: ScanConfig | None = None,
) -> CubeTensor:
    """Return the folds of all elements up to each along an axis, as a dense tensor of the type.

    ``has_initial`` puts the fold of no elements in front, ``is_reverse`` goes from the end.
    """
    target = launcher.empty(type)
    if type.size == 0:
        return target
    lines = lines_of(x, target, axis, has_initial=has_initial, is_reverse=is_reverse)
    config = config or select(lines, fold, launcher.machine)
    partial: list[Buffer] = []
    if config.parts > 1:
        shape = (config.parts, lines.count)
        partial = [launcher.empty(TensorType(shape, d)).buffer for _, d in fold.start]
        _launch(launcher, fold, x, lines, config, partial, None)
    _launch(launcher, fold, x, lines, config, partial, target)
    return target


def _launch(
    launcher: Launcher, fold: Fold, x: CubeTensor, lines: Lines, config: ScanConfig,
    partial: Sequence[Buffer], target: CubeTensor | None,
) -> None:  # fmt: skip
    units = lines.count // config.lines * config.parts
    workgroups = units if config.lanes > 1 else -(-units // config.workgroup_size)
    source = Layout(x.dtype, lines.source, x.offset != 0)
    dtype = None if target is None else target.dtype

    def build(grid: int) -> Kernel:
        body = _Body(fold, lines, source, dtype, config, grid)
        body.write()
        return body.b.build()

    launcher.launch(
        ("scan", fold.name, fold.variant, fold.start, lines, source, dtype, config), build,
        [*bindings_of(x), *partial, *(() if target is None else (target.buffer,))], workgroups,
    )  # fmt: skip
