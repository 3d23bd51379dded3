"""What attention is over: rows of queries, each of which meets the keys of one head.

Operands have the axes of the heads first.  Query heads that share a head of keys are a ``group``;
its queries lie one after the other, as rows, so that also a single query of each fills vectors:
query, its gradient, out and its cotangent are (*heads, group, queries, size), logsumexp is so
without the last, key and value (*heads, keys, size), and what is said of each score, mask and bias,
(*heads, group, queries, keys); the key of dropout is two words.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout
from pyrite.kernel.extent import extent
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores come of products and become probabilities; see `pyrite.tensor.attention`."""

    is_causal: bool
    scale: float
    softcap: float | None
    dropout_p: float


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes and layouts; ``size`` is of queries and keys, ``value_size`` of values.

    Draws are those of heads from ``first`` on.

    ``operands`` are those of a kernel in order: the name, the layout, and whether it is only read.
    """

    scoring: Scoring
    dtype: DType
    size: int
    value_size: int
    operands: tuple[tuple[str, Layout, bool], ...]
    heads: tuple[int, ...] = extent()
    group: int = extent()
    queries: int = extent()
    keys: int = extent()
    first: int = extent(default=0)

    @property
    def rows(self) -> int:
        """Queries that meet one head of keys."""
        return self.group * self.queries

    @property
    def head_count(self) -> int:
        """How many heads of keys there are, in all batches."""
        count = 1
        for size in self.heads:
            count = count * size
        return count
