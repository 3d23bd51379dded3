"""Kernels that go over rows several times: totals of a row first, then what depends on them.

    row = Row("share", rows, length, [of_x], [of_out], [], config, grid)
    (x,), (out,) = row.sources, row.targets

    def body(row: Row) -> None:
        total = row.sum(x)
        row.write(lambda at: out(at, x(at) / row.spread(total, at)))

    row.run(body)

A row is read from memory once and found in a cache after that.  On a CPU an invocation has a row to
itself, on a GPU a workgroup shares one and joins its totals in shared memory.  Who joins whom is
fixed by the config, so a result has the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    halves,
    invocation_of,
    iota,
    layout_of,
    workgroup_of,
)
from pyrite.backend.cube.skeleton.elementwise import contiguous
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import WIDTHS, vector
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Number, Shape, element_count

# ---- configs ----

#: The most bytes of a row's values that an invocation keeps: they and the row fit in a first cache.
MOST_KEPT = 1 << 15

#: How many vectors of a row an invocation may keep in registers.  On a CPU rows of 50 take 0.94 of
#: the time that they take by a loop over private memory.
MOST_TURNS = {"cpu": 4, "gpu": 8}


@dataclass(frozen=True, slots=True)
class RowsConfig:
    """``lanes`` invocations share a row, ``width`` neighbours together.

    Where several do, a workgroup has as many rows as it has times so many invocations.
    Totals are taken of ``vectors`` at a time, each into one of its own.  ``keeps`` says whether
    values that are wanted twice are kept in private memory, rather than made again, and the next
    row is fetched while this one is worked on; with ``turns``, the most vectors that a lane has of
    a row, what is read is kept too, in registers, and loops are written out.  An invocation takes
    ``rows`` one after another, and adds up what is wanted summed over all of them.
    """

    workgroup_size: int
    lanes: int
    width: int
    vectors: int
    keeps: bool
    rows: int = 1
    turns: int = 0

    @property
    def slots(self) -> int:
        """How many rows a workgroup has, the rows of an invocation counted as one."""
        return self.workgroup_size // self.lanes


#: How many invocations may share a short row, of which a workgroup has several.
LANES = (4, 8, 16, 32)


def candidates(
    length: int, dtype: DType, machine: Machine, *, adds: bool = False
) -> tuple[RowsConfig, ...]:
    """Return the configs for rows of so many elements, computed in a dtype.

    ``adds`` says that something is summed over the rows.
    """
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    shared = [(s, s) for s in sizes if s >= 64]
    shared += [(small, lanes) for lanes in LANES if lanes < small]
    fits = machine.kind == "cpu" and length * dtype.itemsize <= MOST_KEPT
    most = MOST_TURNS[machine.kind]

    def ways(lanes: int, width: int, vectors: int) -> list[tuple[bool, int]]:
        """Return what may be kept, and in how many registers."""
        found = [(False, 0)]
        turns = turns_of(length, lanes * width)
        if lanes == 1:
            found += [(True, 0)] * fits
            found += [(True, turns)] * (fits and turns <= most and vectors == 1)
        elif turns <= most and length % width == 0 and vectors == 1:
            found.append((True, turns))
        return found

    return tuple(
        RowsConfig(size, lanes, width, vectors, keeps, rows, turns)
        for size, lanes in [(small, 1), *shared]
        for width in WIDTHS
        for vectors in (1, 4)
        for keeps, turns in ways(lanes, width, vectors)
        for rows in ((1, 32) if adds and fits and lanes == 1 else (1,))
    )


def turns_of(length: int, step: int) -> int:
    """Return how many vectors of a row a lane has at most, if all lanes have a step at a time."""
    return 1 << (-(-length // step) - 1).bit_length()


def select(length: int, dtype: DType, machine: Machine, *, adds: bool = False) -> RowsConfig:
    """Return a config: vectors no wider than a row on a CPU; on a GPU four or so for each lane.

    On an H200 two to eight vectors a lane are as fast as a copy, and one less so.
    """
    found = candidates(length, dtype, machine, adds=adds)
    widths = [w for w in WIDTHS if w <= machine.vector]
    if machine.kind == "cpu":
        lanes, width = 1, next((w for w in widths if w >= length), widths[-1])
    else:
        width = max(w for w in widths if length % w == 0)
        vectors = length // width
        most = max(vectors // 4, min(vectors, 4), min(vectors // 2, 8))
        lanes = max(c.lanes for c in found if c.lanes <= most)
    return best([c for c in found if c.lanes == lanes and c.width == width])


def select_in_pieces(
    pieces: int, size: int, dtype: DType, machine: Machine, *, adds: bool = False
) -> RowsConfig:
    """Return a config for rows of so many pieces of a size, which a CPU goes over one by one."""
    widths = [w for w in WIDTHS if w <= machine.vector]
    width = next((w for w in widths if w >= size), widths[-1])
    found = candidates(pieces * padded(size, width), dtype, machine, adds=adds)
    vectors = 4 if size >= 4 * width else 1
    return best(
        [c for c in found if (c.lanes, c.width, c.vectors, c.turns) == (1, width, vectors, 0)]
    )


def best(found: Sequence[RowsConfig]) -> RowsConfig:
    """Return the one of configs of the same lanes and widths that keeps the most."""
    return max(found, key=lambda c: (c.keeps, c.turns, c.vectors, c.rows))


# ---- inside a kernel ----


@dataclass(frozen=True, slots=True)
class At:
    """Neighbours in a row: the place of the first, how many, and which exist, None for all.

    The mask is one for each, or one for all of them together.  Of a row in pieces ``piece`` says
    which one they are in, and the first is counted from where that begins.
    """

    first: Value
    width: int
    mask: Value | None = None
    piece: Value | None = None


Make = Callable[[At], Value]
Store = Callable[[At, Value], None]
Join = Callable[[Value, Value], Value]
Body = Callable[["Row"], None]
Values = Sequence[Value]
MakeAll = Callable[[At], Values]
JoinAll = Callable[[Values, Values], Values]


class Row:
    """One row, inside the kernel.

    ``sources`` are read and ``targets`` written by `At`; to ``sums`` values are added, and what is
    added in all rows of an invocation is written at the end.  A row of several equal ``pieces``
    that an invocation has to itself is gone over piece by piece, each with a masked end of its own:
    so no place is divided by a size.
    """

    def __init__(
        self, name: str, rows: int, length: int, sources: Sequence[Layout],
        targets: Sequence[Layout], sums: Sequence[Layout], config: RowsConfig, grid: int,
        dtype: DType | None = None, pieces: int = 1,
    ) -> None:  # fmt: skip
        assert pieces == 1 or (config.lanes == 1 and not config.turns)
        b = self.b = KernelBuilder(name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        self.dtype = dtype or sources[0].dtype.compute
        self.rows, self.length, self.config = rows, length, config
        self.pieces, self.piece_size = pieces, length if pieces == 1 else length // pieces
        #: The piece that is gone over.
        self._piece: Value | None = None
        read = self.read = [Operand(b, f"x{i}", layout, "read") for i, layout in enumerate(sources)]
        written = self.written = [
            Operand(b, f"out{i}", layout, "write") for i, layout in enumerate(targets)
        ]
        added = [Operand(b, f"sum{i}", layout, "write") for i, layout in enumerate(sums)]
        self._group = invocation_of(b) if config.lanes == 1 else workgroup_of(b)
        self._row = self._group
        #: Whether the row is one, where not all of a workgroup's are.
        self._exists: Value | None = None
        self._lane = b.index(0) if config.lanes == 1 else b.local_id(0)
        if config.lanes > 1 and config.slots > 1:
            self._share_workgroup()
        self._first = self._lane if config.lanes == 1 else self._lane * config.width
        #: Whether a vector may end beyond the row.  On a GPU that is another kernel; on a CPU a
        #: masked loop of no turn costs nothing, and rows of all lengths have one kernel.
        self._is_ragged = config.width > 1 and (config.lanes == 1 or bool(length % config.width))
        #: Whether a piece is one vector, maybe with a masked end: those take no loops.
        self._is_one = pieces > 1 and self.piece_size <= config.width
        #: The vectors of this lane, where they are few and kept in registers.
        self._turns = self._vectors_of_lane() if config.turns else []
        self.sources = [self._reader(operand) for operand in read]
        #: Of which the second time that the row is gone over fetches the next row.
        self._fetched = [x for x in read if len(x.layout.strides) > 1]
        self._times = 0
        self.targets = [self._writer(operand) for operand in written]
        self._partial = [self._writer(operand) for operand in added]
        self._lines = [] if config.rows == 1 else [Line(self) for _ in added]
        self._starts: list[Number] = [0] * len(self._lines)
        self.sums = [line.add for line in self._lines] or self._partial

    def _share_workgroup(self) -> None:
        """Take a row of several that a workgroup has.

        All lanes come to the barriers, so those beyond the last row repeat it.
        """
        b, slots, lanes = self.b, self.config.slots, self.config.lanes
        local = b.local_id(0)
        row = self._group * slots + local // lanes
        self._lane = local % lanes
        self._row, self._exists = b.min(row, self.rows - 1), row < self.rows

    def run(self, body: Body) -> None:
        """Write the body for each row of the invocation."""
        units = groups_of(self.rows, self.config)
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

    def _vectors_of_lane(self) -> list[At]:
        """Return the vectors of a lane, of which some lanes lack the last ones."""
        turns, lanes = self.config.turns, self.config.lanes
        step = lanes * self.config.width
        # Guards: the first vectors, without masks, are in the row, and it has no more than these.
        assert self.length <= turns * step
        assert turns == 1 or self.length > turns // 2 * step
        is_full = lanes > 1 and self.length == turns * step
        found = []
        for turn in range(turns):
            first = self._first + turn * step if turn else self._first
            is_whole = is_full or turn < turns // 2
            found.append(self._at(first) if is_whole else self._masked(first))
        return found

    def _at(self, first: Value) -> At:
        """Return neighbours that are all in the row."""
        return At(first, self.config.width, None, self._piece)

    def _masked(self, first: Value) -> At:
        """Return neighbours of which some may lie beyond the row."""
        if not self._is_ragged:
            return At(first, self.config.width, first < self.piece_size, self._piece)
        b, width = self.b, self.config.width
        mask = b.splat(first, width) + iota(b, width) < self.piece_size
        return At(first, width, mask, self._piece)

    def _only_vector(self) -> At:
        """Return the vector that a piece is."""
        first = self.b.index(0)
        is_whole = self.piece_size == self.config.width
        return self._at(first) if is_whole else self._masked(first)

    def position(self, at: At) -> Value:
        """Return which element of the row the first of neighbours is."""
        return at.first if at.piece is None else at.piece * self.piece_size + at.first

    def _reader(self, operand: Operand) -> Make:
        def load(at: At) -> Value:
            return self._load(operand, at)

        return self._remembered(load) if self._turns else load

    def _load(self, operand: Operand, at: At) -> Value:
        place = self._place(operand, at)
        return operand.load_along(place, at.width, mask=at.mask, is_aligned=True)

    @staticmethod
    def _remembered(make: Make) -> Make:
        """Return the same, made once for each vector of this lane."""
        made: dict[int, Value] = {}

        def once(at: At) -> Value:
            # By identity: the vectors are those of `_turns`.
            if id(at) not in made:
                made[id(at)] = make(at)
            return made[id(at)]

        return once

    def _writer(self, operand: Operand) -> Store:
        def store(at: At, value: Value) -> None:
            if self._exists is None:
                put(at, value)
                return
            with self.b.if_(self._exists):
                put(at, value)

        def put(at: At, value: Value) -> None:
            operand.store_along(self._place(operand, at), value, mask=at.mask, is_aligned=True)

        return store

    def _place(self, operand: Operand, at: At) -> Value:
        """Return where neighbours lie; a tensor of one axis is the same for every row."""
        is_vector = len(operand.layout.strides) == 1
        return operand.at([at.first] if is_vector else [self._row, at.first])

    def _begin(self) -> bool:
        """Count the times that the row is gone over; return whether the next is to be fetched."""
        self._times += 1
        return self._times == 2 and self.config.keeps and self.config.lanes == 1

    def _fetch(self, first: Value) -> None:
        """Ask for vectors of the next row: the memory has nothing to do while one is computed."""
        row, self._row = self._row, self._row + 1
        for x in self._fetched:
            x.prefetch(self._place(x, self._at(first)))
        self._row = row

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

    def fold(self, start: Sequence[tuple[Number, DType]], join: JoinAll, make: MakeAll) -> Values:
        """Return a state that takes in the values which ``make`` gives of all the row.

        ``start`` has a number and a dtype for each value of the state, ``join`` joins two states.
        """
        b, config = self.b, self.config
        width, vectors = config.width, config.vectors
        empty = [b.const(number, vector(dtype, width)) for number, dtype in start]
        if self._turns:
            state = joined([self._made(make, at, empty) for at in self._turns], join)
            return self._across_lanes(self._in_one(state, join), join)
        fetches = self._begin()

        def over_piece(states: Values) -> Values:
            return self._fold_piece(list(states), empty, join, make, fetches)

        states, size = self._over_pieces(over_piece, empty * vectors), len(empty)
        state = self._in_one(joined(apart(states, size), join), join)
        return state if config.lanes == 1 else self._across_lanes(state, join)

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
        fetches = self._begin()

        def join(xs: Values, ys: Values) -> Values:
            return [x + y for x, y in zip(xs, ys, strict=True)]

        def over_piece(before: Values) -> Values:
            first = empty * self.config.vectors
            states = self._fold_piece(first, empty, join, make, fetches)
            return take(self._in_one(joined(apart(states, count), join), join), before)

        return self._over_pieces(over_piece, carried)

    def _over_pieces(self, body: Callable[[Values], Values], carried: Values = ()) -> Values:
        """Run a body for each piece of the row, which carries values on."""
        if self.pieces == 1:
            self._begin_piece()
            return body(carried)
        with self.b.for_(0, self.pieces, carried=carried) as loop:
            self._piece = loop.index
            self._begin_piece()
            loop.yield_(*body(loop.carried))
        self._piece = None
        return loop.results

    def _begin_piece(self) -> None:
        """Make what all vectors of a piece share, before the loops over it."""

    def _fold_piece(
        self, states: list[Value], empty: Values, join: JoinAll, make: MakeAll, fetches: bool
    ) -> Values:
        """Return states, one after another, that have taken in the vectors of a piece by turns."""

        def loaded(first: Value) -> Values:
            if fetches:
                self._fetch(first)
            return make(self._at(first))

        b, size = self.b, len(empty)
        width, vectors = self.config.width, self.config.vectors
        step = self.config.lanes * width
        if self._is_one:
            of = self._made(make, self._only_vector(), empty)
            return [*join(states[:size], of), *states[size:]]
        first: Value | int = 0
        if vectors > 1:
            first = self._whole(step * vectors)
            with b.for_(self._first, first, step=step * vectors, carried=states) as loop:
                taken: list[Value] = []
                for i in range(vectors):
                    of = loaded(loop.index + i * step if i else loop.index)
                    taken += join(loop.carried[i * size : (i + 1) * size], of)
                loop.yield_(*taken)
            states = [*loop.results]
        whole = self._whole(width)
        with b.for_(self._first + first, whole, step=step, carried=states[:size]) as loop:
            loop.yield_(*join(loop.carried, loaded(loop.index)))
        states[:size] = loop.results
        if self._is_ragged:
            with b.for_(
                self._first + whole, self.piece_size, step=step, carried=states[:size]
            ) as rest:
                of = self._made(make, self._masked(rest.index), empty)
                rest.yield_(*join(rest.carried, of))
            states[:size] = rest.results
        return states

    def _in_one(self, state: Values, join: JoinAll) -> Values:
        """Return the state of all elements of vectors, joined as halves while there are some."""
        while state[0].width > 1:
            state = join(*halves(self.b, state))
        return state

    def _whole(self, step: int) -> Value:
        """Return how many elements of a piece are in whole steps."""
        return self.b.index(self.piece_size - self.piece_size % step)

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

    # ---- elements ----

    def write(self, body: Callable[[At], None]) -> None:
        """Run a body that stores, for each of the row's vectors."""
        self._each(body, fetches=self._begin())

    def _each(self, body: Callable[[At], None], *, fetches: bool = False) -> None:
        for at in self._turns:
            body(at)
        if self._turns:
            return

        def over_piece(_: Values) -> Values:
            self._write_piece(body, fetches)
            return ()

        self._over_pieces(over_piece)

    def _write_piece(self, body: Callable[[At], None], fetches: bool) -> None:
        if self._is_one:
            body(self._only_vector())
            return
        b, width = self.b, self.config.width
        step, whole = self.config.lanes * width, self._whole(width)
        with b.for_(self._first, whole, step=step) as loop:
            if fetches:
                self._fetch(loop.index)
            body(self._at(loop.index))
        if self._is_ragged:
            with b.for_(whole + self._first, self.piece_size, step=step) as rest:
                body(self._masked(rest.index))

    def spread(self, x: Value, at: At) -> Value:
        """Return a number of the row as often as there are neighbours."""
        return x if at.width == 1 else self.b.splat(x, at.width)

    def kept(self, make: Make) -> tuple[Make, Make]:
        """Return how values that are wanted twice are made first, and how they are found again."""
        if not self.config.keeps:
            return make, make
        if self._turns:
            once = self._remembered(make)
            return once, once
        line = Line(self)

        def first(at: At) -> Value:
            x = make(at)
            line.store(at, x)
            return x

        return first, line.load


