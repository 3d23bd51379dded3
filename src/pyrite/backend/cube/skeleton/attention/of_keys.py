"""Gradients of keys and values by tiles of keys, on a GPU: see `tiled_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Said
from pyrite.backend.cube.skeleton.attention.tiled_gradient import (
    GradientKernel,
    Pairs,
    TiledGradient,
)
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, Copy, Locate, Sums
from pyrite.kernel import Value
from pyrite.kernel.template.index import pieces


class _KeyPairs(Pairs):
    """Rows are keys of a tile, columns queries of a head from one on."""

    def __init__(self, kernel: _OfKeys, head: Value, first: Value) -> None:
        self.b, self.operands, self.problem = kernel.b, kernel.operands, kernel.problem
        self.head, self.first_key = [*kernel.head, head], kernel.first
        self.head_number, self.head_of_group = kernel.head_number, head
        self.start = first + kernel.group.first_column
        self.queries = self.b.splat(self.start, VECTOR) + iota(self.b, VECTOR)
        self.exists = self.queries < self.problem.queries

    def query(self, row: Value) -> Value:
        return self.queries

    def key(self, row: Value) -> Value:
        return self.b.min(self.first_key + row, self.problem.keys - 1)

    def said(self, row: Value) -> Said:
        def of(name: str) -> Value:
            operand = self.operands[name]
            place = operand.at([*self.head, self.start, self.key(row)])
            return operand.load_along(place, VECTOR, axis=-2, mask=self.exists)

        return of

    def of_query(self, operand: Operand, row: Value) -> Value:
        place = operand.at([*self.head, self.start])
        return operand.load_along(place, VECTOR, mask=self.exists, is_aligned=True)

    def words(self, draws: Draws, block: Value) -> Sequence[Value]:
        rows = self.b.splat(self.head_of_group * self.problem.queries, VECTOR) + self.queries
        first = self.b.splat(self.first_key + block, VECTOR)
        return draws.words(draws.row(self.head_number, rows), first)


class _OfKeys(GradientKernel):
    @staticmethod
    def rows(problem: Attention) -> int:
        return problem.keys

    @staticmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        return problem.size, problem.value_size

    def write(self, number: Value) -> None:
        b, problem, group, config = self.b, self.problem, self.group, self.config
        tiles = pieces(problem.keys, config.rows)
        self.head_number = number // tiles
        self.head = unravel(b, self.head_number, problem.heads) if problem.heads else []
        self.first = number % tiles * config.rows
        scale, rows = problem.scoring.scale, config.rows
        key, value = self.operands["key"], self.operands["value"]
        group.lines(self.left, key, self.keys_of(key), rows, problem.size, scale).put([])
        group.lines(self.right, value, self.keys_of(value), rows, problem.value_size).put([])
        of_keys = self.zeros_of("of_key", problem.size)
        sums = [*of_keys, *self.zeros_of("of_value", problem.value_size)]
        #: How many of the sums are those of keys, which come first.
        self.count = len(of_keys)
        start = self.first if problem.scoring.is_causal else b.index(0)
        sized = len(sums)
        with b.for_(0, problem.group, carried=sums) as head:
            if problem.scoring.is_causal and "slopes" in self.operands:
                self.leave_out(head.index, start)
            fetched = self.columns_of(head.index, "query", start).fetch()
            carried = [*head.carried, *fetched]
            with b.for_(start, problem.queries, step=config.columns, carried=carried) as loop:
                found = list(loop.carried)
                loop.yield_(*self.step(head.index, loop.index, found[:sized], found[sized:]))
            head.yield_(*list(loop.results)[:sized])
        self.store("of_key", head.results[: self.count], problem.size, scale)
        self.store("of_value", head.results[self.count :], problem.value_size, 1.0)

    def columns_of(self, head: Value, name: str, first: Value, *, is_turned: bool = True) -> Copy:
        """Return the copy of the queries or cotangents of a tile of a head from the first on."""

        def locate(operand: Operand) -> Locate:
            return locating_keys(self.b, operand, [*self.head, head], first, self.problem.queries)

        return self.copy(name, locate, is_turned=is_turned)

    def zeros_of(self, name: str, size: int) -> Sums:
        """Return the first sums of gradients, if these are wanted."""
        return self.group.zeros(self.config.vectors(size)) if name in self.operands else []

    def keys_of(self, operand: Operand) -> Locate:
        """Return where the tile's rows of an operand lie."""
        return locating_keys(self.b, operand, self.head, self.first, self.problem.keys)

    def step(self, head: Value, first: Value, sums: Sums, fetched: list[Value]) -> list[Value]:
        """Add what a tile of queries of one head of the group gives; see `_OfQueries.step`."""
        b, problem = self.b, self.problem
        pairs = _KeyPairs(self, head, first)
        words = self.words(pairs)
        wanted = [
            (name, tile) for name, tile in (("of_value", "g"), ("of_key", "query"))
            if name in self.operands
        ]  # fmt: skip
        queries, cotangents_of = (self.columns_of(head, name, first) for name in ("query", "g"))
        rows = [self.columns_of(head, tile, first, is_turned=False) for _, tile in wanted]
        next_queries = self.columns_of(head, "query", first + self.config.columns)
        following = [cotangents_of, *rows, next_queries]
        b.barrier()
        fetched = self.take(queries, fetched, cotangents_of)
        weights, slopes = self.probabilities(self.products(self.left, problem.size), pairs)
        b.barrier()
        fetched = self.take(cotangents_of, fetched, following[1])
        products = self.products(self.right, problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, words)
        self.keep(head, pairs, cotangents)
        found = {"of_key": sums[: self.count], "of_value": sums[self.count :]}
        for n, (name, _) in enumerate(wanted):
            tile, size = cotangents, problem.size
            if name == "of_value":
                size = problem.value_size
                tile = [
                    self.scores.dropped(weight, word)
                    for weight, word in zip(weights, words, strict=True)
                ]
            b.barrier()
            self.group.put_turned(self.slopes, tile)
            fetched = self.take(rows[n], fetched, following[n + 2])
            found[name] = self.add(found[name], size)
        return [*found["of_key"], *found["of_value"], *fetched]

    def keep(self, head: Value, pairs: _KeyPairs, cotangents: Sums) -> None:
        """Write the cotangents of the products, times the scale, if they are wanted."""
        if "slopes" not in self.operands:
            return
        for row, cotangent in zip(self.group.own_rows, cotangents, strict=True):
            value = cotangent * self.problem.scoring.scale
            self.keep_row(head, row, pairs.start, value)

    def keep_row(self, head: Value, row: Value, start: Value, value: Value) -> None:
        """Write a vector of what is kept of a row, where there is such a key and such queries."""
        b, operand, problem = self.b, self.operands["slopes"], self.problem
        place = operand.at([*self.head, head, self.first + row, start])
        exists = self.first + row < problem.keys
        if operand.layout.alignment % VECTOR == 0:  # the rows are whole vectors
            with b.if_(exists & (start < problem.queries)):
                operand.store_along(place, value, is_aligned=True)
        else:
            queries = b.splat(start, VECTOR) + iota(b, VECTOR)
            mask = (queries < problem.queries) & b.splat(exists, VECTOR)
            operand.store_along(place, value, mask=mask)

    def leave_out(self, head: Value, end: Value) -> None:
        """Write 0 as what is kept of the queries before the tile's keys."""
        b, group = self.b, self.group
        with b.for_(0, end, step=self.config.columns) as loop:
            for row in group.own_rows:
                self.keep_row(head, row, loop.index + group.first_column, self.scores.zero)
            loop.yield_()

    def store(self, name: str, sums: Sequence[Value], size: int, factor: float) -> None:
        """Write gradients, if they are wanted."""
        if name in self.operands:
            target = self.operands[name]
            factors = [factor] * self.config.own_rows
            self.group.store_rows(target, self.keys_of(target), sums, size, factors)


OF_KEYS: Final = TiledGradient("tiled attention gradient of keys", _OfKeys)
