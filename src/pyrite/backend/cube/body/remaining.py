"""What of a graph is still to run, which a run asks for at each of its steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from pyrite.backend.graph import Graph, Node, reaching


class Remaining:
    """The nodes of which results are made that do not lie in memory.

    ``real`` are the values that do, in the order in which they came: a run adds to them.
    """

    def __init__(self, graph: Graph, real: Mapping[int, Any]) -> None:
        self._graph, self._real = graph, real
        self._results = set(graph.results)
        self._known = len(graph.inputs)
        self._nodes: Sequence[Node] = [graph.nodes[n] for n in reaching(graph)]
        self._left = set(self._nodes)
        #: The nodes that take each value, in order.
        self._users: dict[int, list[Node]] = {}
        for node in self._nodes:
            for v in dict.fromkeys(node.values):
                self._users.setdefault(v, []).append(node)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in order."""
        self._update()
        return self._nodes

    def users(self, value: int, gone: Set[Node] = frozenset()) -> list[Node]:
        """Return those that take a value, but for some that are gone."""
        self._update()
        left = self._left
        return [n for n in self._users.get(value, ()) if n in left and n not in gone]

    def gone(self, done: Collection[int]) -> set[Node]:
        """Return the nodes that would be left no more with these values in memory too."""
        self._update()
        return self._lost(done, done)

    def needs(self, node: Node, done: Collection[int]) -> bool:
        """Whether a node is left with these values in memory too."""
        gone = self.gone(done)
        return node in self._left and node not in gone

    def _update(self) -> None:
        """Take away what is left no more because of values that came into memory since."""
        if len(self._real) == self._known:
            return
        lost = self._lost(islice(self._real, self._known, None), ())
        self._known = len(self._real)
        if lost:
            self._left -= lost
            self._nodes = [n for n in self._nodes if n not in lost]

    def _lost(self, begin: Iterable[int], done: Collection[int]) -> set[Node]:
        """Return the nodes that nothing wants, of makers of values that are in memory or done.

        The latest first, so that all that takes a node's results was looked at before it.
        """
        makers, real, results, left = self._graph.makers, self._real, self._results, self._left
        lost = set[Node]()
        seen = set[Node]()
        heap: list[tuple[int, Node]] = []

        def push(value: int) -> None:
            node = makers[value]
            if node is not None and node in left and node not in seen:
                seen.add(node)
                heappush(heap, (-node.first, node))

        for value in begin:
            push(value)
        while heap:
            _, node = heappop(heap)
            is_wanted = any(
                v not in real and v not in done
                and (v in results or any(u in left and u not in lost for u in self._users[v]))
                for v in node.results if v in results or v in self._users
            )  # fmt: skip
            if not is_wanted:
                lost.add(node)
                for value in node.values:
                    push(value)
        return lost
