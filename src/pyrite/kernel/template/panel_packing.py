"""Copies of panels of y and of slabs of x in private memory, as the inner loop wants to read them.

Invariant: a copy has the accumulator's dtype, and its vectors begin where loads are aligned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyrite.kernel.builder import Value
from pyrite.kernel.template.index import Index, limit_of, plus, rounded_up, times
from pyrite.kernel.template.operand import AxisPlace, Operand
from pyrite.kernel.template.panel_config import PanelConfig, is_turned
from pyrite.kernel.template.product import Parts

#: Reads the vectors, or elements, at a step along K: (index, what is added to it) -> values.
Read = Callable[[Index, int], list[Value]]
#: Sides of the blocks in which a dense column becomes rows: processors turn 4 x 4 in 8 shuffles.
SQUARE: Final = 4
#: Elements between the rows of a packed slab of x, so that they do not share sets of the cache.
_GAP: Final = 16


def panel_lanes(
    operand: Operand, column: Index, size: int, width: int, limit: int | None
) -> list[AxisPlace]:
    """Return the places of so many columns by vectors, of which those below the limit are."""
    axis = operand.map.columns
    return [
        operand.lanes(axis, plus(column, start), width, limit=limit)
        for start in range(0, size, width)
    ]


def panel_pieces(
    operand: Operand, column: Index, size: int, width: int, limit: int | None
) -> list[tuple[int, AxisPlace]]:
    """Return the same as the longest pieces of vectors that are neighbours, and where they begin.

    Whole vectors where no two columns are neighbours.
    """
    piece = operand.map.reach(operand.map.columns, width) or width
    places = panel_lanes(operand, column, size, piece, limit)
    return [(i * piece, place) for i, place in enumerate(places)]


class PackedPanel:
    """A panel of y in private memory: (depth, panel), dense, in the accumulator's dtype."""

    def __init__(self, parts: Parts, config: PanelConfig, depth: int, period: int) -> None:
        self.b = parts.builder
        self.parts = parts
        self.config = config
        self.period = period
        self.memory = self.b.private(parts.accumulator, depth * config.panel)

    def reader(self, vectors: int) -> Read:
        panel, width = self.config.panel, self.config.width

        def read(k: Index, further: int) -> list[Value]:
            row = plus(times(k, panel), further * panel)
            return [
                self.memory.load(plus(row, v * width), width=width, is_aligned=True)
                for v in range(vectors)
            ]

        return read

    def fill(
        self, batch: AxisPlace, column: Index, vectors: int, limit: int | None, first_k: Index,
        count: Index,
    ) -> None:  # fmt: skip
        """Copy so many vectors of columns, of which those below the limit are in the product."""
        y, size = self.parts.y, vectors * self.config.width
        # A narrower panel has no room for a block: two lanes of 64 bits, where a register has 128.
        has_room = self.config.panel % SQUARE == 0 and self.period == 1
        is_turned = has_room and y.map.is_consecutive(y.map.rows, SQUARE)
        if is_turned and not y.map.is_consecutive(y.map.columns, self.config.width):
            self.fill_turned(batch, column, size, limit, first_k, count)
            return
        pieces = panel_pieces(y, column, size, self.config.width, limit)
        places = [(start, y.join(batch, lanes)) for start, lanes in pieces]
        with self.b.for_(0, count, step=self.period) as loop:
            for further in range(self.period):
                along = y.at(
                    y.map.rows, plus(first_k, loop.index), further=further, period=self.period
                )
                row = plus(times(loop.index, self.config.panel), further * self.config.panel)
                for start, place in places:
                    value = self.parts.widened(y.load(place, along))
                    self.memory.store(plus(row, start), value, is_aligned=True)

    def fill_turned(
        self, batch: AxisPlace, column: Index, size: int, end: int | None, first_k: Index,
        count: Index,
    ) -> None:  # fmt: skip
        """Pack by blocks of 4 x 4 turned in registers, of a y whose columns are dense."""
        y, b = self.parts.y, self.b
        limit = limit_of(self.parts.product.k, SQUARE)
        with b.for_(0, size, step=SQUARE) as across, b.for_(0, count, step=SQUARE) as along:
            lanes = y.lanes(y.map.rows, plus(first_k, along.index), SQUARE, limit=limit)
            loaded = []
            for i in range(SQUARE):
                at = y.at(y.map.columns, plus(column, plus(across.index, i)), limit=end)
                loaded.append(self.parts.widened(y.load(batch, at, lanes)))
            for i in range(SQUARE):
                turned = b.make([value[i] for value in loaded])
                to = plus(times(plus(along.index, i), self.config.panel), across.index)
                self.memory.store(to, turned, is_aligned=True)


class PackedRows:
    """The slab of x of a tile in private memory, in the accumulator's dtype.

    Rows stay dense, or columns do if they are dense in x.
    """

    def __init__(self, parts: Parts, height: int, depth: int, width: int, period: int) -> None:
        self.b = parts.builder
        self.parts = parts
        self.width = width
        self.period = period
        x = parts.x
        # Tiles begin at any row: with one digit its neighbours are so everywhere.
        self.is_turned = is_turned(x.map, width)
        inner = height if self.is_turned else depth
        outer = depth if self.is_turned else height
        self.stride = rounded_up(inner, width) + _GAP
        self.memory = self.b.private(parts.accumulator, outer * self.stride)

    def reader(self, row: Index, rows: int) -> Read:
        def read(k: Index, further: int) -> list[Value]:
            if self.is_turned:
                start = plus(plus(times(k, self.stride), row), further * self.stride)
                return [self.memory.load(plus(start, i)) for i in range(rows)]
            start = plus(plus(times(row, self.stride), k), further)
            return [self.memory.load(plus(start, i * self.stride)) for i in range(rows)]

        return read

    def fill(
        self, batch: AxisPlace, first_row: Index, rows: Index, first_k: Index, count: Index
    ) -> None:
        x, b, width = self.parts.x, self.b, self.width
        product = self.parts.product
        across, along, size = x.map.rows, x.map.columns, product.k
        if self.is_turned:
            across, along, size = along, across, product.m
            first_row, rows, first_k, count = first_k, count, first_row, rows
        width = x.map.reach(along, width) or width
        # A slab begins at a multiple of the width, a tile anywhere.
        limit = size if self.is_turned else limit_of(size, width)
        with b.for_(0, rows) as outer:
            place = x.join(batch, x.at(across, plus(first_row, outer.index)))
            with b.for_(0, count, step=width) as inner:
                lanes = x.lanes(along, plus(first_k, inner.index), width, limit=limit)
                value = self.parts.widened(x.load(place, lanes))
                self.memory.store(plus(times(outer.index, self.stride), inner.index), value)
