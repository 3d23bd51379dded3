"""Rows side by side inside a kernel: a vector has an element of each of several.

So all elements of a row go to one lane, one after the other: that is the order of columns
(`skeleton/fold/order.py`), and no lanes are joined at the end of a row.  Operands of which rows are
neighbours in memory are read and written by vectors as they lie; those whose elements are, as
channels that are last, by tiles of a few elements of each row, which are turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyrite.backend.cube.body.row import BodyRow
from pyrite.backend.cube.body.row_layouts import RowLayouts
from pyrite.backend.cube.operand import Operand, iota
from pyrite.backend.cube.skeleton.fold.order import span_of
from pyrite.backend.cube.skeleton.row import MOST_KEPT, At, Line, Make, RowsConfig, Store, Values
from pyrite.backend.cube.skeleton.row.passes import LINE
from pyrite.backend.cube.skeleton.row.row import Body
from pyrite.backend.cube.skeleton.row.vectors import JoinAll, MakeAll
from pyrite.backend.cube.skeleton.turned import read_chunk, turned_within
from pyrite.kernel import Value
from pyrite.kernel.ir import vector
from pyrite.kernel.template.lanes import part_of
from pyrite.op.rule.fold import BoundFold
from pyrite.types import DType, Number

#: How many elements of each row a tile has, but for those of 8 bytes: 16 bytes are turned within.
TILE = 4


@dataclass(eq=False, slots=True)
class _Tile:
    """Some neighbours of each row: columns that were read, and those that are to be written."""

    first: Value
    count: int
    seen: set[int] = field(default_factory=set)
    read: dict[int, list[Value]] = field(default_factory=dict)
    written: dict[int, list[Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ElementAt(At):
    """An element of each row: one of a tile."""

    tile: _Tile = field(kw_only=True)
    number: int = field(kw_only=True)


class RowsAbreast(BodyRow):
    """So many rows of a line of neighbours, inside the kernel; `at.first` is an element of each.

    Those at the end of a line begin so early that they end with it, and write what is their own.
    """

    def __init__(
        self, name: str, layouts: RowLayouts, config: RowsConfig, grid: int, dtype: DType,
        bound: Sequence[BoundFold] = (),
    ) -> None:  # fmt: skip
        self._line = layouts.line
        self.wide = config.abreast
        #: How often the rows were gone over, with this time.
        self._passes = 0
        #: What one source is kept in, until that has something else from a pass on.
        self._lent: _Columns | None = None
        self._lent_in: int | None = None
        #: Where the elements of each row of an operand begin, by its identity.
        self._begins: dict[int, list[Value]] = {}
        super().__init__(name, layouts, config, grid, dtype, bound)
        sizes = [x.layout.dtype.itemsize for x in (*self.read, *self.written)]
        self._tile_size = TILE if max(sizes) <= 4 else TILE // 2

    def run(self, body: Body) -> None:
        """Write the body for the rows of an invocation."""
        b, line = self.b, self._line
        per_line = -(-line // self.wide)
        lines = self.rows // line
        group = self._group
        with b.if_(group < lines * per_line):
            own = group % per_line * self.wide
            first = b.min(own, line - self.wide)
            #: How many rows are another invocation's.
            self._shared = own - first
            self._row = group // per_line * line + first
            body(self)

    def begin(self) -> None:
        """Make the coordinates of the first row, and where each one begins."""
        super().begin()
        self._begins.clear()
        for operand in (*self.read, *self.written):
            if self._is_turned(operand):
                *outer, last = self._of_row(operand)
                along = [0] * len(self._length_of(operand))
                self._begins[id(operand)] = [
                    operand.at([*outer, last + j, *along]) for j in range(self.wide)
                ]

    # ---- how operands lie ----

    def _axis(self, operand: Operand) -> int | None:
        """Return the axis on which rows are neighbours; None of what is the same for all."""
        axis = len(operand.layout.strides) - len(self._length_of(operand)) - 1
        return axis if axis >= 0 and operand.layout.strides[axis] else None

    def _stride(self, operand: Operand) -> int:
        """Return how far apart rows are."""
        axis = self._axis(operand)
        assert axis is not None, "an operand with an element of each row"
        return operand.layout.strides[axis]

    def _is_turned(self, operand: Operand) -> bool:
        """Whether the elements of a row are neighbours, and rows are none."""
        strides, axis = operand.layout.strides, self._axis(operand)
        if axis is None or len(self._length_of(operand)) != 1 or operand.layout.dtype.is_bool:
            return False
        return strides[-1] == 1 and strides[axis] != 1

    # ---- passes ----

    def each(
        self, first: Value | int, end: Value,
        body: Callable[[Sequence[_ElementAt], Values], Values],
        carried: Values = (),
    ) -> Values:  # fmt: skip
        """Run a body for tiles of elements between bounds, and those left; it carries values."""
        b, size = self.b, self._tile_size
        whole = first + (end - first) // size * size
        for begin, stop, count in ((first, whole, size), (whole, end, 1)):
            with b.for_(begin, stop, step=count, carried=carried) as loop:
                tile = _Tile(loop.index, count)
                ats = [
                    _ElementAt(loop.index + i if i else loop.index, self.wide, tile=tile, number=i)
                    for i in range(count)
                ]
                loop.yield_(*body(ats, loop.carried))
            carried = loop.results
        return carried

    def fold(
        self, start: Sequence[tuple[Number, DType]], join: JoinAll, make: MakeAll, *,
        has_order: bool = True, writes: bool = False,
    ) -> Values:  # fmt: skip
        """Return a state of each row, as `Row.fold`."""
        assert not writes, "what is made is written in a pass of its own"
        none = [self.b.const(number, vector(dtype, self.wide)) for number, dtype in start]

        def over(ats: Sequence[_ElementAt], state: Values) -> Values:
            for at in ats:
                state = join(state, [self.spread(x, at) for x in make(at)])
            return state

        def between(first: Value, end: Value, levels: int) -> Values:
            if levels == 1:
                return self.each(first, end, over, none)
            span = span_of(levels, self.config.block)
            with self.b.for_(first, end, step=span, carried=none) as loop:
                stop = self.b.min(loop.index + span, end)
                loop.yield_(*join(loop.carried, between(loop.index, stop, levels - 1)))
            return loop.results

        levels = self.config.levels if has_order else 1
        self._passes += 1
        return between(self.b.index(0), self.b.index(self.length), levels)

    def write(self, body: Callable[[At], None], *, is_light: bool = False) -> None:
        """Run a body that stores, for each element of the rows."""

        def over(ats: Sequence[_ElementAt], _: Values) -> Values:
            for at in ats:
                body(at)
            tile = ats[0].tile
            self._write_own(lambda shared: self._flush(tile, ats, shared))
            return ()

        self._passes += 1
        self.each(0, self.b.index(self.length), over)

    def _write_own(self, store: Callable[[Value | None], None]) -> None:
        """Store all, or what is behind the rows that are another invocation's."""
        with self.b.if_(self._shared == 0):
            store(None)
        with self.b.if_(self._shared > 0):
            store(self._shared)

    def _flush(self, tile: _Tile, ats: Sequence[At], shared: Value | None) -> None:
        for operand in self.written:
            columns = tile.written.get(id(operand))
            if columns is None:
                continue
            if tile.count > 1 and self._is_turned(operand):
                self._store_turned(operand, tile, columns, shared)
                continue
            for at, x in zip(ats, columns, strict=True):
                self._store(operand, self._place(operand, at), self._axis(operand), x, shared)

    def _store(
        self, operand: Operand, place: Value, axis: int | None, x: Value, shared: Value | None
    ) -> None:
        assert axis is not None, "a result has an element of each row"
        mask = None if shared is None else iota(self.b, self.wide) >= shared
        operand.store_along(place, x, axis=axis, mask=mask)

    def _store_turned(
        self, operand: Operand, tile: _Tile, columns: Sequence[Value], shared: Value | None
    ) -> None:
        size = tile.count
        runs = turned_within(columns)
        for j, begin in enumerate(self._begins[id(operand)]):
            row = part_of(runs[j % size], j // size * size, size)
            if shared is None:
                operand.store_along(begin + tile.first, row)
                continue
            with self.b.if_(shared <= j):
                operand.store_along(begin + tile.first, row)

    # ---- what bodies ask of a row ----

    def places(self, at: At) -> Value:
        """Return which element of its row each one is."""
        return self.b.splat(at.first, at.width)

    def spread(self, x: Value, at: At) -> Value:
        """Return what is one for each row, or for all, for each of them."""
        return x if x.width == at.width else self.b.splat(x, at.width)

    def kept(self, make: Make) -> tuple[Make, Make]:
        """Return how values that are wanted twice are made first, and how they are found again."""
        if not self.config.keeps:
            return make, make
        lines: list[_Columns] = []

        def first(at: At) -> Value:
            x = make(at)
            if not lines:
                # Both beside what comes and goes were more than a first cache has.
                lent = self._lent if self._lent_in is None else None
                lines.append(lent or _Columns(self, self.dtype))
                if lent is not None:
                    self._lent_in = self._passes
            lines[0].store(at, x)
            return x

        return first, lambda at: lines[0].load(at)

    def number(self, operand: Operand) -> Value:
        """Return the number that an operand has of each row."""
        place, axis = operand.at(self._of_row(operand)), self._axis(operand)
        return operand.load(place) if axis is None else operand.load_along(place, self.wide)

    def number_writer(self, operand: Operand) -> Callable[[Value], None]:
        """Return what writes the number of each row."""

        def store(x: Value) -> None:
            place = operand.at(self._of_row(operand))
            wide = x if x.width == self.wide else self.b.splat(x, self.wide)
            self._write_own(lambda shared: self._store(operand, place, -1, wide, shared))

        return store

    def _reader(self, operand: Operand) -> Make:
        """Return what reads an element of each row.

        What is turned is kept, if rows are short, for the passes after the first.
        """
        axis = self._axis(operand)
        if axis is None:
            return lambda at: self.spread(operand.load(self._place(operand, at)), at)
        if not self._is_turned(operand):
            return lambda at: operand.load_along(self._place(operand, at), at.width, axis=axis)
        kept = _Columns(self, operand.layout.dtype.compute) if self.config.keeps else None
        if kept is not None and self._lent is None and kept.dtype is self.dtype:
            self._lent = kept

        def load(at: At) -> Value:
            assert isinstance(at, _ElementAt)
            tile = at.tile
            is_first = id(operand) not in tile.seen
            tile.seen.add(id(operand))
            if self._passes == 2 and is_first:
                self._fetch(operand, tile)
            if kept is not None and self._is_kept(kept):
                return kept.load(at)
            if is_first:
                tile.read[id(operand)] = self._read_turned(operand, tile)
            x = tile.read[id(operand)][at.number]
            if kept is not None and self._passes == 1:
                kept.store(at, x)
                kept.is_filled = True
            return x

        return load

    def _is_kept(self, line: _Columns) -> bool:
        """Whether a line has what it was made for: since the first pass, and nothing else by now.

        What the first pass does not read, as the output in a gradient of softmax, is never there.
        """
        is_lent = self._lent_in is not None and self._passes > self._lent_in
        return line.is_filled and self._passes > 1 and not (is_lent and line is self._lent)

    def _read_turned(self, operand: Operand, tile: _Tile) -> list[Value]:
        begins = self._begins[id(operand)]
        if tile.count == 1:
            return [self.b.make([operand.load(begin + tile.first) for begin in begins])]
        return read_chunk(
            lambda j: operand.load_along(begins[j] + tile.first, tile.count), self.wide, tile.count
        )

    def _fetch(self, operand: Operand, tile: _Tile) -> None:
        """Ask for a tile's share of the next rows, and of where these will be written.

        As if no gaps were between rows: then all of it is asked for once.
        """
        if tile.count == 1:
            return
        begin, next_rows = self._begins[id(operand)][0], self._stride(operand) * self.wide
        asked = [(operand, begin + next_rows)]
        asked += [(x, self._begins[id(x)][0]) for x in self.written if self._is_turned(x)]
        for x, begin in asked:
            for ahead in range(0, self.wide * tile.count, LINE // x.layout.dtype.itemsize):
                x.prefetch(begin + tile.first * self.wide + ahead)

    def _writer(self, operand: Operand) -> Store:
        def store(at: At, value: Value) -> None:
            assert isinstance(at, _ElementAt)
            at.tile.written.setdefault(id(operand), []).append(self.spread(value, at))

        return store


class _Columns(Line):
    """Private memory for a value for each element of each row."""

    def __init__(self, row: RowsAbreast, dtype: DType) -> None:
        self.dtype, self._wide = dtype, row.wide
        #: Whether the first pass puts values there.
        self.is_filled = False
        self._memory = row.b.private(dtype, MOST_KEPT // row.dtype.itemsize)

    def _place(self, at: At) -> Value:
        return at.first * self._wide
