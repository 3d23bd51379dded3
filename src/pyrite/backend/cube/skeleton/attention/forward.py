"""Attention on a CPU: a tile of queries against all its keys, with a running maximum and sum.

An invocation has a tile, whose lanes are queries, and goes over the keys by blocks.  Of a block it
makes the scores, key by key in rows of lanes, from elements of the keys as they lie and the tile's
queries, which it has copied column by column; so a maximum or a sum over keys is one of vectors.
Then it makes their exponentials, and adds the products with elements of the values to sums that
wait in private memory, rescaled by what the maximum has grown.

Source: Dao 2023, arXiv:2307.08691, algorithm 1.  Milakov & Gimelshein 2018, arXiv:1805.02867.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.skeleton.attention import config as choice
from pyrite.backend.cube.skeleton.attention.block import add_products, add_rows
from pyrite.backend.cube.skeleton.attention.config import LaneConfig
from pyrite.backend.cube.skeleton.attention.lanes import Lanes
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.scores import Said, Scores, operands_of
from pyrite.backend.cube.skeleton.attention.tile import QueryTile
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import least, minus, pieces
from pyrite.philox import WORDS
from pyrite.types import int64


class Forward:
    """The skeleton; operands are query, key, value, those of scores, out and log_sum."""

    name = "attention"

    def candidates(self, problem: Attention, machine: Machine) -> Sequence[LaneConfig]:
        """Return the configs that are right for a problem on a device."""
        return choice.candidates(problem, machine)

    def select(self, problem: Attention, machine: Machine) -> LaneConfig:
        """Return the candidate that seems best."""
        return choice.select(problem, machine)

    def workgroups(self, problem: Attention, config: LaneConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(problem.rows, config.lanes) * problem.head_count

    def build(self, problem: Attention, config: LaneConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        # Processors add 64-bit indices for nothing, in the address itself.
        b = KernelBuilder(self.name, grid=grid, index=int64)
        _ForwardKernel(b, problem, config).write()
        return b.build()


class _ForwardKernel:
    def __init__(self, b: KernelBuilder, problem: Attention, config: LaneConfig) -> None:
        self.b, self.problem, self.config = b, problem, config
        self.operands = operands_of(b, problem)
        self.lanes = Lanes(b, config, problem.dtype.compute)
        self.query = self.lanes.room(problem.size)
        self.weights = self.lanes.room(config.block)
        self.sums = self.lanes.room(problem.value_size)
        #: The greatest scores so far, the sums of exponentials, and what is taken from scores: in
        #: memory, for sums of products would have to make room for them in registers.
        self.greatest, self.totals, self.shifts = (self.lanes.room(1) for _ in range(3))
        self.tile = QueryTile(b, problem, config, workgroup_of(b))
        self.scores = Scores(b, problem, self.lanes.type)
        self.k = self.scores.k
        self.draws = self.scores.draws(self.operands)
        said = ("mask", "bias")
        self.firsts: dict[str, list[Value]] = {
            name: self.tile.places(x, 0) for name, x in self.operands.items() if name in said
        }

    def write(self) -> None:
        b, tile, count, scores = self.b, self.tile, self.config.vectors, self.scores
        query = self.operands["query"]
        self.lanes.pack(
            self.query, query, tile.places(query, 0), self.problem.size, scores.scoring.scale
        )
        self.lanes.clear(self.sums, self.problem.value_size)
        self.lanes.put(self.greatest, 0, [scores.nothing] * count)
        self.lanes.clear(self.totals, 1)
        keys = tile.keys
        with b.for_(0, keys, step=self.config.block) as loop:
            size = least(b, minus(b.index(keys), loop.index), self.config.block)
            self.block(loop.index, b.index(size))
            loop.yield_()
        self.finish()

    def block(self, first: Value, size: Value) -> None:
        """Take in some keys."""
        lanes, scores = self.lanes, self.scores
        before = lanes.vectors(self.greatest, 0)
        self.score(first, size)
        shifts = [scores.or_zero(x) for x in lanes.vectors(self.greatest, 0)]
        lanes.put(self.shifts, 0, shifts)
        grown = [scores.exp(x - shift) for x, shift in zip(before, shifts, strict=True)]
        totals = lanes.vectors(self.totals, 0)
        lanes.put(self.totals, 0, [t * by for t, by in zip(totals, grown, strict=True)])
        for v in range(self.config.vectors):
            self.exponentiate(v, size)
        self.drop(first, size)
        self.add_values(first, size, grown)

    def said(self, v: int, key: Value) -> Said:
        """Return what tells of the scores of a vector and a key."""

        def of(name: str) -> Value:
            operand, first = self.operands[name], self.firsts[name][v]
            *_, of_head, of_query, step = operand.layout.strides
            if of_head == 0 and of_query == 0:  # one for all queries, as of keys that are padding
                found = operand.load(first[0] + key * step)
                return self.b.splat(found, self.config.width)
            return operand.load(first + key * step)

        return of

    def score(self, first: Value, size: Value) -> None:
        """Write the scores of a block, and the greatest so far."""
        b, tile, rows, lanes = self.b, self.tile, self.config.rows, self.lanes
        key, count = self.operands["key"], self.config.vectors
        step = key.layout.strides[-1]
        with b.for_(0, size, step=rows) as loop:
            # Those beyond the last key are the last again, and taken in by nobody.
            keys = [b.min(first + loop.index + i, self.problem.keys - 1) for i in range(rows)]
            places = [key.at([*tile.head, j, 0]) for j in keys]
            products = add_products(
                b, self.problem.size, lanes.zeros * rows,
                lambda d: [key.load(place + d * step) for place in places],
                lambda d: lanes.vectors(self.query, d), unroll=2,
            )  # fmt: skip
            # Vector by vector: of a mask 16 lines stay in the first cache, where 64 may not.
            for v in range(count):
                found = lanes.vectors(self.greatest, 0)[v]
                for i, j in enumerate(keys):
                    capped, _ = self.scores.capped(products[i * count + v])
                    own = self.scores.blocked(capped, self.said(v, j), tile.numbers(v), j)
                    lanes.put_vector(self.weights, loop.index + i, v, own)
                    found = b.max(found, own)
                lanes.put_vector(self.greatest, 0, v, found)
            loop.yield_()

    def exponentiate(self, v: int, size: Value) -> None:
        """Turn the scores of a block into weights, of one vector, and add them up."""
        b, lanes = self.b, self.lanes
        shift = lanes.vectors(self.shifts, 0)[v]
        with b.for_(0, size, carried=[lanes.vectors(self.totals, 0)[v]]) as loop:
            power = self.scores.exp(lanes.vectors(self.weights, loop.index)[v] - shift)
            lanes.put_vector(self.weights, loop.index, v, power)
            loop.yield_(loop.carried[0] + power)
        lanes.put_vector(self.totals, 0, v, loop.results[0])

    def drop(self, first: Value, size: Value) -> None:
        """Drop weights of a block, by four keys; those of the last four beyond it are not read."""
        if self.draws is None:
            return
        b, lanes, draws = self.b, self.lanes, self.draws
        rows = [draws.row(self.tile.head_number, row) for row in self.tile.rows]
        with b.for_(0, size, step=WORDS) as loop:
            for v, row in enumerate(rows):
                for i, word in enumerate(draws.words(row, first + loop.index)):
                    weight = lanes.vectors(self.weights, loop.index + i)[v]
                    kept = self.scores.dropped(weight, word)
                    lanes.put_vector(self.weights, loop.index + i, v, kept)
            loop.yield_()

    def add_values(self, first: Value, size: Value, grown: Sequence[Value]) -> None:
        """Add the products of a block's weights and values to the sums, which are rescaled."""
        value = self.operands["value"]
        start = value.at([*self.tile.head, first, 0])
        add_rows(
            self.lanes, self.sums, self.problem.value_size, value, start, self.weights, size, grown
        )

    def finish(self) -> None:
        """Write the results of the tile."""
        b, tile = self.b, self.tile
        greatest, totals = (self.lanes.vectors(x, 0) for x in (self.greatest, self.totals))
        out, log_sum = self.operands["out"], self.operands["log_sum"]
        wholes = [b.select(b.alu("eq", t, 0), 1.0, t) for t in totals]
        places, step = tile.places(out, 0), out.layout.strides[-1]
        with b.for_(0, self.problem.value_size) as loop:
            for v, sum in enumerate(self.lanes.vectors(self.sums, loop.index)):
                place = places[v] + loop.index * step
                out.store(place, sum / wholes[v], mask=tile.exists[v])
            loop.yield_()
        for v, place in enumerate(tile.places(log_sum)):
            found = self.scores.or_zero(greatest[v]) + self.k.log(totals[v])
            log_sum.store(place, found, mask=tile.exists[v])


FORWARD = Forward()
