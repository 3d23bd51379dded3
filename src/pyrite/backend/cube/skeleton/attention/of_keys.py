"""Gradients of keys and values by tiles of keys, on a GPU: see `tiled_gradient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import along_keys, locating_keys, placed
from pyrite.backend.cube.skeleton.attention.scores import Said
from pyrite.backend.cube.skeleton.attention.tiled_gradient import (
    GradientKernel,
    Pairs,
    Side,
    Stages,
    TiledGradient,
)
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Copy,
    Locate,
    Sums,
    fetched_of,
)
from pyrite.kernel import Value
from pyrite.kernel.template.index import pieces
from pyrite.kernel.template.product import BEHIND


class KeyPairs(Pairs):
    """Rows are keys of a tile, columns queries of a head from one on."""

    def __init__(self, kernel: KeyTiles, head: Value, first: Value, v: int) -> None:
        self.b, self.operands, self.problem = kernel.b, kernel.operands, kernel.problem
        self.head, self.first_key = [*kernel.head, head], kernel.first
        self.head_number, self.head_of_group = kernel.head_number, head
        self.start = first + kernel.group.column(v)
        self.queries = self.b.splat(self.start, VECTOR) + iota(self.b, VECTOR)
        self.exists = self.queries < self.problem.queries
        self.own_rows = kernel.group.own_rows
        #: What was loaded of operands for four rows: a vector of keys for each query.
        self.loaded: dict[tuple[str, int], list[Value]] = {}

    def query(self, row: Value) -> Value:
        return self.queries

    def key(self, row: Value) -> Value:
        return self.b.min(self.first_key + row, self.problem.keys - 1)

    def said(self, row: Value) -> Said:
        number = next(n for n, own in enumerate(self.own_rows) if own is row)
        block, lane = divmod(number, VECTOR)

        def of(name: str) -> Value:
            if (name, block) not in self.loaded:
                first = self.own_rows[block * VECTOR]
                self.loaded[name, block] = self.of_keys(self.operands[name], first)
            return self.b.make([keys[lane] for keys in self.loaded[name, block]])

        return of

    def of_keys(self, operand: Operand, row: Value) -> list[Value]:
        """Return for each query what an operand has for four keys, from a row's on.

        These mostly lie in one word.  What it is where there is no such query does not matter.
        """
        problem, first = self.problem, self.first_key + row
        queries = [self.b.min(self.queries[lane], problem.queries - 1) for lane in range(VECTOR)]
        return [along_keys(operand, self.head, query, first, problem.keys) for query in queries]

    def of_query(self, operand: Operand, row: Value) -> Value:
        place = operand.at([*self.head, self.start])
        return operand.load_along(place, VECTOR, mask=self.exists, is_aligned=True)

    def words(self, draws: Draws, block: Value) -> Sequence[Value]:
        rows = self.b.splat(self.head_of_group * self.problem.queries, VECTOR) + self.queries
        first = self.b.splat(self.first_key + block, VECTOR)
        return draws.words(draws.row(self.head_number, rows), first)


class KeyTiles(GradientKernel):
    """What kernels have in common whose own rows are keys."""

    @staticmethod
    def rows(problem: Attention) -> int:
        return problem.keys

    def place(self, head: Value, tile: Value) -> None:
        """Begin a tile of keys of a head."""
        self.head_number = head
        self.head = unravel(self.b, head, self.problem.heads) if self.problem.heads else []
        self.first = tile * self.config.rows

    def scored(self, head: Value, first: Value) -> list[list[Copy]]:
        """Return the slabs of keys and of queries of a head, from the first on."""
        problem, query = self.problem, self.side("query", head, first)
        return [
            self.slab_of(self.side("key"), query, slab, problem.scoring.scale)
            for slab in self.config.slabs(problem.size)
        ]

    def valued(self, head: Value, first: Value) -> list[list[Copy]]:
        """Return the slabs of values and of cotangents."""
        return [
            self.slab_of(self.side("value"), self.side("g", head, first), slab)
            for slab in self.config.slabs(self.problem.value_size)
        ]

    def side(self, name: str, head: Value | None = None, first: Value | None = None) -> Side:
        """Return an operand and where its rows lie: the tile's, or queries of a head."""
        operand = self.operands[name]
        if head is None or first is None:
            return operand, self.keys_of(operand)
        at = [*self.head, head]
        return operand, locating_keys(self.b, operand, at, first, self.problem.queries)

    def keys_of(self, operand: Operand) -> Locate:
        """Return where the tile's rows of an operand lie."""
        return locating_keys(self.b, operand, self.head, self.first, self.problem.keys)

    def keep(
        self, name: str, head: Value, pairs: Sequence[Pairs], values: Sums, factor: float = 1.0
    ) -> None:
        """Write what is kept of scores, times a factor, if it is wanted."""
        if name not in self.operands:
            return
        for (row, pair), value in zip(self.each(pairs), values, strict=True):
            kept = value if factor == 1.0 else value * factor
            self.keep_row(name, head, row, pair.start, kept)

    def keep_row(self, name: str, head: Value, row: Value, start: Value, value: Value) -> None:
        """Write a vector of what is kept of a row, where there is such a key and such queries."""
        b, operand, problem = self.b, self.operands[name], self.problem
        place = operand.at([*self.head, head, self.first + row, start])
        exists = self.first + row < problem.keys
        if operand.layout.alignment % VECTOR == 0:  # the rows are whole vectors
            with b.if_(exists & (start < problem.queries)):
                operand.store_along(place, value, is_aligned=True)
        else:
            queries = b.splat(start, VECTOR) + iota(b, VECTOR)
            mask = (queries < problem.queries) & b.splat(exists, VECTOR)
            operand.store_along(place, value, mask=mask)


