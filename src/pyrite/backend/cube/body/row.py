"""Rows of a body inside a kernel: operands that lie along several axes, and numbers of the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout, Operand, iota, unravel
from pyrite.backend.cube.skeleton.row import At, Line, Make, Row, RowsConfig, Store
from pyrite.kernel import Value
from pyrite.kernel.extent import extent, with_known
from pyrite.op.rule.fold import BoundFold
from pyrite.types import DType, Shape


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of a tensor lie, by row and by place in the row, as few axes as can be."""

    layout: Layout
    rows: Shape
    length: Shape


@dataclass(frozen=True, slots=True)
class Places:
    """All sizes and layouts of the rows of a body: of each operand the numbers of its ``shapes``.

    Operands of equal shapes share them, and so coordinates.  ``count`` is how many elements meet in
    a fold of states.
    """

    sources: tuple[Layout, ...]
    targets: tuple[Layout, ...]
    sums: tuple[Layout, ...]
    sides: tuple[tuple[int, int], ...]
    shapes: tuple[Shape, ...] = extent()
    rows: int = extent()
    length: int = extent()
    count: int = extent(default=0)

    @classmethod
    def of(
        cls, rows: int, length: int, sources: Sequence[Place], targets: Sequence[Place],
        sums: Sequence[Place] = (), *, count: int = 0,
    ) -> Places:  # fmt: skip
        """Return the places of rows."""
        places = (*sources, *targets, *sums)
        # Apart: rows and lengths that happen to be equal are no other kernel.
        of_rows = list(dict.fromkeys(p.rows for p in places))
        along = list(dict.fromkeys(p.length for p in places))
        sides = tuple((of_rows.index(p.rows), len(of_rows) + along.index(p.length)) for p in places)
        of, to, by = (tuple(p.layout for p in group) for group in (sources, targets, sums))
        return cls(of, to, by, sides, (*of_rows, *along), rows, length, count)


class BodyRow(Row):
    """A row whose operands may lie along several axes, or have one number for all of it."""

    def __init__(
        self, name: str, places: Places, config: RowsConfig, grid: int, dtype: DType,
        bound: Sequence[BoundFold] = (),
    ) -> None:  # fmt: skip
        if any(len(places.shapes[side]) > 1 for _, side in places.sides):
            # To find the piece of a place divides by sizes, in the innermost loop: batch norm took
            # up to 1.7 times as long where they were arguments.
            places = with_known(places)
        layouts = (*places.sources, *places.targets, *places.sums)
        #: By the identity of layouts, of which each operand has its own.
        self._sides = dict(zip(map(id, layouts), places.sides, strict=True))
        self._shapes = places.shapes
        self._coordinates: dict[int, list[Value | int]] = {}
        super().__init__(
            name, places.rows, places.length, places.sources, places.targets, places.sums, config,
            grid, dtype,
        )  # fmt: skip
        self._joins_rows(bound)
        self._fetched = [
            x for x in self._fetched
            if len(self._length_of(x)) == 1 and x.layout.strides[-1] == 1
        ]  # fmt: skip

    def _joins_rows(self, bound: Sequence[BoundFold]) -> None:
        """Have lines that take in values of all rows of an invocation by folds, not by sums."""

        def joining(line: Line, fold: BoundFold) -> Store:
            def take(at: At, x: Value) -> None:
                line.store(at, fold.join(self.k, (line.load(at),), (x,))[0])

            return take

        if self._lines:
            self._starts = [fold.start[0][0] for fold in bound]
            self.sums = [joining(*pair) for pair in zip(self._lines, bound, strict=True)]

    def _place(self, operand: Operand, at: At) -> Value:
        return operand.at([*self._of_row(operand), *self._along(at.first, operand)])

    def _length_of(self, operand: Operand) -> Shape:
        """Return the axes of an operand along a row."""
        return self._shapes[self._sides[id(operand.layout)][1]]

    def begin(self) -> None:
        """Make the coordinates of the row, before all loops over it."""
        self._begun = self._row
        sides = {rows for rows, _ in self._sides.values()}
        self._coordinates = {side: self._row_in(side) for side in sorted(sides)}

    def _row_in(self, side: int) -> list[Value | int]:
        return self._in(side, self._row)

    def _in(self, side: int, index: Value) -> list[Value | int]:
        return unravel(self.b, index, self._shapes[side])

    def _of_row(self, operand: Operand) -> list[Value | int]:
        """Return the coordinates of the row, or of the next one while that is fetched."""
        side, _ = self._sides[id(operand.layout)]
        return self._coordinates[side] if self._row is self._begun else self._row_in(side)

    def _along(self, place: Value, operand: Operand) -> list[Value | int]:
        """Return the coordinates of places in the row."""
        return self._in(self._sides[id(operand.layout)][1], place)

    def _reader(self, operand: Operand) -> Make:
        length = self._length_of(operand)
        load = super()._reader(operand)
        if len(length) < 2 or length[-1] % self.config.width == 0:
            return load

        def gather(at: At) -> Value:
            """Return neighbours of which some lie in the next row of a smaller shape."""
            if at.width == 1:
                return load(at)
            b = self.b
            places = b.splat(at.first, at.width) + iota(b, at.width)
            along = [
                x if isinstance(x, int) or x.width > 1 else b.splat(x, at.width)
                for x in (*self._of_row(operand), *self._along(places, operand))
            ]
            mask = at.mask
            if mask is not None and mask.width < at.width:
                mask = b.splat(mask, at.width)
            return operand.load(operand.at(along), mask=mask)

        return gather

    def has_numbers(self, operand: Operand) -> bool:
        """Whether an operand has one number for each row."""
        return not self._length_of(operand)

    def number_writer(self, operand: Operand) -> Callable[[Value], None]:
        """Return what writes the number of the row; of several lanes the first does."""

        def store(x: Value) -> None:
            is_mine = self._exists
            if self.config.lanes > 1:
                first = self._lane == 0
                is_mine = first if is_mine is None else first & is_mine
            place = operand.at(self._of_row(operand))
            if is_mine is None:
                operand.store(place, x)
                return
            with self.b.if_(is_mine):
                operand.store(place, x)

        return store

    def number(self, operand: Operand) -> Value:
        """Return the number of the row that an operand has."""
        return operand.load(operand.at(self._of_row(operand)))
