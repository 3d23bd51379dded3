"""A tile of rows, whose lanes are queries, as the kernels of a CPU see it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.attention.config import LaneConfig
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Access, Type, vector
from pyrite.kernel.template.index import Index, least, pieces, plus
from pyrite.kernel.trace import RecordingAlgebra, trace
from pyrite.op import OPS
from pyrite.types import int32

#: Operands that a kernel writes.
WRITTEN = frozenset(("out", "log_sum"))


def operands_of(b: KernelBuilder, problem: Attention) -> dict[str, Operand]:
    """Return the operands of a kernel by their names, in order."""

    def access(name: str) -> Access:
        return "write" if name in WRITTEN else "read"

    return {name: Operand(b, name, layout, access(name)) for name, layout in problem.layouts}


#: Weights over 1 - p, and 0 where a word is low.
_DROPOUT = OPS["dropout"].scalar


class Tile:
    """So many rows of one head of keys, by vectors, and where their elements lie.

    Lanes beyond the last row are the last row again; they are computed and not stored.
    """

    def __init__(
        self, b: KernelBuilder, problem: Attention, config: LaneConfig, number: Value
    ) -> None:
        self.b, self.problem, self.config = b, problem, config
        tiles = pieces(problem.rows, config.lanes)
        self.head = unravel(b, number // tiles, problem.heads) if problem.heads else []
        self.first = number % tiles * config.lanes
        rows = [self.first + v * config.width + iota(b, config.width) for v in self.each]
        self.exists = [row < problem.rows for row in rows]
        clamped = [b.min(row, problem.rows - 1) for row in rows]
        #: Which query heads and queries the lanes are.
        self.heads: list[Index] = [0 for _ in rows]
        self.queries: list[Value] = clamped
        if problem.group > 1:
            self.heads = [row // problem.queries for row in clamped]
            self.queries = [row % problem.queries for row in clamped]

    @property
    def each(self) -> range:
        """The numbers of the vectors."""
        return range(self.config.vectors)

    @property
    def keys(self) -> Index:
        """How many keys, from the first on, some lane may attend to."""
        problem = self.problem
        if not problem.scoring.is_causal:
            return problem.keys
        # A tile of several query heads has the last queries of one.
        last = plus(self.first, self.config.lanes) if problem.group == 1 else problem.queries
        return least(self.b, self.b.index(last), problem.keys)

    def places(self, operand: Operand, *column: Index) -> list[Value]:
        """Return where the lanes' elements of an operand lie, at a column if it has columns."""
        return [
            operand.at([*self.head, head, query, *column])
            for head, query in zip(self.heads, self.queries, strict=True)
        ]

    def packed(self, operand: Operand, size: int, factor: float = 1.0) -> Memory:
        """Return the rows, times a factor, in private memory: column after column."""
        b = self.b
        memory = b.private(self.problem.dtype.compute, size * self.config.lanes)
        firsts, step = self.places(operand, 0), operand.layout.strides[-1]
        with b.for_(0, size) as loop:
            for v, first in zip(self.each, firsts, strict=True):
                value = operand.load(first + loop.index * step)
                place = loop.index * self.config.lanes + v * self.config.width
                memory.store(place, value if factor == 1.0 else value * factor, is_aligned=True)
            loop.yield_()
        return memory

    def vectors(self, memory: Memory, row: Index) -> list[Value]:
        """Return the vectors of a row of private memory that is as wide as the tile."""
        width, lanes = self.config.width, self.config.lanes
        return [
            memory.load(plus(row * lanes, v * width), width=width, is_aligned=True)
            for v in self.each
        ]

    def put(self, memory: Memory, row: Index, values: Sequence[Value]) -> None:
        """Write them."""
        width, lanes = self.config.width, self.config.lanes
        for v, value in enumerate(values):
            memory.store(plus(row * lanes, v * width), value, is_aligned=True)


class Scores:
    """How products become scores, for lanes of queries and one key."""

    def __init__(self, tile: Tile, operands: dict[str, Operand]) -> None:
        self.tile = tile
        self.b = tile.b
        self.k = RecordingAlgebra(tile.b)
        self.scoring = tile.problem.scoring
        self._operands = operands
        self._firsts: dict[str, list[Value]] = {
            name: tile.places(operands[name], 0)
            for name in ("mask", "bias", "dropout_bits") if name in operands
        }  # fmt: skip
        self._narrow = [tile.b.cast(query, int32) for query in tile.queries]

    def said(self, name: str, v: int, key: Value) -> Value:
        """Return what an operand says of the scores of lanes."""
        operand = self._operands[name]
        return operand.load(self._firsts[name][v] + key * operand.layout.strides[-1])

    def capped(self, product: Value) -> Value:
        """Return softcap * tanh(product / softcap)."""
        cap = self.scoring.softcap
        return product if cap is None else self.k.tanh(product / cap) * cap

    def blocked(self, score: Value, v: int, key: Value) -> Value:
        """Return a capped score with its bias, -inf where a lane may not attend."""
        b, nothing = self.b, -math.inf
        if "bias" in self._operands:
            score = score + self.said("bias", v, key)
        if "mask" in self._operands:
            score = b.select(self.said("mask", v, key), score, nothing)
        if self.scoring.is_causal:
            own = self._narrow[v]
            score = b.select(b.splat(b.cast(key, int32), own.width) <= own, score, nothing)
        return score

    def dropped(self, weight: Value, v: int, key: Value) -> Value:
        """Return weights over 1 - p, and 0 for those that are dropped."""
        if "dropout_bits" not in self._operands:
            return weight
        words, p = self.said("dropout_bits", v, key), self.scoring.dropout_p
        assert _DROPOUT is not None
        return trace(self.b, _DROPOUT, [weight, words], weight.dtype, p=p)

    def zero(self) -> Value:
        """Return a vector of zeros."""
        return self.b.const(0, self.type)

    def nothing(self) -> Value:
        """Return the scores of no key."""
        return self.b.const(-math.inf, self.type)

    @property
    def type(self) -> Type:
        """The type of lanes."""
        return vector(self.tile.problem.dtype.compute, self.tile.config.width)
