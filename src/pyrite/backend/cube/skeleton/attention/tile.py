"""A tile of queries, which are lanes."""

from __future__ import annotations

from pyrite.backend.cube.operand import Operand, iota, unravel
from pyrite.backend.cube.skeleton.attention.config import LaneConfig
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.template.index import Index, least, pieces, plus
from pyrite.types import int32


class QueryTile:
    """So many rows of one head of keys, by vectors, and where their elements lie.

    Lanes beyond the last row are the last row again; they are computed and not stored.
    """

    def __init__(
        self, b: KernelBuilder, problem: Attention, config: LaneConfig, number: Value
    ) -> None:
        self.b, self.problem, self.config = b, problem, config
        tiles = pieces(problem.rows, config.lanes)
        self.head_number = number // tiles
        self.head = unravel(b, self.head_number, problem.heads) if problem.heads else []
        self.first = number % tiles * config.lanes
        firsts = [self.first + v * config.width for v in range(config.vectors)]
        rows = [first + iota(b, config.width) for first in firsts]
        self.exists = [row < problem.rows for row in rows]
        #: Their numbers among the rows of the head.
        self.rows = clamped = [b.min(row, problem.rows - 1) for row in rows]
        #: Which query heads and queries the lanes are.
        self.heads: list[Index] = [0 for _ in rows]
        self.queries: list[Value] = clamped
        if problem.group > 1:
            self.heads = [row // problem.queries for row in clamped]
            self.queries = [row % problem.queries for row in clamped]

    def numbers(self, v: int) -> Value:
        """Return the queries of a vector, as 32 bits.

        Of one query head they are made where they are wanted, of a number: as a vector they would
        be in two registers or more.
        """
        b, width = self.b, self.config.width
        if self.problem.group > 1:
            return b.cast(self.queries[v], int32)
        first = b.cast(b.index(self.first), int32) + v * width
        return b.splat(first, width) + b.const(range(width), vector(int32, width))

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
