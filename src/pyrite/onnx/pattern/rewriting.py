"""Patterns found in a graph, and replaced by the nodes that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pyrite.onnx.graph import Graph, Node, ValueType
from pyrite.onnx.optimization import pruned
from pyrite.onnx.pattern.term import Match, NodeOf, Product
from pyrite.onnx.pattern.view import GraphView

#: What stands in the place of nodes: another one, or none.
Made = Mapping[Node, Node | None]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The last node of a pattern as a term, and what a match of it becomes."""

    #: The ops of the last node.
    ops: tuple[str, ...]
    term: NodeOf | Product
    #: Returns the node in the place of the last one, or what stands in the place of several; None
    #: where a match is not what it seems.
    make: Callable[[Match, Node, GraphView], Node | Made | None]

    def made(self, last: Node, view: GraphView) -> Made | None:
        """Return what stands in the place of the nodes that end in one; None without a match."""
        for match in self.term.match_node(last, view, Match()):
            made = self.make(match, last, view)
            if made is not None:
                return {last: made} if isinstance(made, Node) else made
        return None


def rewritten(graph: Graph, patterns: Iterable[Pattern], view: GraphView) -> Graph:
    """Return a graph with what patterns find in its view; bodies stay as they are.

    If several patterns end in one node, the first that fits is taken.  Nodes come in the order in
    which they run, so that a pattern may be made of what was found before it.  Those that only a
    pattern reads are left out.
    """
    by_op: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        for op in pattern.ops:
            by_op.setdefault(op, []).append(pattern)
    for node in graph.nodes:
        if node.domain:
            continue
        found = (pattern.made(node, view) for pattern in by_op.get(node.op, ()))
        made = next((each for each in found if each is not None), None)
        if made is not None:
            view.put(made)
    weights = MappingProxyType({**graph.weights, **view.made})
    return pruned(replace(graph, nodes=view.nodes(), weights=weights))


def node_of(
    last: Node,
    op: str,
    version: int,
    inputs: tuple[str, ...],
    types: Sequence[ValueType] = (),
    *,
    domain: str = "",
    scope: tuple[str, ...] | None = None,
    **attributes: Any,
) -> Node:
    """Return a node that gives what the last of a pattern gives, in its scope if none is named."""
    return Node(
        op, domain, version, last.name, inputs, last.outputs, MappingProxyType(attributes),
        tuple(types), last.output_types, scope or last.scope,
    )  # fmt: skip
