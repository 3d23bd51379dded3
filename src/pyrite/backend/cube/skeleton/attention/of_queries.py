"""Gradients of queries by tiles of queries, on a GPU: see `tiled_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.operand import Operand, iota
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, along_keys, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Said
from pyrite.backend.cube.skeleton.attention.tiled_gradient import (
    GradientKernel,
    Pairs,
    Side,
    Stages,
    TiledGradient,
)
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, Copy, Sums, fetched_of
from pyrite.kernel import Value


class _QueryPairs(Pairs):
    """Rows are queries, columns keys from the first of a tile on."""

    def __init__(self, kernel: GradientKernel, tile: RowTile, first: Value, v: int) -> None:
        self.b, self.operands, self.tile = kernel.b, kernel.operands, tile
        self.start = first + kernel.group.column(v)
        self.keys = self.b.splat(self.start, VECTOR) + iota(self.b, VECTOR)
        self.exists = self.keys < kernel.problem.keys

    def query(self, row: Value) -> Value:
        return self.b.index(self.tile.coordinates(row)[0][-1])

    def key(self, row: Value) -> Value:
        return self.keys

    def said(self, row: Value) -> Said:
        *head, query = self.tile.coordinates(row)[0]

        def of(name: str) -> Value:
            keys = self.tile.problem.keys
            return along_keys(self.operands[name], head, query, self.start, keys)

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
        sums = group.zeros(config.vectors(problem.size))
        self.count = len(sums)
        fetched = fetched_of(self.copies(tile, b.index(0))[0])
        started, step = [*sums, *fetched], config.columns
        with b.for_(0, tile.keys, step=step, carried=started, is_entered=True) as loop:
            carried = list(loop.carried)
            found = self.step(tile, loop.index, carried[: self.count], carried[self.count :])
            loop.yield_(*found)
        target, found = self.operands["of_query"], list(loop.results)[: self.count]
        factors = [problem.scoring.scale] * config.own_rows
        group.store_rows(target, tile.locating(target), found, problem.size, factors)

    def copies(self, tile: RowTile, first: Value) -> list[list[Copy]]:
        """Return what a tile of keys, from the first on, has in shared memory in turn.

        These are slabs of queries and keys, of cotangents and values, and then rows of keys.
        """
        problem, config = self.problem, self.config

        def rows(name: str) -> Side:
            operand = self.operands[name]
            return operand, tile.locating(operand)

        def columns(name: str, start: Value = first) -> Side:
            operand = self.operands[name]
            return operand, locating_keys(self.b, operand, tile.head, start, problem.keys)

        scale = problem.scoring.scale
        found = [
            *(
                self.slab_of(rows("query"), columns("key"), slab, scale)
                for slab in config.slabs(problem.size)
            ),
            *(
                self.slab_of(rows("g"), columns("value"), slab)
                for slab in config.slabs(problem.value_size)
            ),
        ]
        for v in range(config.own_vectors):
            operand, locate = columns("key", first + v * config.lines if v else first)
            found.append([self.group.rows(self.right, operand, locate, problem.size)])
        return found

    def step(self, tile: RowTile, first: Value, sums: Sums, fetched: list[Value]) -> list[Value]:
        """Add what a tile of keys gives, whose first copy is fetched; return the next one's too."""
        problem, config = self.problem, self.config
        pairs = [_QueryPairs(self, tile, first, v) for v in range(config.own_vectors)]
        following = self.copies(tile, first + config.columns)[0]
        stages = Stages(self.b, [*self.copies(tile, first), following], fetched)
        weights, slopes = self.probabilities(self.products(stages, problem.size), pairs)
        products = self.products(stages, problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, self.words(pairs))
        return [*self.add(stages, sums, cotangents, problem.size), *stages.fetched]


OF_QUERIES: Final = TiledGradient("tiled attention gradient of queries", _OfQueries)
