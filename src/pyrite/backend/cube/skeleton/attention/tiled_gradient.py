"""Gradients of attention on a GPU: of queries by tiles of queries, of keys and values by theirs.

A workgroup has a tile of the one side, whose rows and cotangents, or values, stay in shared memory,
turned; and goes over the other side by tiles, which come there in turn as they are needed, turned
or not; each is fetched to registers before the product that it follows.  Probabilities are made
again from logsumexp.  Nobody writes to what another has, so the order of all sums is known.

Where the kernel of keys writes the cotangents of products to memory, as ``slopes`` of shape
(*heads, group, keys, queries), the gradients of queries are a product of matrices; else scores are
made twice, by both kernels, and products are seven in all instead of six.

With 64 x 32 scores, heads of 64 and float32 a product is 2 x 64 x 32 x 64 operations for 8 KiB that
are read, 32 for each byte: three of them for each tile of keys, four for each of queries.

Source: Dao 2023, arXiv:2307.08691, algorithm 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from pyrite.backend.cube.operand import Operand, iota, unravel, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Said, Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Copy,
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

    There is of_query, without the axis of parts, or else of_key and of_value, or one of the two;
    and then maybe slopes.
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

    def copy(self, name: str, locate: Callable[[Operand], Locate], *, is_turned: bool) -> Copy:
        """Return the copy of a tile of columns of an operand, turned, or as rows."""
        operand, problem = self.operands[name], self.problem
        size = problem.size if name in ("query", "key") else problem.value_size
        if is_turned:
            return self.group.lines(
                self.columns, operand, locate(operand), self.config.columns, size
            )
        return self.group.rows(self.columns, operand, locate(operand), size)

    def take(self, copy: Copy, fetched: Sequence[Value], following: Copy) -> list[Value]:
        """Write what has been fetched of columns to shared memory, and fetch what follows."""
        copy.put(fetched)
        fetched = following.fetch()
        self.b.barrier()
        return fetched

    def products(self, rows: Memory, size: int) -> Sums:
        """Return the products of the tile's rows with columns, which are turned."""
        group = self.group
        return group.multiply(
            group.zeros(1), rows, self.columns, size, self.config.columns, is_turned=True
        )

    def add(self, sums: Sums, size: int) -> Sums:
        """Return sums with the products of the tile in shared memory with rows of columns."""
        config = self.config
        return self.group.multiply(
            sums, self.slopes, self.columns, config.columns, config.padded(size)
        )

    def probabilities(self, products: Sums, pairs: Pairs) -> tuple[Sums, list[Value | None]]:
        """Return the probabilities of own rows, and the slopes of what caps their scores."""
        b, scores = self.b, self.scores
        weights, slopes = [], []
        for row, product in zip(self.group.own_rows, products, strict=True):
            capped, slope = scores.capped(product)
            score = scores.blocked(capped, pairs.said(row), pairs.query(row), pairs.key(row))
            log_sum = scores.or_zero(pairs.of_query(self.operands["log_sum"], row))
            weight = scores.exp(score - self.wide(log_sum))
            weights.append(b.select(pairs.exists, weight, scores.zero))
            slopes.append(slope)
        return weights, slopes

    def words(self, pairs: Pairs) -> Sequence[Value | None]:
        """Return the random words of own rows; None without dropout."""
        if self.draws is None:
            return [None] * self.config.own_rows
        blocks = self.group.own_blocks
        return [word for block in blocks for word in pairs.words(self.draws, block * VECTOR)]

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


OF_QUERIES = TiledGradient("tiled attention gradient of queries", _OfQueries)
OF_KEYS = TiledGradient("tiled attention gradient of keys", _OfKeys)
