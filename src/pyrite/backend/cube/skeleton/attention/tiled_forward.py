"""Attention on a GPU: a workgroup has a tile of queries, and goes over its keys by tiles.

Slabs of queries and keys come to shared memory in turn, turned, and then weights and slabs of
values.  Scores are made in registers and stay there: only the greatest of each row passes through
shared memory.  The products with the values are added to sums in registers, which are rescaled by
what the greatest has grown; each invocation adds up its own part of a row's total, and these meet
at the end.

A processor of an H200 has 48 KiB of shared memory for all its workgroups, so slabs are 32 lines of
both sides, 16 KiB, that three fit: what one waits for, others hide.  Queries come again for each
tile of keys, from a cache.  4 rows and two vectors of columns take three vectors of shared memory
for 32 multiply-adds.  What comes next is fetched to registers before the product of what is there.

Source: Dao 2023, arXiv:2307.08691, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from pyrite.backend.cube.operand import iota, workgroup_of
from pyrite.backend.cube.skeleton.attention import tile_config as choice
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import RowTile, along_keys, locating_keys
from pyrite.backend.cube.skeleton.attention.scores import Scores, operands_of
from pyrite.backend.cube.skeleton.attention.workgroup import (
    VECTOR,
    Copy,
    Join,
    Slab,
    Sums,
    TileConfig,
    Workgroup,
    fetched_of,
    over_lanes,
    put,
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
        found = self.candidates(problem, machine)
        return choice.select(found, problem.rows, problem.head_count, machine)

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
        self.scores = Scores(b, problem, group.type, has_exp2=True)
        self.draws = self.scores.draws(self.operands)
        self.k = self.scores.k
        self.left = group.shared(config.left)
        self.right = group.shared(config.right(problem.value_size))
        self.slabs = config.slabs(problem.size)

    def write(self, number: Value) -> None:
        b, config, problem, group = self.b, self.config, self.problem, self.group
        tile = self.tile = RowTile(b, problem, number, config.rows)
        kind, own = scalar(group.dtype), config.own_rows
        sums = group.zeros(config.vectors(problem.value_size))
        self.count = len(sums)
        keys = b.index(tile.keys)
        started = [*sums, *[b.const(-math.inf, kind)] * own, *[b.const(0, kind)] * own]
        started += fetched_of(self.of_scores(b.index(0), self.slabs[0]))
        # There are keys, at least for a row of their number.
        with b.for_(0, keys, step=config.columns, carried=started, is_entered=True) as loop:
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
        found = group.zeros(config.own_vectors)
        for n, slab in enumerate(self.slabs):
            b.barrier()
            put(self.of_scores(first, slab), fetched)
            is_last = n + 1 == len(self.slabs)
            copies = (
                [self.values(first, 0)] if is_last
                else self.of_scores(first, self.slabs[n + 1])
            )  # fmt: skip
            fetched = fetched_of(copies)
            b.barrier()
            found = group.multiply(
                found, self.left, self.right, slab[1], config.columns, is_turned=True
            )
        scores = self.scored(found, first)
        greater = self.scores.greater
        b.barrier()
        highest = group.over_rows(self.left, self.joined(scores, greater), greater)
        highest = [greater(x, y) for x, y in zip(greatest, highest, strict=True)]
        shifts = [self.scores.or_zero(x) for x in highest]
        grown = [self.scores.exp(x - shift) for x, shift in zip(greatest, shifts, strict=True)]
        powers = self.by_rows(scores, lambda x, shift: self.scores.exp(x - shift), shifts)
        added = self.joined(powers, lambda x, y: x + y)
        totals = [x * by + y for x, by, y in zip(totals, grown, added, strict=True)]
        weights = self.dropped(powers, first)
        sums = self.by_rows(sums, lambda x, by: x * by, grown)
        width = config.padded(problem.value_size)
        for v in range(config.own_vectors):
            b.barrier()
            group.put_turned(self.left, weights, v)
            put([self.values(first, v)], fetched)
            is_last = v + 1 == config.own_vectors
            following = first + config.columns
            copies = (
                self.of_scores(following, self.slabs[0]) if is_last
                else [self.values(first, v + 1)]
            )  # fmt: skip
            fetched = fetched_of(copies)
            b.barrier()
            sums = group.multiply(sums, self.left, self.right, config.lines, width)
        return [*sums, *highest, *totals, *fetched]

    def of_scores(self, first: Value, slab: Slab) -> list[Copy]:
        """Return the copies of a slab of the queries, and of the keys from the first on; turned."""
        config, group, problem = self.config, self.group, self.problem
        query, key = self.operands["query"], self.operands["key"]
        locate = locating_keys(self.b, key, self.tile.head, first, problem.keys)
        scale, rows = problem.scoring.scale, self.tile.locating(query)
        return [
            group.lines(self.left, query, rows, config.rows, slab, scale),
            group.lines(self.right, key, locate, config.columns, slab),
        ]

    def values(self, first: Value, v: int) -> Copy:
        """Return the copy of the values of the keys of own vectors ``v`` of a tile."""
        value, problem = self.operands["value"], self.problem
        start = first + v * self.config.lines if v else first
        locate = locating_keys(self.b, value, self.tile.head, start, problem.keys)
        return self.group.rows(self.right, value, locate, problem.value_size)

    def scored(self, products: Sums, first: Value) -> Sums:
        """Return the scores of own rows."""
        b, scores, vectors = self.b, self.scores, self.config.own_vectors
        found = []
        for n, product in enumerate(products):
            row, start = self.group.own_rows[n // vectors], first + self.group.column(n % vectors)
            keys = b.splat(start, VECTOR) + iota(b, VECTOR)
            exists = keys < self.problem.keys
            at, _ = self.tile.coordinates(row)

            def said(name: str, at: Sequence[Index] = at, start: Value = start) -> Value:
                *head, query = at
                return along_keys(self.operands[name], head, query, start, self.problem.keys)

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
        totals = group.over_rows(self.left, totals, lambda x, y: x + y)
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
