"""Folds at the end of a graph: what is made of one is elementwise, and no larger than it is.

The gradient of a bias with its update is one, or a loss.  What it folds need not stay near, so it
runs as soon as that is in memory; and what follows it may wait for what follows others.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf

from pyrite.backend.cube.body.region import is_fold
from pyrite.backend.graph import Graph, Node, reaching


def closing_folds(graph: Graph, inside: Set[Node]) -> list[Node]:
    """Return the closing folds that results are made of, in order.

    ``inside`` are the nodes that a region may have.
    """
    #: The most elements of what is made of a value; more than any where it is not elementwise.
    most: dict[int, float] = {}
    found: list[Node] = []
    for node in reversed([graph.nodes[n] for n in reaching(graph)]):
        behind = max(most.get(v, 0) for v in node.results)
        if node in inside and is_fold(node) and behind <= graph.types[node.first].size:
            found.append(node)
        is_map = node in inside and not is_fold(node)
        behind = max(behind, graph.types[node.first].size) if is_map else inf
        most |= {v: max(most.get(v, 0), behind) for v in node.values}
    return found[::-1]
