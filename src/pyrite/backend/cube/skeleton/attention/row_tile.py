"""Where the rows of a workgroup's tiles lie: queries, and keys."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, Locate
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.template.index import Index, least, pieces, plus


class RowTile:
    """A tile of rows of queries: where they lie."""

    def __init__(self, b: KernelBuilder, problem: Attention, number: Value, size: int) -> None:
        self.b, self.problem, self.size = b, problem, size
        tiles = pieces(problem.rows, size)
        self.head_number, tile = placed(problem, number, tiles)
        self.head = unravel(b, self.head_number, problem.heads) if problem.heads else []
        if problem.scoring.is_causal:
            tile = tiles - 1 - tile
        self.first = tile * size

    def coordinates(self, row: Value) -> tuple[list[Index], Value]:
        """Return the heads and the query of a row of the tile, or of the last; and if it exists."""
        found = self.first + row
        clamped = self.b.min(found, self.problem.rows - 1)
        head: Index = 0
        query = clamped
        if self.problem.group > 1:
            head, query = clamped // self.problem.queries, clamped % self.problem.queries
        return [*self.head, head, query], found < self.problem.rows

    def locating(self, operand: Operand) -> Locate:
        """Return what says where the rows of an operand begin."""

        def locate(row: Value) -> tuple[Value, Value]:
            at, exists = self.coordinates(row)
            return operand.at([*at, 0]), exists

        return locate

    @property
    def keys(self) -> Index:
        """How many keys, from the first on, some row may attend to."""
        problem = self.problem
        if not problem.scoring.is_causal:
            return problem.keys
        last = plus(self.first, self.size) if problem.group == 1 else problem.queries
        return least(self.b, self.b.index(last), problem.keys)


def placed(problem: Attention, number: Value, tiles: int) -> tuple[Value, Value]:
    """Return the head and the tile of a workgroup.

    Where tiles take unequal times, those of a time run one after the other, in all heads.
    """
    if problem.scoring.is_causal:
        heads = problem.head_count
        return number % heads, number // heads
    return number // tiles, number % tiles


def locating_keys(
    b: KernelBuilder, operand: Operand, head: Sequence[Index], first: Value, keys: int
) -> Locate:
    """Return where the keys of a tile lie, from the first on."""

    def locate(row: Value) -> tuple[Value, Value]:
        key = first + row
        return operand.at([*head, b.min(key, keys - 1), 0]), key < keys

    return locate


def along_keys(
    operand: Operand, before: Sequence[Index], query: Index, first: Value, keys: int
) -> Value:
    """Return what an operand has for a query and four keys, from a multiple of four on.

    Behind the last key it is anything.  Where keys come by fours nothing is asked of each.
    """
    b, mask = operand.builder, None
    if keys % VECTOR:
        mask = b.splat(first, VECTOR) + iota(b, VECTOR) < keys
    else:
        first = b.min(first, keys - VECTOR)
    place = operand.at([*before, query, first])
    return operand.load_along(place, VECTOR, mask=mask, is_aligned=True)
