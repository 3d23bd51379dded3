"""Attention on a GPU: a workgroup has a tile of queries, and goes over its keys by tiles.

The queries stay in shared memory, turned; tiles of keys and of values come there in turn.  Scores
are made in registers and written to shared memory, where a row is one invocation's, or a few: it
finds the greatest, makes the exponentials, and their sum.  The products with the values are added
to sums in registers, which are rescaled by what the greatest has grown.

With 64 x 64 scores, heads of 64 and float32 a step is 2 x 2 x 64³ operations for 32 KiB that are
read: 32 for each byte; of shared memory 12 vectors of 4 are read for 32 x 4 multiply-adds.

Source: Dao 2023, arXiv:2307.08691, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pyrite.backend.cube.operand import iota, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Sums,
    TileConfig,
    Workgroup,
)
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import scalar
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import Index, pieces
from pyrite.philox import WORDS

Join = Callable[[Value, Value], Value]


class TiledForward:
    """The skeleton; operands are those of `Forward`."""

    name = "tiled attention"

    def candidates(self, problem: Attention, machine: Machine) -> Sequence[TileConfig]:
        """Return the configs that are right for a problem on a device."""
        return choice.forward_candidates(problem, machine)

    def select(self, problem: Attention, machine: Machine) -> TileConfig:
        """Return the candidate that seems best."""
        return choice.select(self.candidates(problem, machine), problem.rows)

    def workgroups(self, problem: Attention, config: TileConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(problem.rows, config.rows) * problem.head_count

    def build(self, problem: Attention, config: TileConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b = KernelBuilder(self.name, workgroup_size=config.threads, grid=grid)
        kernel = _TiledForwardKernel(b, problem, config)
        number = workgroup_of(b)
        if grid == 1:
            kernel.write(number)
            return b.build()
        with b.if_(number < self.workgroups(problem, config)):
            kernel.write(number)
        return b.build()


class _TiledForwardKernel:
    def __init__(self, b: KernelBuilder, problem: Attention, config: TileConfig) -> None:
        self.b, self.problem, self.config = b, problem, config
        self.operands = operands_of(b, problem)
        group = self.group = Workgroup(b, config, problem.dtype.compute)
        self.scores = Scores(b, problem, group.type)
        self.draws = self.scores.draws(self.operands)
        self.k = self.scores.k
        self.query = group.shared(problem.size * config.rows)
        self.columns = group.shared(
            max(problem.size * config.columns, config.columns * config.padded(problem.value_size))
        )
        self.weights = group.shared(config.rows * config.columns)
        #: A number for each row, of each of the invocations that share it.
        self.greatest, self.totals = (group.shared(config.threads) for _ in range(2))
        #: Which row an invocation has alone or with others, and which part of it.
        self.row, self.part = group.local % config.rows, group.local // config.rows
        self.width = config.columns // config.parts

    def write(self, number: Value) -> None:
        b, config, problem, group = self.b, self.config, self.problem, self.group
        tile = self.tile = RowTile(b, problem, number, config.rows)
        query = self.operands["query"]
        group.fill_lines(
            self.query, query, tile.locating(query), config.rows, problem.size,
            problem.scoring.scale,
        )  # fmt: skip
        kind = scalar(group.dtype)
        sums = group.zeros(config.vectors(problem.value_size))
        keys = b.index(tile.keys)
        started = [*sums, b.const(-math.inf, kind), b.const(0, kind)]
        with b.for_(0, keys, step=config.columns, carried=started) as loop:
            *sums, greatest, total = loop.carried
            loop.yield_(*self.step(loop.index, list(sums), greatest, total))
        *sums, greatest, total = loop.results
        self.finish(list(sums), greatest, total)

    def step(self, first: Value, sums: Sums, greatest: Value, total: Value) -> list[Value]:
        """Take in a tile of keys."""
        b, config, problem, group = self.b, self.config, self.problem, self.group
        b.barrier()
        self.fill("key", first)
        b.barrier()
        found = group.multiply(
            group.zeros(1), self.query, self.columns, problem.size, config.columns
        )
        group.put_turned(self.weights, self.scored(found, first))
        b.barrier()
        self.fill("value", first)
        highest = self.shared_over_row(self.greatest, self.greatest_of_row(), b.max)
        highest = b.max(greatest, highest)
        shift = self.scores.or_zero(highest)
        grown = self.k.exp(greatest - shift)
        # Maxima are read by now, so their place is free for what rows are rescaled by.
        part = self.exponentiate(shift, first)
        if config.parts > 1:
            b.barrier()
        self.greatest.store(group.local, grown)
        added = self.shared_over_row(self.totals, part, lambda x, y: x + y)
        if config.parts == 1:
            b.barrier()
        rescaled = self.times_rows(sums, self.greatest)
        width = config.padded(problem.value_size)
        sums = group.multiply(rescaled, self.weights, self.columns, config.columns, width)
        return [*sums, highest, total * grown + added]

    def fill(self, name: str, first: Value) -> None:
        """Copy a tile of keys, turned, or of values."""
        operand, group, problem = self.operands[name], self.group, self.problem
        locate = locating_keys(self.b, operand, self.tile.head, first, problem.keys)
        if name == "key":
            group.fill_lines(self.columns, operand, locate, self.config.columns, problem.size)
        else:
            group.fill_rows(self.columns, operand, locate, problem.value_size)

    def scored(self, products: Sums, first: Value) -> Sums:
        """Return the scores of own rows."""
        b, scores = self.b, self.scores
        start = first + self.group.first_column
        keys = b.splat(start, VECTOR) + iota(b, VECTOR)
        exists = keys < self.problem.keys
        found = []
        for row, product in zip(self.group.own_rows, products, strict=True):
            at, _ = self.tile.coordinates(row)

            def said(name: str, at: Sequence[Index] = at) -> Value:
                operand = self.operands[name]
                return operand.load_along(
                    operand.at([*at, start]), VECTOR, mask=exists, is_aligned=True
                )

            score = scores.blocked(scores.capped(product)[0], said, b.index(at[-1]), keys)
            found.append(b.select(exists, score, -math.inf))
        return found

    # ---- rows ----

    def place(self, column: Value) -> Value:
        """Return where the score of the invocation's row stands, in a column of its part."""
        return (self.part * self.width + column) * self.config.rows + self.row

    def greatest_of_row(self) -> Value:
        b = self.b
        start = b.const(-math.inf, scalar(self.group.dtype))
        with b.for_(0, self.width, carried=[start]) as loop:
            loop.yield_(b.max(loop.carried[0], self.weights[self.place(loop.index)]))
        return loop.results[0]

    def exponentiate(self, shift: Value, first: Value) -> Value:
        """Turn the scores of the row's part into weights; return their sum before dropout."""
        b, tile = self.b, self.tile
        step = 1 if self.draws is None else WORDS
        with b.for_(
            0, self.width, step=step, carried=[b.const(0, scalar(self.group.dtype))]
        ) as loop:
            total = loop.carried[0]
            words: Sequence[Value | None] = [None]
            if self.draws is not None:
                row = self.draws.row(tile.head_number, tile.first + self.row)
                words = self.draws.words(row, first + self.part * self.width + loop.index)
            for i, word in enumerate(words):
                place = self.place(loop.index + i if i else loop.index)
                power = self.k.exp(self.weights[place] - shift)
                self.weights[place] = self.scores.dropped(power, word)
                total = total + power
            loop.yield_(total)
        return loop.results[0]

    def shared_over_row(self, memory: Memory, own: Value, join: Join) -> Value:
        """Return what the parts of a row have, joined; all invocations write before."""
        if self.config.parts == 1:
            return own
        memory.store(self.group.local, own)
        self.b.barrier()
        found = memory[self.row]
        for part in range(1, self.config.parts):
            found = join(found, memory[self.row + part * self.config.rows])
        return found

    def times_rows(self, sums: Sums, memory: Memory) -> Sums:
        """Return sums of own rows times a number of each row."""
        vectors = len(sums) // self.config.own_rows
        factors = [
            memory.load(block, width=VECTOR, is_aligned=True) for block in self.group.own_blocks
        ]
        return [
            sum * self.b.splat(factors[n // vectors // VECTOR][n // vectors % VECTOR], VECTOR)
            for n, sum in enumerate(sums)
        ]

    def finish(self, sums: Sums, greatest: Value, total: Value) -> None:
        """Write the results of the tile."""
        b, tile, group = self.b, self.tile, self.group
        log_sum, out = self.operands["log_sum"], self.operands["out"]
        at, exists = tile.coordinates(self.row)
        found = self.scores.or_zero(greatest) + self.k.log(total)
        log_sum.store(log_sum.at(at), found, mask=exists & (self.part == 0))
        whole = b.select(b.alu("eq", total, 0), 1.0, total)
        b.barrier()
        self.totals.store(group.local, whole)
        b.barrier()
        factors = [1.0 / self.totals[row] for row in group.own_rows]
        group.store_rows(
            out, tile.locating(out), sums, self.problem.value_size,
            [b.splat(factor, VECTOR) for factor in factors],
        )  # fmt: skip


TILED_FORWARD = TiledForward()
