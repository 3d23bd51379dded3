"""Passes over one row inside a kernel: where its vectors are, how they are read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.backend.cube.operand import Layout, Operand, invocation_of, iota, workgroup_of
from pyrite.backend.cube.skeleton.fold.order import STEPS, VECTORS
from pyrite.backend.cube.skeleton.row.config import MOST_KEPT, RowsConfig, padded
from pyrite.backend.cube.skeleton.row.vectors import At, Make, Store, Values
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Number

#: Bytes that a processor fetches together.
LINE = 64
#: About how many bytes ahead a pass over pieces asks for what it reads.
AHEAD = 2048
#: What a body leaves to be done.
Later = Callable[[], None]
#: Asks for what lies beside the neighbours from a place on, which are so many vectors into a turn.
Fetch = Callable[[Value, int], None]


class RowPasses:
    """One row, inside the kernel.

    ``sources`` are read and ``targets`` written by `At`; to ``sums`` values are added, and what is
    added in all rows of an invocation is written at the end.  A row of several equal ``pieces``
    that an invocation has to itself is gone over piece by piece, each with a masked end of its own:
    so no place is divided by a size.
    """

    def __init__(
        self, name: str, rows: int, length: int, sources: Sequence[Layout],
        targets: Sequence[Layout], sums: Sequence[Layout], config: RowsConfig, grid: int,
        dtype: DType | None = None, pieces: int = 1, together: int = 1,
    ) -> None:  # fmt: skip
        assert pieces == 1 or (config.lanes == 1 and not config.turns)
        b = self.b = KernelBuilder(name, workgroup_size=config.workgroup_size, grid=grid)
        self.k = RecordingAlgebra(b)
        self.dtype = dtype or sources[0].dtype.compute
        self.rows, self.length, self.config = rows, length, config
        self.pieces, self.piece_size = pieces, length if pieces == 1 else length // pieces
        #: How many pieces are a segment, where it is no part of one.
        self.together = together
        #: The piece that is gone over.
        self._piece: Value | None = None
        read = self.read = [Operand(b, f"x{i}", layout, "read") for i, layout in enumerate(sources)]
        written = self.written = [
            Operand(b, f"out{i}", layout, "write") for i, layout in enumerate(targets)
        ]
        added = [Operand(b, f"sum{i}", layout, "write") for i, layout in enumerate(sums)]
        self._group = invocation_of(b) if config.lanes == 1 else workgroup_of(b)
        self._row = self._group
        #: The segment of the row that an invocation has.
        self._segment: Value | None = None
        if config.is_part:
            self._row, self._segment = self._group // self.segments, self._group % self.segments
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
        #: What will be written of this row, which it fetches too.
        self._awaited = [
            x for x in written if len(x.layout.strides) > 1 and x.layout.strides[-1] == 1
        ]
        self._times = 0
        self.targets = [self._writer(operand) for operand in written]
        self._partial = [self._writer(operand) for operand in added]
        self._lines = [] if config.rows == 1 else [Line(self) for _ in added]
        self._starts: list[Number] = [0] * len(self._lines)
        self.sums = [line.add for line in self._lines] or self._partial

    @property
    def segments(self) -> int:
        """How many segments a row has."""
        if not self.config.cuts:
            return -(-self.pieces // self.together)
        return self.pieces * -(-self.piece_size // self._longest)

    @property
    def _longest(self) -> int:
        """How many elements a segment has that is part of a piece, but for the last."""
        return STEPS * VECTORS * self.config.width

    def _share_workgroup(self) -> None:
        """Take a row of several that a workgroup has.

        All lanes come to the barriers, so those beyond the last row repeat it.
        """
        b, slots, lanes = self.b, self.config.slots, self.config.lanes
        local = b.local_id(0)
        row = self._group * slots + local // lanes
        self._lane = local % lanes
        self._row, self._exists = b.min(row, self.rows - 1), row < self.rows

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
            found.append(self.at(first) if is_whole else self.masked(first))
        return found

    def at(self, first: Value) -> At:
        """Return neighbours that are all in the row."""
        return At(first, self.config.width, None, self._piece)

    def masked(self, first: Value) -> At:
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
        return self.at(first) if is_whole else self.masked(first)

    def position(self, at: At) -> Value:
        """Return which element of the row the first of neighbours is."""
        return at.first if at.piece is None else at.piece * self.piece_size + at.first

    def places(self, at: At) -> Value:
        """Return which element of the row each of neighbours is."""
        first = self.position(at)
        return first if at.width == 1 else self.b.splat(first, at.width) + iota(self.b, at.width)

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

    def begin_pass(self, *, writes: bool = False) -> Fetch | None:
        """Count the times that the row is gone over; return what is to be fetched meanwhile."""
        self._times += 1
        if self.config.lanes > 1:
            return None
        first = self._times == 1
        if self.config.keeps and (self._times == 2 or (first and writes)):
            return self._fetch_row
        if self.pieces == 1 or self._is_one:
            return None
        # Processors fetch by themselves what follows, to the end of a page: short pieces are over.
        wanted = [*(self._fetched if first else ()), *(self._awaited if writes else ())]
        if not wanted:
            return None
        return lambda first, vector: self._fetch_piece(wanted, first, vector)

    def _fetch_row(self, first: Value, vector: int) -> None:
        """Ask for vectors of the next row: the memory has nothing to do while one is computed."""
        row, self._row = self._row, self._row + 1
        self._ask_for(self._fetched, first, vector)
        self._row = row
        # Else a store waits for the line that it writes to part of.
        self._ask_for(self._awaited, first, vector)

    def _fetch_piece(self, operands: Sequence[Operand], first: Value, vector: int) -> None:
        """Ask for vectors of a piece that follows; behind the last one that is for nothing."""
        piece = self._piece
        assert piece is not None
        self._piece = piece + (1 + AHEAD // self.dtype.itemsize // self.piece_size)
        self._ask_for(operands, first, vector)
        self._piece = piece

    def _ask_for(self, operands: Sequence[Operand], first: Value, vector: int) -> None:
        """Ask for vectors of operands: those that share a line ask for it once."""
        for x in operands:
            if vector * self.config.width * x.layout.dtype.itemsize % LINE == 0:
                x.prefetch(self._place(x, self.at(first)))

    # ---- passes ----

    def _over_pieces(
        self, body: Callable[[Values], Values], carried: Values = (),
        bounds: tuple[Value | int, Value | int] | None = None,
    ) -> Values:  # fmt: skip
        """Run a body for each piece of the row, or of some, which carries values on."""
        if self.pieces == 1:
            self._begin_piece()
            return body(carried)
        first, end = bounds or (0, self.pieces)
        with self.b.for_(first, end, carried=carried) as loop:
            self._piece = loop.index
            self._begin_piece()
            loop.yield_(*body(loop.carried))
        self._piece = None
        return loop.results

    def _begin_piece(self) -> None:
        """Make what all vectors of a piece share, before the loops over it."""

    def _whole(self, step: int) -> Value:
        """Return how many elements of a piece are in whole steps."""
        return self.b.index(self.piece_size - self.piece_size % step)

    def write(self, body: Callable[[At], None], *, is_light: bool = False) -> None:
        """Run a body that stores, for each of the row's vectors.

        One ``is_light`` that takes few instructions: on a processor it is written out for several
        vectors, as else a loop's own are as many.
        """
        is_together = is_light and self.config.lanes == 1
        vectors = self.config.vectors if is_together else 1
        self._each(body, vectors, fetch=self.begin_pass(writes=True))

    def write_values(self, make: Callable[[At], Sequence[Value]]) -> None:
        """Store what a function makes of each of the row's vectors, a value for each target.

        Where lanes share a row and go over it in loops, several vectors are read before any is
        stored: a device reads nothing that follows a store, for it might be of the same memory.
        """

        def body(at: At) -> Later:
            values = make(at)

            def store() -> None:
                for target, value in zip(self.targets, values, strict=True):
                    target(at, value)

            return store

        vectors = self.config.vectors if self.config.lanes > 1 else 1
        self._each(body, vectors, fetch=self.begin_pass(writes=True))

    def _each(
        self, body: Callable[[At], Later | None], vectors: int = 1, *, fetch: Fetch | None = None
    ) -> None:
        """Run a body for each vector, and what it returns, to be done after it."""
        for at in self._turns:
            _do([body(at)])
        if self._turns:
            return

        def run(first: Value, vector: int) -> Later | None:
            if fetch is not None:
                fetch(first, vector)
            return body(self.at(first))

        def over_piece(_: Values) -> Values:
            if self._is_one:
                _do([body(self._only_vector())])
            else:
                self._write_piece(body, run, vectors)
            return ()

        self._over_pieces(over_piece)

    def _write_piece(
        self, body: Callable[[At], Later | None], run: Callable[[Value, int], Later | None],
        vectors: int,
    ) -> None:  # fmt: skip
        b, width = self.b, self.config.width
        step, whole = self.config.lanes * width, self._whole(width)
        first: Value | int = 0
        if vectors > 1:
            first = self._whole(step * vectors)
            with b.for_(self._first, first, step=step * vectors) as loop:
                places = [loop.index + i * step if i else loop.index for i in range(vectors)]
                _do([run(place, i) for i, place in enumerate(places)])
        with b.for_(self._first + first, whole, step=step) as loop:
            _do([run(loop.index, 0)])
        if self._is_ragged:
            with b.for_(whole + self._first, self.piece_size, step=step) as rest:
                _do([body(self.masked(rest.index))])

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


def _do(found: Sequence[Later | None]) -> None:
    for later in found:
        if later is not None:
            later()


class Line:
    """Private memory for a value for each element of a row."""

    def __init__(self, row: RowPasses) -> None:
        config = row.config
        # The same for all lengths: of what is not used no page is touched.
        size = config.turns * config.width or MOST_KEPT // row.dtype.itemsize // config.slots
        #: How far apart pieces begin: each has whole vectors.
        self._step = padded(row.piece_size, config.width)
        assert row.pieces * self._step <= size if row.pieces > 1 else row.length <= size
        self._memory = row.b.private(row.dtype, size)

    def load(self, at: At) -> Value:
        """Return the values of neighbours."""
        return self._memory.load(self._place(at), width=at.width, is_aligned=True)

    def store(self, at: At, x: Value) -> None:
        """Put the values of neighbours."""
        self._memory.store(self._place(at), x, is_aligned=True)

    def _place(self, at: At) -> Value:
        return at.first if at.piece is None else at.piece * self._step + at.first

    def add(self, at: At, x: Value) -> None:
        """Add to the values of neighbours."""
        self.store(at, self.load(at) + x)
