"""Gradients of attention on a CPU: a head's tiles of keys against all its queries.

An invocation has every ``parts``-th tile of keys of one head, whose lanes are keys.  For some
queries at a time it makes the probabilities again, from logsumexp, and the cotangents of the
scores, query by query in rows of lanes; adds their products with queries and cotangents of the
output to the gradients of its keys and values, which wait in private memory; and their products
with its keys to the gradients of the queries, in memory that is its own.  So each product is made
once, five in all; the parts' gradients of queries are added up after.

Source: Dao 2023, arXiv:2307.08691, algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand, iota, unravel, workgroup_of
from pyrite.backend.cube.skeleton.attention import config as choice
from pyrite.backend.cube.skeleton.attention.block import add_products, add_rows
from pyrite.backend.cube.skeleton.attention.config import GradientConfig
from pyrite.backend.cube.skeleton.attention.lanes import Lanes
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.scores import Said, Scores, operands_of
from pyrite.backend.cube.skeleton.protocol import Fused
from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import Index, least, minus, pieces, plus, rounded_up, times
from pyrite.types import int32, int64

#: Coordinates of a row: heads, head of the group, query; of the gradients a part before them.
Place = Sequence[Index]


class Gradient:
    """The skeleton; its operands are those that `Forward` reads, and further ones.

    These are g, the cotangent of the output, log_sum, shared, the sums of g * out less the
    cotangents of logsumexp, and those that are wanted of of_query (parts, *heads, group, queries,
    size), of_key, of_value.
    """

    name = "attention gradient"

    def candidates(self, problem: Attention, machine: Machine) -> Sequence[GradientConfig]:
        """Return the configs that are right for a problem on a device."""
        return choice.gradient_candidates(problem, machine)

    def select(self, problem: Attention, machine: Machine) -> GradientConfig:
        """Return the candidate that seems best."""
        return choice.select_gradient(problem, machine)

    def workgroups(self, problem: Attention, config: GradientConfig) -> int:
        """Return how many workgroups run the kernel."""
        return problem.head_count * config.parts

    def build(self, problem: Attention, config: GradientConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel."""
        b = KernelBuilder(self.name, grid=grid, index=int64)
        _GradientKernel(b, problem, config).write()
        return b.build()


