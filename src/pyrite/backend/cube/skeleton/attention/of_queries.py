"""Gradients of queries by tiles of queries, on a GPU: see `tiled_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.operand import Operand, iota
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Said
from pyrite.backend.cube.skeleton.attention.tiled_gradient import (
    GradientKernel,
    Pairs,
    TiledGradient,
)
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, Copy, Locate, Sums
from pyrite.kernel import Value


class _QueryPairs(Pairs):
    """Rows are queries, columns keys from the first of a tile on."""

    def __init__(self, kernel: GradientKernel, tile: RowTile, first: Value) -> None:
        self.b, self.operands, self.tile = kernel.b, kernel.operands, tile
        self.start = first + kernel.group.first_column
        self.keys = self.b.splat(self.start, VECTOR) + iota(self.b, VECTOR)
        self.exists = self.keys < kernel.problem.keys

    def query(self, row: Value) -> Value:
        return self.b.index(self.tile.coordinates(row)[0][-1])

    def key(self, row: Value) -> Value:
        return self.keys

    def said(self, row: Value) -> Said:
        at = self.tile.coordinates(row)[0]

        def of(name: str) -> Value:
            operand = self.operands[name]
            place = operand.at([*at, self.start])
            return operand.load_along(place, VECTOR, mask=self.exists, is_aligned=True)

        return of

    def of_query(self, operand: Operand, row: Value) -> Value:
        return operand[self.tile.coordinates(row)[0]]

    def words(self, draws: Draws, block: Value) -> Sequence[Value]:
        rows = [self.tile.first + block + i for i in range(VECTOR)]
        numbers = [draws.row(self.tile.head_number, row) for row in rows]
        return [self.b.make(draws.words(number, self.start)) for number in numbers]


class _OfQueries(GradientKernel):
    @staticmethod
    def rows(problem: Attention) -> int:
        return problem.rows

    @staticmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        return (problem.size,)

    def write(self, number: Value) -> None:
        b, problem, group, config = self.b, self.problem, self.group, self.config
        tile = RowTile(b, problem, number, config.rows)
        scale, rows = problem.scoring.scale, config.rows
        query, g = self.operands["query"], self.operands["g"]
        group.lines(self.left, query, tile.locating(query), rows, problem.size, scale).put([])
        group.lines(self.right, g, tile.locating(g), rows, problem.value_size).put([])
        sums = group.zeros(config.vectors(problem.size))
        self.count = len(sums)
        fetched = self.columns_of(tile, "key", b.index(0)).fetch()
        with b.for_(0, b.index(tile.keys), step=config.columns, carried=[*sums, *fetched]) as loop:
            carried = list(loop.carried)
            found = self.step(tile, loop.index, carried[: self.count], carried[self.count :])
            loop.yield_(*found)
        target, found = self.operands["of_query"], list(loop.results)[: self.count]
        group.store_rows(
            target, tile.locating(target), found, problem.size, [scale] * config.own_rows
        )

    def columns_of(self, tile: RowTile, name: str, first: Value, *, is_turned: bool = True) -> Copy:
        """Return the copy of the keys or values of a tile from the first on."""

        def locate(operand: Operand) -> Locate:
            return locating_keys(self.b, operand, tile.head, first, self.problem.keys)

        return self.copy(name, locate, is_turned=is_turned)

    def step(self, tile: RowTile, first: Value, sums: Sums, fetched: list[Value]) -> list[Value]:
        """Add what a tile of keys gives, whose first copy is fetched; return the next one's too."""
        problem, b = self.problem, self.b
        pairs = _QueryPairs(self, tile, first)
        keys, values = (self.columns_of(tile, name, first) for name in ("key", "value"))
        rows = self.columns_of(tile, "key", first, is_turned=False)
        following = self.columns_of(tile, "key", first + self.config.columns)
        b.barrier()
        fetched = self.take(keys, fetched, values)
        weights, slopes = self.probabilities(self.products(self.left, problem.size), pairs)
        b.barrier()
        fetched = self.take(values, fetched, rows)
        products = self.products(self.right, problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, self.words(pairs))
        b.barrier()
        self.group.put_turned(self.slopes, cotangents)
        fetched = self.take(rows, fetched, following)
        return [*self.add(sums, problem.size), *fetched]


OF_QUERIES: Final = TiledGradient("tiled attention gradient of queries", _OfQueries)
