"""Which values of a graph are better written than made again by each kernel that reads them."""

from __future__ import annotations

from collections.abc import Sequence, Set

from pyrite.backend.cube.body.evaluate import weight_of
from pyrite.backend.cube.body.group import KEPT_WEIGHT
from pyrite.backend.cube.body.region import is_fold, is_view
from pyrite.backend.cube.body.remaining import Remaining
from pyrite.backend.graph import Graph, Node
from pyrite.kernel.machine import Machine
from pyrite.types import TensorType

#: What is made of so many times its own bytes is better read than made again.
WIDE = 1.25

#: A costly value is made first where one kernel would make each element of it so often, and has so
#: many elements that a launch is worth it.
MANY = 8
LEAST_SHARED = 1 << 12


class KeptValues:
    """The values of a graph that are better written; ``inside`` are the nodes of regions."""

    def __init__(
        self, graph: Graph, inside: Set[Node], remaining: Remaining, machine: Machine
    ) -> None:
        self.graph, self.machine = graph, machine
        self._inside, self._remaining = inside, remaining
        self._heavy: dict[Node, bool] = {}

    def shared(self, nodes: Sequence[Node], wanted: Sequence[int]) -> int | None:
        """Return the last costly value of which an elementwise kernel would make each many times.

        The logarithm of a sum is one for a column.  GPUs have instructions to spare.
        """
        if self.machine.kind == "gpu" or any(is_fold(n) for n in nodes):
            return None
        types = self.graph.types
        heavy = [n.first for n in nodes if self._is_heavy(n) and n.first not in wanted]
        if not heavy:
            return None
        size = max(types[v].size for v in wanted)
        if size < LEAST_SHARED:
            return None
        few = [v for v in heavy if types[v].size * MANY <= size]
        return few[-1] if few else None

    def beside(
        self, nodes: Sequence[Node], wanted: Sequence[int], siblings: Sequence[int]
    ) -> list[int]:
        """Return what takes longer to make again than to read, and other kernels want too."""
        results = set(self.graph.results)
        gone = self._gone_beside(nodes, {*wanted, *siblings})
        reads: dict[int, frozenset[int]] = {v: frozenset((v,)) for v in wanted}
        found: list[int] = []
        for node in nodes:
            of = frozenset().union(*(reads.get(v, frozenset((v,))) for v in node.values))
            for v in node.results:
                if v in reads:
                    continue
                later = self._remaining.users(v, gone)
                is_asked_for = bool(later) or v in results
                is_kept = is_asked_for and self._is_dear(node, of, later)
                reads[v] = frozenset((v,)) if is_kept else of
                if is_kept:
                    found.append(v)
        return found

    def _gone_beside(self, nodes: Sequence[Node], made: Set[int]) -> set[Node]:
        """Return the nodes that are left no more once a kernel has made some values.

        With those it writes its folds that others want, so what these alone fold is not asked for.
        """
        remaining, results = self._remaining, self.graph.results
        gone = remaining.gone(made)
        folds = {
            v for n in nodes if is_fold(n)
            for v in n.results if v in results or remaining.users(v, gone)
        }  # fmt: skip
        return remaining.gone(made | folds) if folds - made else gone

    def _is_dear(self, node: Node, reads: Set[int], later: Sequence[Node]) -> bool:
        """Whether making its results again, of what is read for it, takes longer than reading.

        ``later`` are the nodes that take one.
        """
        if is_view(node):
            return False
        if is_fold(node) or self._is_heavy(node):
            return True
        types = self.graph.types
        (type,) = node.types
        is_stretched = any(1 < types[v].size < type.size for v in reads)
        is_wide = sum(_nbytes(types[v]) for v in reads) > WIDE * _nbytes(type)
        if is_wide or not is_stretched:
            return is_wide
        # What is read by kernels that are no rows', for which a number of a row is not at hand.
        return any(n not in self._inside or self._is_heavy(n) for n in later)

    def _is_heavy(self, node: Node) -> bool:
        """Whether a node is an elementwise op of many instructions."""
        found = self._heavy.get(node)
        if found is None:
            is_map = node.op.is_elementwise
            found = is_map and weight_of(node, self.graph.types) >= KEPT_WEIGHT
            self._heavy[node] = found
        return found


def _nbytes(type: TensorType) -> int:
    return type.size * type.dtype.itemsize