class _GradientKernel:
    def __init__(self, b: KernelBuilder, problem: Attention, config: GradientConfig) -> None:
        self.b, self.problem, self.config = b, problem, config
        self.operands = operands_of(b, problem)
        lanes = self.lanes = Lanes(b, config, problem.dtype.compute)
        self.scores = Scores(b, problem, lanes.type)
        self.draws = self.scores.draws(self.operands)
        #: The weights of values, and the cotangents of scores: a row for each query of a block.
        self.weights, self.slopes = lanes.room(config.block), lanes.room(config.block)
        self.key_columns, self.value_columns = (
            lanes.room(problem.size), lanes.room(problem.value_size)
        )  # fmt: skip
        self.padded = rounded_up(problem.size, config.width)
        self.key_rows = b.private(lanes.dtype, config.lanes * self.padded)
        self.of_key, self.of_value = lanes.room(problem.size), lanes.room(problem.value_size)
        number = workgroup_of(b)
        self.part = number % config.parts
        self.head_number = number // config.parts
        self.head = unravel(b, self.head_number, problem.heads) if problem.heads else []

    def write(self) -> None:
        b, config, problem = self.b, self.config, self.problem
        self.clear_queries()
        tiles = pieces(problem.keys, config.lanes)
        own = (b.index(tiles) - self.part + (config.parts - 1)) // config.parts
        with b.for_(0, own) as loop:
            self.tile((loop.index * config.parts + self.part) * config.lanes)
            loop.yield_()

    def clear_queries(self) -> None:
        """Make the gradients of queries 0, to which each tile adds."""
        target = self.operands.get("of_query")
        if target is None:
            return
        b, problem, width = self.b, self.problem, self.config.width
        with b.for_(0, problem.group) as head, b.for_(0, problem.queries) as query:
            place = target.at([self.part, *self.head, head.index, query.index, 0])
            for column in range(0, self.padded, width):
                mask = self.columns_below(column)
                target.store_along(place + column, self.scores.zero, mask=mask)
            query.yield_()
            head.yield_()

    def columns_below(self, first: int) -> Value | None:
        """Return which lanes from a column of queries on are columns, None for all."""
        if first + self.config.width <= self.problem.size:
            return None
        return first + iota(self.b, self.config.width) < self.problem.size

    # ---- a tile of keys ----

    def tile(self, first: Value) -> None:
        b, config, problem = self.b, self.config, self.problem
        firsts = [first + v * config.width for v in range(config.vectors)]
        self.keys = [start + iota(b, config.width) for start in firsts]
        self.first_keys = firsts
        self.exists = [key < problem.keys for key in self.keys]
        self.load_keys()
        self.lanes.clear(self.of_key, problem.size)
        self.lanes.clear(self.of_value, problem.value_size)
        # A query that comes before the first key attends to none.
        start = first if problem.scoring.is_causal else b.index(0)
        with b.for_(0, problem.group) as head:
            with b.for_(start, problem.queries, step=config.block) as loop:
                size = least(b, minus(b.index(problem.queries), loop.index), config.block)
                self.block(head.index, loop.index, b.index(size))
                loop.yield_()
            head.yield_()
        scale = problem.scoring.scale
        self.store("of_key", self.of_key, problem.size, scale)
        self.store("of_value", self.of_value, problem.value_size, 1.0)

    def load_keys(self) -> None:
        """Copy the keys, scaled, by columns and by rows, and the values by columns."""
        b, config, problem = self.b, self.config, self.problem
        key, value = self.operands["key"], self.operands["value"]
        clamped = [b.min(keys, problem.keys - 1) for keys in self.keys]
        scale = problem.scoring.scale
        self.lanes.pack(
            self.key_columns, key, [key.at([*self.head, at, 0]) for at in clamped], problem.size,
            scale,
        )  # fmt: skip
        places = [value.at([*self.head, at, 0]) for at in clamped]
        self.lanes.pack(self.value_columns, value, places, problem.value_size)
        with b.for_(0, config.lanes) as loop:
            row = b.min(self.first_keys[0] + loop.index, problem.keys - 1)
            place = key.at([*self.head, row, 0])
            for column in range(0, self.padded, config.width):
                found = key.load_along(
                    place + column * key.layout.strides[-1], config.width,
                    mask=self.columns_below(column),
                )  # fmt: skip
                at = loop.index * self.padded + column
                self.key_rows.store(at, found * scale, is_aligned=True)
            loop.yield_()

    def store(self, name: str, memory: Memory, size: int, factor: float) -> None:
        """Write the gradients of the tile, if they are wanted."""
        target = self.operands.get(name)
        if target is None:
            return
        places = [target.at([*self.head, key, 0]) for key in self.keys]
        step = target.layout.strides[-1]
        with self.b.for_(0, size) as loop:
            for v, sum in enumerate(self.lanes.vectors(memory, loop.index)):
                target.store(places[v] + loop.index * step, sum * factor, mask=self.exists[v])
            loop.yield_()

    # ---- a block of queries ----

    def block(self, head: Value, first: Value, size: Value) -> None:
        """Add what some queries of a head give to all gradients."""
        b, rows, problem = self.b, self.config.rows, self.problem
        with b.for_(0, size, step=rows) as loop:
            # Those beyond the last query are the last again, and add nothing.
            queries = [b.min(first + loop.index + i, problem.queries - 1) for i in range(rows)]
            self.slope(loop.index, [[*self.head, head, query] for query in queries])
            loop.yield_()
        query, g = self.operands["query"], self.operands["g"]
        at = [*self.head, head, first, 0]
        add_rows(self.lanes, self.of_value, problem.value_size, g, g.at(at), self.weights, size)
        add_rows(self.lanes, self.of_key, problem.size, query, query.at(at), self.slopes, size)
        if "of_query" in self.operands:
            with b.for_(0, size, step=rows) as loop:
                queries = [b.min(first + loop.index + i, problem.queries - 1) for i in range(rows)]
                self.add_queries(
                    loop.index, [[self.part, *self.head, head, query] for query in queries]
                )
                loop.yield_()

    def slope(self, row: Value, places: Sequence[Place]) -> None:
        """Write the weights of some rows, and the cotangents of their scores."""
        lanes, scores, count = self.lanes, self.scores, self.config.vectors
        products = self.products("query", self.key_columns, self.problem.size, places)
        for i, place in enumerate(places):
            log_sum = scores.or_zero(self.operands["log_sum"][place])
            for v in range(count):
                self.weigh(row + i, v, place, products[i * count + v], log_sum)
        products = self.products("g", self.value_columns, self.problem.value_size, places)
        for i, place in enumerate(places):
            shared = self.operands["shared"][place]
            weights = lanes.vectors(self.weights, row + i)
            slopes = lanes.vectors(self.slopes, row + i)
            words = self.words(place)
            for v, weight in enumerate(weights):
                product = scores.dropped(products[i * count + v], words[v])
                slope = weight * (product - shared)
                if scores.scoring.softcap is not None:
                    slope = slope * slopes[v]
                lanes.put_vector(self.slopes, row + i, v, slope)
                if self.draws is not None:
                    kept = scores.dropped(weight, words[v])
                    lanes.put_vector(self.weights, row + i, v, kept)

    def weigh(self, row: Value, v: int, place: Place, product: Value, log_sum: Value) -> None:
        """Write the probabilities of lanes, and the slopes of their caps where there are any."""
        b, scores = self.b, self.scores
        capped, slope = scores.capped(product)
        if slope is not None:
            self.lanes.put_vector(self.slopes, row, v, slope)
        score = scores.blocked(capped, self.said(v, place), b.index(place[-1]), self.numbers(v))
        weight = scores.exp(score - log_sum)
        exists = self.numbers(v) < self.problem.keys
        self.lanes.put_vector(self.weights, row, v, b.select(exists, weight, scores.zero))

    def numbers(self, v: int) -> Value:
        """Return the keys of a vector, as 32 bits: made where they are wanted, of a number.

        As vectors they would be in registers that sums of products need.
        """
        b, width = self.b, self.config.width
        first = b.cast(self.first_keys[v], int32)
        return b.splat(first, width) + b.const(range(width), vector(int32, width))

    def products(
        self, name: str, columns: Memory, size: int, places: Sequence[Place]
    ) -> list[Value]:
        """Return the products of rows of an operand with the lanes' columns."""
        operand, lanes = self.operands[name], self.lanes
        firsts, step = [operand.at([*place, 0]) for place in places], operand.layout.strides[-1]
        return add_products(
            self.b, size, lanes.zeros * len(places),
            lambda d: [operand.load(first + d * step) for first in firsts],
            lambda d: lanes.vectors(columns, d), unroll=2,
        )  # fmt: skip

    def said(self, v: int, place: Place) -> Said:
        """Return what tells of the scores of a query and the keys of a vector."""

        def of(name: str) -> Value:
            operand = self.operands[name]
            at = operand.at([*place, self.first_keys[v]])
            return operand.load_along(at, self.config.width, mask=self.exists[v])

        return of

    def words(self, place: Place) -> Sequence[Value | None]:
        """Return the random words of a query and the vectors of keys; None without dropout."""
        config, problem = self.config, self.problem
        if self.draws is None:
            return [None] * config.vectors
        row = self.b.index(plus(times(place[-2], problem.queries), place[-1]))
        number = self.draws.row(self.head_number, row)
        return self.draws.along(number, self.first_keys[0], config.width, config.vectors)

    def add_queries(self, row: Value, places: Sequence[Place]) -> None:
        """Add the products of some rows with the keys to the gradients of their queries."""
        target, config = self.operands["of_query"], self.config
        firsts = [target.at([*place, 0]) for place in places]
        most = config.vectors * config.width
        for first in range(0, self.padded, most):
            columns = range(first, min(first + most, self.padded), config.width)
            self.add_columns(target, row, firsts, columns)

    def add_columns(
        self, target: Operand, row: Value, firsts: Sequence[Value], columns: Sequence[int]
    ) -> None:
        config = self.config
        cells = [
            (first + column, self.columns_below(column)) for first in firsts for column in columns
        ]
        before = [target.load_along(at, config.width, mask=mask) for at, mask in cells]
        starts = [(row + i) * config.lanes for i in range(len(firsts))]
        found = add_products(
            self.b, config.lanes, before,
            lambda j: [self.slopes.load(start + j) for start in starts],
            lambda j: [
                self.key_rows.load(j * self.padded + column, width=config.width, is_aligned=True)
                for column in columns
            ],
            unroll=2,
        )  # fmt: skip
        for (at, mask), value in zip(cells, found, strict=True):
            target.store_along(at, value, mask=mask)


GRADIENT = Gradient()
