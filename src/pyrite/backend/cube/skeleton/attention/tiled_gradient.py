"""Gradients of attention on a GPU: of queries by tiles of queries, of keys and values by theirs.

A workgroup has a tile of the one side, whose rows and cotangents, or values, stay in shared memory,
turned; and goes over the other side by tiles, which come there in turn as they are needed, turned
or not.  Probabilities are made again from logsumexp.  Nobody writes to what another has, so the
order of all sums is known; scores are made twice, seven products in all.

With 64 x 32 scores, heads of 64 and float32 a product is 2 x 64 x 32 x 64 operations for 8 KiB that
are read, 32 for each byte: three of them for each tile of keys, four for each of queries.

Source: Dao 2023, arXiv:2307.08691, algorithm 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand, iota, unravel, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Said, Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Locate,
    Sums,
    TileConfig,
    Workgroup,
)
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces


class TiledGradient:
    """The skeleton of both kernels; operands are those of `Gradient`.

    There is of_query, without the axis of parts, or else of_key and of_value, or one of the two.
    """

    def __init__(self, name: str, kernel: type[_Kernel]) -> None:
        self.name = name
        self._kernel = kernel

    def candidates(self, problem: Attention, machine: Machine) -> Sequence[TileConfig]:
        """Return the configs that are right for a problem on a device."""
        return choice.gradient_candidates(problem, machine, self._kernel.sizes(problem))

    def select(self, problem: Attention, machine: Machine) -> TileConfig:
        """Return the candidate that seems best."""
        return choice.select(self.candidates(problem, machine), self._kernel.rows(problem))

    def workgroups(self, problem: Attention, config: TileConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(self._kernel.rows(problem), config.rows) * problem.head_count

    def build(self, problem: Attention, config: TileConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b = KernelBuilder(self.name, workgroup_size=config.threads, grid=grid)
        kernel = self._kernel(b, problem, config)
        number = workgroup_of(b)
        if grid == 1:
            kernel.write(number)
            return b.build()
        with b.if_(number < self.workgroups(problem, config)):
            kernel.write(number)
        return b.build()


class Pairs(ABC):
    """What own rows and a vector of columns are, and what operands say of them."""

    #: Which columns there are.
    exists: Value

    @abstractmethod
    def query(self, row: Value) -> Value:
        """Return the query of a row, or of each column."""

    @abstractmethod
    def key(self, row: Value) -> Value:
        """Return the key of a row, or of each column."""

    @abstractmethod
    def said(self, row: Value) -> Said:
        """Return what tells of the scores of a row."""

    @abstractmethod
    def of_query(self, operand: Operand, row: Value) -> Value:
        """Return what an operand has for the query of a row, or of each column."""

    @abstractmethod
    def words(self, draws: Draws, block: Value) -> Sequence[Value]:
        """Return the random words of four own rows from ``block`` on and a vector of columns."""


class _Kernel(ABC):
    def __init__(self, b: KernelBuilder, problem: Attention, config: TileConfig) -> None:
        self.b, self.problem, self.config = b, problem, config
        self.operands = operands_of(b, problem)
        group = self.group = Workgroup(b, config, problem.dtype.compute)
        self.scores = Scores(b, problem, group.type)
        self.draws = self.scores.draws(self.operands)
        #: The tile's rows, turned: queries and cotangents, or keys and values.
        self.left = group.shared(problem.size * config.rows)
        self.right = group.shared(problem.value_size * config.rows)
        size = max(problem.size, problem.value_size)
        self.columns = group.shared(config.line(size))
        self.slopes = group.shared(config.rows * config.columns)

    @staticmethod
    @abstractmethod
    def rows(problem: Attention) -> int:
        """Return how many rows a head has, which are cut into tiles."""

    @staticmethod
    @abstractmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        """Return the sizes of the gradients that may be wanted."""

    @abstractmethod
    def write(self, number: Value) -> None:
        """Write the gradients of a tile."""

    def products(self, rows: Memory, name: str, locate: Locate, size: int) -> Sums:
        """Return the products of the tile's rows with columns, which are copied, turned."""
        b, group, config = self.b, self.group, self.config
        b.barrier()
        group.fill_lines(self.columns, self.operands[name], locate, config.columns, size)
        b.barrier()
        return group.multiply(group.zeros(1), rows, self.columns, size, config.columns)

    def add(self, sums: Sums, tile: Sums, name: str, locate: Locate, size: int) -> Sums:
        """Return sums with the products of a tile of own rows with rows of an operand."""
        b, group, config = self.b, self.group, self.config
        b.barrier()
        group.put_turned(self.slopes, tile)
        group.fill_rows(self.columns, self.operands[name], locate, size)
        b.barrier()
        return group.multiply(sums, self.slopes, self.columns, config.columns, config.padded(size))

    def probabilities(self, products: Sums, pairs: Pairs) -> tuple[Sums, list[Value | None]]:
        """Return the probabilities of own rows, and the slopes of what caps their scores."""
        b, scores = self.b, self.scores
        weights, slopes = [], []
        for row, product in zip(self.group.own_rows, products, strict=True):
            capped, slope = scores.capped(product)
            score = scores.blocked(capped, pairs.said(row), pairs.query(row), pairs.key(row))
            log_sum = scores.or_zero(pairs.of_query(self.operands["log_sum"], row))
            weight = scores.k.exp(score - self.wide(log_sum))
            weights.append(b.select(pairs.exists, weight, scores.zero))
            slopes.append(slope)
        return weights, slopes

    def words(self, pairs: Pairs) -> Sequence[Value | None]:
        """Return the random words of own rows; None without dropout."""
        if self.draws is None:
            return [None] * self.config.own_rows
        blocks = self.group.own_blocks
        return [word for block in blocks for word in pairs.words(self.draws, block)]

    def cotangents(
        self, weights: Sums, slopes: Sequence[Value | None], products: Sums, pairs: Pairs,
        words: Sequence[Value | None],
    ) -> Sums:  # fmt: skip
        """Return the cotangents of the products that scores were made of."""
        found = []
        for row, weight, slope, product, word in zip(
            self.group.own_rows, weights, slopes, products, words, strict=True
        ):
            shared = pairs.of_query(self.operands["shared"], row)
            dropped = self.scores.dropped(product, word)
            cotangent = weight * (dropped - self.wide(shared))
            found.append(cotangent if slope is None else cotangent * slope)
        return found

    def wide(self, x: Value) -> Value:
        """Return a vector of x, if it is one number."""
        return x if x.width > 1 else self.b.splat(x, VECTOR)


