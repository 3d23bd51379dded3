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

from pyrite.backend.cube.operand import Operand, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
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

    def __init__(self, name: str, kernel: type[GradientKernel]) -> None:
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


class GradientKernel(ABC):
    """What the kernels of both sides share: tiles in shared memory, and products of them."""

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
