"""Rows of a body inside a kernel: operands that lie along several axes, and numbers of the row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout, Operand, iota, unravel
from pyrite.backend.cube.skeleton.row import At, Line, Make, Row, RowsConfig, Store
from pyrite.kernel import Value
from pyrite.op.rule.fold import BoundFold
from pyrite.types import DType, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where the elements of a tensor lie, by row and by place in the row, as few axes as can be."""

    layout: Layout
    rows: Shape
    length: Shape

    @property
    def key(self) -> Hashable:
        """What a kernel depends on."""
        return self.layout, self.rows, self.length


class BodyRow(Row):
    """A row whose operands may lie along several axes, or have one number for all of it."""

    def __init__(
        self, name: str, sizes: tuple[int, int], sources: Sequence[Place],
        targets: Sequence[Place], sums: Sequence[Place], config: RowsConfig, grid: int,
        dtype: DType, bound: Sequence[BoundFold] = (),
    ) -> None:  # fmt: skip
        #: By the identity of layouts, of which each operand has its own.
        self._place_of = {id(p.layout): p for p in (*sources, *targets, *sums)}
        self._coordinates: dict[Shape, list[Value | int]] = {}
        of, to, by = ([p.layout for p in places] for places in (sources, targets, sums))
        super().__init__(name, *sizes, of, to, by, config, grid, dtype)
        self._joins_rows(bound)
        self._fetched = [
            x for x in self._fetched
            if len(self._place_of[id(x.layout)].length) == 1 and x.layout.strides[-1] == 1
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
        place = self._place_of[id(operand.layout)]
        return operand.at([*self._of_row(place), *self._along(at.first, place.length)])

    def begin(self) -> None:
        """Make the coordinates of the row, before all loops over it."""
        self._begun = self._row
        shapes = {place.rows for place in self._place_of.values()}
        self._coordinates = {shape: unravel(self.b, self._row, shape) for shape in shapes}

    def _of_row(self, place: Place) -> list[Value | int]:
        """Return the coordinates of the row, or of the next one while that is fetched."""
        if self._row is self._begun:
            return self._coordinates[place.rows]
        return unravel(self.b, self._row, place.rows)

    def _along(self, first: Value, length: Shape) -> list[Value | int]:
        return unravel(self.b, first, length) if length else []

    def _reader(self, operand: Operand) -> Make:
        place = self._place_of[id(operand.layout)]
        load = super()._reader(operand)
        if len(place.length) < 2 or place.length[-1] % self.config.width == 0:
            return load

        def gather(at: At) -> Value:
            """Return neighbours of which some lie in the next row of a smaller shape."""
            if at.width == 1:
                return load(at)
            b = self.b
            places = b.splat(at.first, at.width) + iota(b, at.width)
            along = [
                x if isinstance(x, int) or x.width > 1 else b.splat(x, at.width)
                for x in (*self._of_row(place), *self._along(places, place.length))
            ]
            mask = at.mask
            if mask is not None and mask.width < at.width:
                mask = b.splat(mask, at.width)
            return operand.load(operand.at(along), mask=mask)

        return gather

    def has_numbers(self, operand: Operand) -> bool:
        """Whether an operand has one number for each row."""
        return not self._place_of[id(operand.layout)].length

    def number_writer(self, operand: Operand) -> Callable[[Value], None]:
        """Return what writes the number of the row; of several lanes the first does."""

        def store(x: Value) -> None:
            is_mine = self._exists
            if self.config.lanes > 1:
                first = self._lane == 0
                is_mine = first if is_mine is None else first & is_mine
            place = operand.at(self._of_row(self._place_of[id(operand.layout)]))
            if is_mine is None:
                operand.store(place, x)
                return
            with self.b.if_(is_mine):
                operand.store(place, x)

        return store

    def number(self, operand: Operand) -> Value:
        """Return the number of the row that an operand has."""
        return operand.load(operand.at(self._of_row(self._place_of[id(operand.layout)])))