class Line:
    """Private memory for a value for each element of a row."""

    def __init__(self, row: Row) -> None:
        config = row.config
        # The same for all lengths: of what is not used no page is touched.
        size = config.turns * config.width or MOST_KEPT // row.dtype.itemsize
        #: How far apart pieces begin: each has whole vectors.
        self._step = padded(row.piece_size, config.width)
        assert row.pieces * self._step <= size if row.pieces > 1 else row.length <= size
        self._memory = row.b.private(row.dtype, size)

    def load(self, at: At) -> Value:
        return self._memory.load(self._place(at), width=at.width, is_aligned=True)

    def store(self, at: At, x: Value) -> None:
        self._memory.store(self._place(at), x, is_aligned=True)

    def _place(self, at: At) -> Value:
        return at.first if at.piece is None else at.piece * self._step + at.first

    def add(self, at: At, x: Value) -> None:
        self.store(at, self.load(at) + x)


def padded(size: int, width: int) -> int:
    """Return the least multiple of a width that is no less than a size."""
    return -(-size // width) * width


def joined(states: Sequence[Values], join: JoinAll) -> Values:
    """Return what joining all states gives, halves at a time."""
    states = list(states)
    while len(states) > 1:
        half = len(states) // 2
        pairs, rest = zip(states[:half], states[half : 2 * half], strict=True), states[2 * half :]
        states = [*(join(s, t) for s, t in pairs), *rest]
    return states[0]


def apart(states: Values, size: int) -> list[Values]:
    """Return states of so many values each, which stand one after another."""
    return [states[i : i + size] for i in range(0, len(states), size)]


# ---- launching ----


def groups_of(rows: int, config: RowsConfig) -> int:
    """Return how many invocations, or workgroups that share a row, take so many rows."""
    return -(-rows // config.rows)


def as_rows(launcher: Launcher, x: CubeTensor, axes: Sequence[int]) -> CubeTensor:
    """Return a tensor as (rows, length): the given axes in order are a row, without gaps."""
    rest = tuple(a for a in range(len(x.shape)) if a not in axes)
    moved = x.permuted((*rest, *axes))
    length = element_count(tuple(x.shape[a] for a in axes))
    shape = (x.type.size // length, length)
    found = moved.reshaped(shape)
    if found is None or found.strides[1] != 1:
        found = contiguous(launcher, moved).reshaped(shape)
    assert found is not None, "what has no gaps has any shape"
    return found


def from_rows(rows: CubeTensor, shape: Shape, axes: Sequence[int]) -> CubeTensor:
    """Return what `as_rows` made rows of, as a view: the reverse of it."""
    order = (*(a for a in range(len(shape)) if a not in axes), *axes)
    moved = rows.reshaped(tuple(shape[a] for a in order))
    assert moved is not None, "what has no gaps has any shape"
    return moved.permuted(tuple(order.index(a) for a in range(len(shape))))


def workgroups_of(rows: int, config: RowsConfig) -> int:
    """Return how many workgroups take so many rows."""
    return -(-groups_of(rows, config) // config.slots)


def row_layout(tensor: CubeTensor, width: int, machine: Machine) -> Layout:
    """Return the layout of a tensor of which neighbours of a row are read together."""
    return in_rows(layout_of(tensor, width), width, machine)


def in_rows(layout: Layout, width: int, machine: Machine) -> Layout:
    """Return a layout that says of alignment only what a kernel gains by.

    Processors read vectors from anywhere; on a GPU those that begin at multiples of their width are
    read at once.  So other lengths of rows are not other kernels.
    """
    is_aligned = machine.kind == "gpu" and layout.alignment % width == 0
    return replace(layout, alignment=width if is_aligned else 1)
