"""Attention on a GPU: a workgroup has a tile of queries, and goes over its keys by tiles.

The queries stay in shared memory, turned; tiles of keys and of values come there in turn.  Scores
are made in registers and stay there: only the greatest of each row passes through shared memory,
where the weights go afterwards.  The products with the values are added to sums in registers, which
are rescaled by what the greatest has grown; each invocation adds up its own part of a row's total,
and these meet at the end.

With 64 x 64 scores, heads of 64 and float32 a step is 2 x 2 x 64³ operations for 32 KiB that are
read: 32 for each byte.  What an invocation reads of shared memory counts as much: 8 rows and two
vectors take four vectors for 64 multiply-adds, 4 rows and one vector two for 16.  But on an H200
one workgroup of so much memory fits on a processor, which 64 invocations leave idle for most of the
time, and 256 do not.  The next tile of keys, and the values, are fetched to registers before the
products of what is there.

Source: Dao 2023, arXiv:2307.08691, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from pyrite.backend.cube.operand import iota, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Copy,
    Join,
    Sums,
    TileConfig,
    Workgroup,
    over_lanes,
)
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import scalar
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import Index, pieces


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

    def write(self, number: Value) -> None:
        b, config, problem, group = self.b, self.config, self.problem, self.group
        tile = self.tile = RowTile(b, problem, number, config.rows)
        query = self.operands["query"]
        group.lines(
            self.query, query, tile.locating(query), config.rows, problem.size,
            problem.scoring.scale,
        ).put([])  # fmt: skip
        kind, own = scalar(group.dtype), config.own_rows
        sums = group.zeros(config.vectors(problem.value_size))
        self.count = len(sums)
        keys = b.index(tile.keys)
        started = [*sums, *[b.const(-math.inf, kind)] * own, *[b.const(0, kind)] * own]
        started += self.copy("key", b.index(0)).fetch()
        with b.for_(0, keys, step=config.columns, carried=started) as loop:
            loop.yield_(*self.step(loop.index, *self.parted(loop.carried)))
        self.finish(*self.parted(loop.results)[:3])

    def parted(
        self, carried: Sequence[Value]
    ) -> tuple[Sums, list[Value], list[Value], list[Value]]:
        """Return the sums, of each own row the greatest score and its part of the total, and keys.

        These are those of the next tile that have been fetched.
        """
        rest, own = list(carried[self.count :]), self.config.own_rows
        return list(carried[: self.count]), rest[:own], rest[own : 2 * own], rest[2 * own :]

    def step(
        self, first: Value, sums: Sums, greatest: list[Value], totals: list[Value],
        fetched: list[Value],
    ) -> list[Value]:  # fmt: skip
        """Take in a tile of keys."""
        b, config, problem, group = self.b, self.config, self.problem, self.group
        b.barrier()
        self.copy("key", first).put(fetched)
        values = self.copy("value", first)
        fetched = values.fetch()
        b.barrier()
        found = group.multiply(
            group.zeros(config.own_vectors),
            self.query,
            self.columns,
            problem.size,
            config.columns,
            is_turned=True,
        )
        scores = self.scored(found, first)
        greater = self.scores.greater
        highest = group.over_rows(self.weights, self.joined(scores, greater), greater)
        highest = [greater(x, y) for x, y in zip(greatest, highest, strict=True)]
        # All have read the keys, whose place is that of the values.
        values.put(fetched)
        fetched = self.copy("key", first + config.columns).fetch()
        shifts = [self.scores.or_zero(x) for x in highest]
        grown = [self.scores.exp(x - shift) for x, shift in zip(greatest, shifts, strict=True)]
        powers = self.by_rows(scores, lambda x, shift: self.scores.exp(x - shift), shifts)
        added = self.joined(powers, lambda x, y: x + y)
        # All have read the maxima, whose place is that of the weights.
        b.barrier()
        group.put_turned(self.weights, self.dropped(powers, first))
        b.barrier()
        rescaled = self.by_rows(sums, lambda x, by: x * by, grown)
        width = config.padded(problem.value_size)
        sums = group.multiply(rescaled, self.weights, self.columns, config.columns, width)
        totals = [x * by + y for x, by, y in zip(totals, grown, added, strict=True)]
        return [*sums, *highest, *totals, *fetched]

    def copy(self, name: str, first: Value) -> Copy:
        """Return the copy of a tile of keys, turned, or of values."""
        operand, group, problem = self.operands[name], self.group, self.problem
        locate = locating_keys(self.b, operand, self.tile.head, first, problem.keys)
        if name == "key":
            return group.lines(self.columns, operand, locate, self.config.columns, problem.size)
        return group.rows(self.columns, operand, locate, problem.value_size)

    def scored(self, products: Sums, first: Value) -> Sums:
        """Return the scores of own rows."""
        b, scores, vectors = self.b, self.scores, self.config.own_vectors
        found = []
        for n, product in enumerate(products):
            row, start = self.group.own_rows[n // vectors], first + self.group.column(n % vectors)
            keys = b.splat(start, VECTOR) + iota(b, VECTOR)
            exists = keys < self.problem.keys
            at, _ = self.tile.coordinates(row)

            def said(
                name: str, at: Sequence[Index] = at, start: Value = start, exists: Value = exists
            ) -> Value:
                operand = self.operands[name]
                return operand.load_along(
                    operand.at([*at, start]), VECTOR, mask=exists, is_aligned=True
                )

            score = scores.blocked(scores.capped(product)[0], said, b.index(at[-1]), keys)
            found.append(b.select(exists, score, -math.inf))
        return found

    # ---- rows ----

    def joined(self, values: Sums, join: Join) -> list[Value]:
        """Return of each own row what its own vectors have, joined."""
        vectors = self.config.own_vectors
        return [
            over_lanes(reduce(join, values[n : n + vectors]), join)
            for n in range(0, len(values), vectors)
        ]

    def by_rows(self, values: Sums, of: Join, rows: Sequence[Value]) -> Sums:
        """Return a function of each vector and of its own row's number."""
        vectors = len(values) // self.config.own_rows
        return [of(x, self.b.splat(rows[n // vectors], VECTOR)) for n, x in enumerate(values)]

    def dropped(self, powers: Sums, first: Value) -> Sums:
        """Return the weights of own rows after dropout, if there is any."""
        if self.draws is None:
            return powers
        b, vectors, found = self.b, self.config.own_vectors, []
        for n, power in enumerate(powers):
            row = self.tile.first + self.group.own_rows[n // vectors]
            number = self.draws.row(self.tile.head_number, row)
            words = self.draws.words(number, first + self.group.column(n % vectors))
            found.append(self.scores.dropped(power, b.make(words)))
        return found

    def finish(self, sums: Sums, greatest: list[Value], totals: list[Value]) -> None:
        """Write the results of the tile."""
        b, tile, group = self.b, self.tile, self.group
        log_sum, out = self.operands["log_sum"], self.operands["out"]
        b.barrier()
        totals = group.over_rows(self.weights, totals, lambda x, y: x + y)
        is_one = group.across == 0
        for row, highest, total in zip(group.own_rows, greatest, totals, strict=True):
            at, exists = tile.coordinates(row)
            found = self.scores.or_zero(highest) + self.k.log(total)
            log_sum.store(log_sum.at(at), found, mask=exists & is_one)
        factors = [1.0 / b.select(b.alu("eq", total, 0), 1.0, total) for total in totals]
        group.store_rows(
            out, tile.locating(out), sums, self.problem.value_size,
            [b.splat(factor, VECTOR) for factor in factors],
        )  # fmt: skip


TILED_FORWARD = TiledForward()