class _OfKeys(KeyTiles):
    @staticmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        return problem.size, problem.value_size

    def write(self, number: Value) -> None:
        b, problem, config = self.b, self.problem, self.config
        self.place(*placed(problem, number, pieces(problem.keys, config.rows)))
        of_keys = self.zeros_of("of_key", problem.size)
        sums = [*of_keys, *self.zeros_of("of_value", problem.value_size)]
        #: How many of the sums are those of keys, which come first.
        self.count = len(of_keys)
        start = self.first if problem.scoring.is_causal else b.index(0)
        sized = len(sums)
        with b.for_(0, problem.group, carried=sums, is_entered=True) as head:
            if problem.scoring.is_causal and "slopes" in self.operands:
                self.leave_out(head.index, start)
            fetched = fetched_of(self.copies(head.index, start)[0])
            carried = [*head.carried, *fetched]
            with b.for_(
                start, problem.queries, step=config.columns, carried=carried,
                is_entered=not problem.scoring.is_causal,
            ) as loop:  # fmt: skip
                found = list(loop.carried)
                loop.yield_(*self.step(head.index, loop.index, found[:sized], found[sized:]))
            head.yield_(*list(loop.results)[:sized])
        scale = problem.scoring.scale
        self.store("of_key", head.results[: self.count], problem.size, scale)
        self.store("of_value", head.results[self.count :], problem.value_size, 1.0)

    def copies(self, head: Value, first: Value) -> list[list[Copy]]:
        """Return what a tile of queries of a head, from the first on, has in shared memory in turn.

        These are slabs of keys and queries, rows of cotangents, slabs of values and of cotangents,
        and then rows of queries.
        """
        problem = self.problem
        return [
            *self.scored(head, first),
            *self.rows_of("of_value", "g", problem.value_size, head, first),
            *self.valued(head, first),
            *self.rows_of("of_key", "query", problem.size, head, first),
        ]  # fmt: skip

    def rows_of(
        self, gradient: str, name: str, size: int, head: Value, first: Value
    ) -> list[list[Copy]]:
        """Return what a gradient is a product with, in turn; nothing if it is not wanted."""
        if gradient not in self.operands:
            return []
        lines = self.config.lines
        starts = [first + v * lines if v else first for v in range(self.config.own_vectors)]
        return [
            [self.group.rows(self.right, *self.side(name, head, start), size)] for start in starts
        ]

    def zeros_of(self, name: str, size: int) -> Sums:
        """Return the first sums of gradients, if these are wanted."""
        return self.group.zeros(self.config.vectors(size)) if name in self.operands else []

    def step(self, head: Value, first: Value, sums: Sums, fetched: list[Value]) -> list[Value]:
        """Add what a tile of queries of one head of the group gives; see `_OfQueries.step`."""
        problem, config = self.problem, self.config
        pairs = [KeyPairs(self, head, first, v) for v in range(config.own_vectors)]
        words = self.words(pairs)
        following = self.copies(head, first + config.columns)[0]
        stages = Stages(self.b, [*self.copies(head, first), following], fetched)
        weights, slopes = self.probabilities(self.products(stages, problem.size), pairs)
        of_key, of_value = sums[: self.count], sums[self.count :]
        # Values first: there are no cotangents then, which would be in registers beside weights.
        if "of_value" in self.operands:
            dropped = [
                self.scores.dropped(weight, word)
                for weight, word in zip(weights, words, strict=True)
            ]
            of_value = self.add(stages, of_value, dropped, problem.value_size)
        products = self.products(stages, problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, words)
        self.keep("slopes", head, pairs, cotangents, problem.scoring.scale)
        if "of_key" in self.operands:
            of_key = self.add(stages, of_key, cotangents, problem.size)
        return [*of_key, *of_value, *stages.fetched]

    def leave_out(self, head: Value, end: Value) -> None:
        """Write 0 as what is kept of the last queries before the tile's keys.

        The product that reads it leaves out those before them.
        """
        b, group = self.b, self.group
        with b.for_(b.max(end, BEHIND) - BEHIND, end, step=self.config.columns) as loop:
            for row in group.own_rows:
                for v in range(self.config.own_vectors):
                    self.keep_row(
                        "slopes", head, row, loop.index + group.column(v), self.scores.zero
                    )
            loop.yield_()

    def store(self, name: str, sums: Sequence[Value], size: int, factor: float) -> None:
        """Write gradients, if they are wanted."""
        if name in self.operands:
            target = self.operands[name]
            factors = [factor] * self.config.own_rows
            self.group.store_rows(target, self.keys_of(target), sums, size, factors)


OF_KEYS: Final = TiledGradient("tiled attention gradient of keys", _OfKeys)