# ---- by queries ----


class _QueryPairs(Pairs):
    """Rows are queries, columns keys from the first of a tile on."""

    def __init__(self, kernel: _Kernel, tile: RowTile, first: Value) -> None:
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


class _OfQueries(_Kernel):
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
        group.fill_lines(self.left, query, tile.locating(query), rows, problem.size, scale)
        group.fill_lines(self.right, g, tile.locating(g), rows, problem.value_size)
        sums = group.zeros(config.vectors(problem.size))
        keys = b.index(tile.keys)
        with b.for_(0, keys, step=config.columns, carried=sums) as loop:
            loop.yield_(*self.step(tile, loop.index, list(loop.carried)))
        target = self.operands["of_query"]
        group.store_rows(
            target, tile.locating(target), loop.results, problem.size, [scale] * config.own_rows
        )

    def step(self, tile: RowTile, first: Value, sums: Sums) -> Sums:
        """Add what a tile of keys gives."""
        problem, operands = self.problem, self.operands

        def locate(name: str) -> Locate:
            return locating_keys(self.b, operands[name], tile.head, first, problem.keys)

        pairs = _QueryPairs(self, tile, first)
        products = self.products(self.left, "key", locate("key"), problem.size)
        weights, slopes = self.probabilities(products, pairs)
        products = self.products(self.right, "value", locate("value"), problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, self.words(pairs))
        return self.add(sums, cotangents, "key", locate("key"), problem.size)


# ---- by keys ----


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


class _OfKeys(_Kernel):
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
        group.fill_lines(self.left, key, self.keys_of(key), rows, problem.size, scale)
        group.fill_lines(self.right, value, self.keys_of(value), rows, problem.value_size)
        of_keys = self.zeros_of("of_key", problem.size)
        sums = [*of_keys, *self.zeros_of("of_value", problem.value_size)]
        #: How many of the sums are those of keys, which come first.
        self.count = len(of_keys)
        start = self.first if problem.scoring.is_causal else b.index(0)
        with b.for_(0, problem.group, carried=sums) as head:
            with b.for_(start, problem.queries, step=config.columns, carried=head.carried) as loop:
                loop.yield_(*self.step(head.index, loop.index, list(loop.carried)))
            head.yield_(*loop.results)
        self.store("of_key", head.results[: self.count], problem.size, scale)
        self.store("of_value", head.results[self.count :], problem.value_size, 1.0)

    def zeros_of(self, name: str, size: int) -> Sums:
        """Return the first sums of gradients, if these are wanted."""
        return self.group.zeros(self.config.vectors(size)) if name in self.operands else []

    def keys_of(self, operand: Operand) -> Locate:
        """Return where the tile's rows of an operand lie."""
        return locating_keys(self.b, operand, self.head, self.first, self.problem.keys)

    def step(self, head: Value, first: Value, sums: Sums) -> Sums:
        """Add what a tile of queries of one head of the group gives."""
        b, problem, operands = self.b, self.problem, self.operands

        def locate(name: str) -> Locate:
            return locating_keys(b, operands[name], [*self.head, head], first, problem.queries)

        pairs = _KeyPairs(self, head, first)
        words = self.words(pairs)
        products = self.products(self.left, "query", locate("query"), problem.size)
        weights, slopes = self.probabilities(products, pairs)
        products = self.products(self.right, "g", locate("g"), problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, words)
        of_keys, of_values = sums[: self.count], sums[self.count :]
        if "of_value" in self.operands:
            dropped = [
                self.scores.dropped(weight, word)
                for weight, word in zip(weights, words, strict=True)
            ]
            of_values = self.add(of_values, dropped, "g", locate("g"), problem.value_size)
        if "of_key" in self.operands:
            of_keys = self.add(of_keys, cotangents, "query", locate("query"), problem.size)
        return [*of_keys, *of_values]

    def store(self, name: str, sums: Sequence[Value], size: int, factor: float) -> None:
        """Write gradients, if they are wanted."""
        if name in self.operands:
            target = self.operands[name]
            factors = [factor] * self.config.own_rows
            self.group.store_rows(target, self.keys_of(target), sums, size, factors)


OF_QUERIES = TiledGradient("tiled attention gradient of queries", _OfQueries)
OF_KEYS = TiledGradient("tiled attention gradient of keys", _OfKeys)
