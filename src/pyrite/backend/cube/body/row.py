"""Rows of a body inside a kernel: operands that lie along several axes, and numbers of the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyrite.backend.cube.body.row_layouts import RowLayouts
from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.row import At, Line, Make, Row, RowsConfig, Store
from pyrite.kernel import Value
from pyrite.op.rule.fold import BoundFold
from pyrite.symbol import require_known
from pyrite.types import DType, Shape


class BodyRow(Row):
    """A row whose operands may lie along several axes, or have one number for all of it."""

    def __init__(
        self, name: str, layouts: RowLayouts, config: RowsConfig, grid: int, dtype: DType,
        bound: Sequence[BoundFold] = (),
    ) -> None:  # fmt: skip
        if layouts.knows_divisors:
            layouts = with_known_divisors(layouts)
        operands = (*layouts.sources, *layouts.targets, *layouts.sums)
        #: By the identity of layouts, of which each operand has its own.
        self._sides = dict(zip(map(id, operands), layouts.sides, strict=True))
        self._shapes = layouts.shapes
        self._coordinates: dict[int, list[Value | int]] = {}
        #: The row of these coordinates; none yet where what is summed over rows is cleared.
        self._begun: Value | None = None
        #: The piece of these coordinates.
        self._begun_piece: Value | None = None
        self._of_piece: dict[int, list[Value | int]] = {}
        #: By operand, where one element is repeated along the piece that is gone over.
        self._repeated: dict[int, Value] = {}
        super().__init__(
            name, layouts.rows, layouts.length, layouts.sources, layouts.targets, layouts.sums,
            config, grid, dtype, layouts.pieces, layouts.together,
        )  # fmt: skip
        self._joins_rows(bound)
        own = 1 if layouts.pieces == 1 else 2
        self._fetched = [
            x for x in self._fetched
            if 0 < len(self._length_of(x)) <= own and x.layout.strides[-1] == 1
            and self._is_of_row(x)
        ]  # fmt: skip
        self._awaited = [x for x in self._awaited if 0 < len(self._length_of(x)) <= own]

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
        return operand.at([*self._of_row(operand), *self._along(at, operand)])

    def _is_of_row(self, operand: Operand) -> bool:
        """Whether another row has other elements: a weight of all rows is near since the first."""
        return any(operand.layout.strides[: -len(self._length_of(operand))])

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

    def _along(self, at: At, operand: Operand) -> list[Value | int]:
        """Return the coordinates of places in the row."""
        _, side = self._sides[id(operand.layout)]
        if at.piece is None:
            return self._in(side, at.first)
        if at.piece is not self._begun_piece:
            return [*self._in_pieces(side, at.piece), at.first]
        return [*self._of_piece[side], at.first]

    def _in_pieces(self, side: int, piece: Value) -> list[Value | int]:
        return unravel(self.b, piece, self._shapes[side][:-1])

    def _begin_piece(self) -> None:
        piece = self._begun_piece = self._piece
        if piece is not None:
            sides = {side for _, side in self._sides.values() if self._shapes[side]}
            self._of_piece = {side: self._in_pieces(side, piece) for side in sorted(sides)}
            # Once: inside the loop over a piece the address took more than the arithmetic.
            self._repeated = {
                id(x): x[[*self._of_row(x), *self._of_piece[self._sides[id(x.layout)][1]], 0]]
                for x in self.read
                if self._length_of(x) and x.layout.strides[-1] == 0
            }

    def _reader(self, operand: Operand) -> Make:
        length = self._length_of(operand)
        load = super()._reader(operand)
        if self.pieces > 1 or len(length) < 2 or length[-1] % self.config.width == 0:
            return load

        def gather(at: At) -> Value:
            """Return neighbours of which some lie in the next row of a smaller shape."""
            if at.width == 1:
                return load(at)
            b = self.b
            places = b.splat(at.first, at.width) + iota(b, at.width)
            along = [
                x if isinstance(x, int) or x.width > 1 else b.splat(x, at.width)
                for x in (*self._of_row(operand), *self._along(At(places, at.width), operand))
            ]
            mask = at.mask
            if mask is not None and mask.width < at.width:
                mask = b.splat(mask, at.width)
            return operand.load(operand.at(along), mask=mask)

        return gather

    def _load(self, operand: Operand, at: At) -> Value:
        if at.piece is not None and id(operand) in self._repeated:
            return self.spread(self._repeated[id(operand)], at)
        is_stretched = at.width > 1 and operand.layout.strides[-1] == 0
        if at.mask is None or not is_stretched:
            return super()._load(operand, at)
        # Behind the row is no number of a piece; vectors lie in one piece, so they end together.
        exists = at.mask if at.mask.width == 1 else at.mask[0]
        place = self._place(operand, at)
        return operand.load_along(place, at.width, mask=at.mask, exists=exists)

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
            if self._segment is not None:
                place = place + self._segment * self.rows
            if is_mine is None:
                operand.store(place, x)
                return
            with self.b.if_(is_mine):
                operand.store(place, x)

        return store

    def number(self, operand: Operand) -> Value:
        """Return the number of the row that an operand has."""
        return operand.load(operand.at(self._of_row(operand)))


def with_known_divisors(layouts: RowLayouts) -> RowLayouts:
    """Return layouts in which the sizes are built in by which a place in the row is divided."""
    shapes = list(layouts.shapes)
    for side in {side for _, side in layouts.sides}:
        first, *divisors = shapes[side] or (0,)
        if divisors:
            shapes[side] = (first, *map(require_known, divisors))
    return replace(layouts, shapes=tuple(shapes))
