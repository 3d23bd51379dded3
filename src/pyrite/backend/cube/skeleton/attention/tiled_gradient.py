"""Gradients of attention on a GPU: of queries by tiles of queries, of keys and values by theirs.

A workgroup has a tile of the one side, and goes over the other side by tiles; slabs of both come
to shared memory as products need them, turned or not, fetched to registers before the product that
they follow.  Probabilities are made again from logsumexp.  Nobody writes to what another has, so
the order of all sums is known.

Where the kernel of keys writes the cotangents of products to memory, as ``slopes`` of shape
(*heads, group, keys, queries), the gradients of queries are a product of matrices; else scores are
made twice, by both kernels, and products are seven in all instead of six.  Of long heads a kernel
keeps the probabilities too, as ``weights``, and sums nothing (`of_scores`).

With 64 x 64 scores, heads of 64 and float32 a product of scores is 2 x 64³ operations for 32 KiB
that are read, 16 for each byte, and one of gradients as many for 16 KiB; the tile's own side comes
again for each tile of the other, from a cache, and not from memory.

Source: Dao 2023, arXiv:2307.08691, algorithm 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from pyrite.backend.cube.operand import Operand, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.draws import Draws
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.scores import Said, Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Copy,
    Locate,
    Slab,
    Sums,
    TileConfig,
    Workgroup,
    fetched_of,
    put,
)
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces

#: An operand, and where its rows lie.
Side = tuple[Operand, Locate]


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
        found = self.candidates(problem, machine)
        return choice.select(found, self._kernel.rows(problem), problem.head_count, machine)

    def workgroups(self, problem: Attention, config: TileConfig) -> int:
        """Return how many workgroups run the kernel."""
        tiles = pieces(self._kernel.rows(problem), config.rows) * self._kernel.runs(problem)
        return tiles * problem.head_count

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


class Stages:
    """Slabs that come to shared memory in turn, each fetched to registers before its product.

    There are ``copies`` for each stage, the last of which are those that begin the next round.
    """

    def __init__(
        self, b: KernelBuilder, copies: Sequence[Sequence[Copy]], fetched: Sequence[Value]
    ) -> None:
        self.b, self.fetched = b, list(fetched)
        self._copies = iter([*copies])
        self._current = next(self._copies)

    def next(self, more: Callable[[], None] | None = None) -> None:
        """Write the slab to shared memory, with what else belongs there, and fetch what follows."""
        self.b.barrier()
        if more is not None:
            more()
        put(self._current, self.fetched)
        self._current = next(self._copies)
        self.fetched = fetched_of(self._current)
        self.b.barrier()


class Pairs(ABC):
    """What own rows and a vector of columns are, and what operands say of them."""

    #: The first column, and which columns there are.
    start: Value
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
        self.scores = Scores(b, problem, group.type, has_exp2=True)
        self.draws = self.scores.draws(self.operands)
        self.left = group.shared(config.left)
        self.right = group.shared(config.right(max(self.sizes(problem), default=0)))

    @staticmethod
    @abstractmethod
    def rows(problem: Attention) -> int:
        """Return how many rows a head has, which are cut into tiles."""

    @staticmethod
    def runs(problem: Attention) -> int:
        """Return into how many runs the other side is cut, each with workgroups of its own."""
        return 1

    @staticmethod
    @abstractmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        """Return the sizes of the gradients that may be wanted."""

    @abstractmethod
    def write(self, number: Value) -> None:
        """Write the gradients of a tile."""

    def slab_of(self, row: Side, column: Side, slab: Slab, factor: float = 1.0) -> list[Copy]:
        """Return the copies of a slab of rows and of columns, turned."""
        group, config = self.group, self.config
        (rows, of_rows), (columns, of_columns) = row, column
        return [
            group.lines(self.left, rows, of_rows, config.rows, slab, factor),
            group.lines(self.right, columns, of_columns, config.columns, slab),
        ]

    def products(self, stages: Stages, size: int) -> Sums:
        """Return the products of rows with columns, whose slabs are the next stages."""
        found = self.group.zeros(self.config.own_vectors)
        for _, count in self.config.slabs(size):
            stages.next()
            found = self.group.multiply(
                found, self.left, self.right, count, self.config.columns, is_turned=True
            )
        return found

    def add(self, stages: Stages, sums: Sums, tile: Sums, size: int) -> Sums:
        """Return sums with the products of a tile with rows of columns, the next stages."""
        config, group = self.config, self.group
        for v in range(config.own_vectors):
            stages.next(partial(group.put_turned, self.left, tile, v))
            sums = group.multiply(sums, self.left, self.right, config.lines, config.padded(size))
        return sums

    def probabilities(
        self, products: Sums, pairs: Sequence[Pairs]
    ) -> tuple[Sums, list[Value | None]]:
        """Return the probabilities of own rows, and the slopes of what caps their scores."""
        b, scores = self.b, self.scores
        weights, slopes = [], []
        for (row, pair), product in zip(self.each(pairs), products, strict=True):
            capped, slope = scores.capped(product)
            score = scores.blocked(capped, pair.said(row), pair.query(row), pair.key(row))
            log_sum = scores.or_zero(pair.of_query(self.operands["log_sum"], row))
            weight = scores.exp(score - self.wide(log_sum))
            weights.append(b.select(pair.exists, weight, scores.zero))
            slopes.append(slope)
        return weights, slopes

    def each(self, pairs: Sequence[Pairs]) -> list[tuple[Value, Pairs]]:
        """Return the row and the columns of each vector, as sums have them."""
        return [(row, pair) for row in self.group.own_rows for pair in pairs]

    def words(self, pairs: Sequence[Pairs]) -> Sequence[Value | None]:
        """Return the random words of own rows; None without dropout."""
        if self.draws is None:
            return [None] * self.config.own_rows * len(pairs)
        blocks = [
            [pair.words(self.draws, block * VECTOR) for pair in pairs]
            for block in self.group.own_blocks
        ]
        return [words[i] for block in blocks for i in range(VECTOR) for words in block]

    def cotangents(
        self, weights: Sums, slopes: Sequence[Value | None], products: Sums,
        pairs: Sequence[Pairs], words: Sequence[Value | None],
    ) -> Sums:  # fmt: skip
        """Return the cotangents of the products that scores were made of."""
        found = []
        for (row, pair), weight, slope, product, word in zip(
            self.each(pairs), weights, slopes, products, words, strict=True
        ):
            shared = pair.of_query(self.operands["shared"], row)
            dropped = self.scores.dropped(product, word)
            cotangent = weight * (dropped - self.wide(shared))
            found.append(cotangent if slope is None else cotangent * slope)
        return found

    def wide(self, x: Value) -> Value:
        """Return a vector of x, if it is one number."""
        return x if x.width > 1 else self.b.splat(x, VECTOR)
