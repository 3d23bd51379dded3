"""A graph in which patterns are looked for: nodes that are one op here, told by the last of them.

What is between is read by nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pyrite.onnx.graph import Graph, Node, Weight
from pyrite.onnx.optimization import pruned
from pyrite.onnx.python.use import PATTERN
from pyrite.types import Array

#: Returns the node that a pattern ending in a node is; None where there is none.
Pattern = Callable[["Finder", Node], "Node | None"]

PATTERNS: dict[str, list[Pattern]] = {}


def ends_in(*ops: str) -> Callable[[Pattern], Pattern]:
    """Return a decorator that files a pattern by the op of its last node."""

    def file(pattern: Pattern) -> Pattern:
        for op in ops:
            PATTERNS.setdefault(op, []).append(pattern)
        return pattern

    return file


def with_patterns(
    graph: Graph, constants: Mapping[str, Array], outer: Mapping[str, Weight] | None = None
) -> Graph:
    """Return a graph in which each pattern is one node; a body may read weights around it."""
    weights = {**(outer or {}), **graph.weights}
    graph = graph.with_bodies(lambda body: with_patterns(body, constants, weights))
    finder = Finder(graph, constants, weights)
    for node in graph.nodes:
        for pattern in PATTERNS.get(node.op, ()) if not node.domain else ():
            found = pattern(finder, node)
            if found is not None:
                finder.put(node, found)
                break
    return pruned(replace(graph, nodes=tuple(finder.nodes())))


def without_aliases(graph: Graph) -> Graph:
    """Return a graph in which an Identity of a weight is a weight of its own name.

    PyTorch's exporter writes weights that are equal once, and names the others so.
    """
    weights = dict(graph.weights)
    kept = []
    for node in graph.nodes:
        source = weights.get(node.inputs[0]) if node.op == "Identity" and node.inputs else None
        if source is None or not source.is_initializer or node.outputs[0] in graph.outputs:
            kept.append(node)
            continue
        name = node.outputs[0]
        weights[name] = replace(source, key=name)
    return replace(graph, nodes=tuple(kept), weights=MappingProxyType(weights))


@dataclass(slots=True)
class Finder:
    """A graph in which patterns are looked for."""

    graph: Graph
    constants: Mapping[str, Array]
    weights: Mapping[str, Weight]
    makers: dict[str, Node] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _instead: dict[Node, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            self.makers.update(dict.fromkeys(node.outputs, node))
            self.counts.update(node.uses)
        self.counts.update(self.graph.outputs)

    def put(self, node: Node, *made: Node) -> None:
        """Put nodes in the place of one, of which the last gives what it gave; or none."""
        self._instead[node] = list(made)
        self.makers.update({name: each for each in made for name in each.outputs})

    def nodes(self) -> list[Node]:
        """Return the nodes with patterns in the place of their last nodes."""
        return [made for node in self.graph.nodes for made in self._instead.get(node, [node])]

    def number(self, name: str) -> float | None:
        """Return a value that is one known number."""
        array = self.constants.get(name)
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            return None
        return float(array.reshape(-1)[0])

    def weight(self, name: str) -> Weight | None:
        """Return a weight of the file that lies on the device."""
        return None if name in self.constants else self.weights.get(name)

    def maker(self, name: str, *ops: str, alone: bool = True) -> Node | None:
        """Return the node that makes a value, if it is of these ops and nothing else reads it."""
        node = self.makers.get(name)
        if node is None or node.domain not in ("", PATTERN) or node.op not in ops:
            return None
        return node if not alone or self.counts[name] == 1 else None

    def reader(self, name: str, op: str) -> Node | None:
        """Return the node of an op that alone reads a value."""
        if self.counts[name] != 1:
            return None
        node = next((n for n in self.graph.nodes if name in n.inputs), None)
        return node if node is not None and not node.domain and node.op == op else None

    def is_within(self, name: str, nodes: Sequence[Node]) -> bool:
        """Whether a value, and all that is made of it on the way to the last node, stays inside.

        What gives constants alone, as the size of an axis that is known, need not read it.
        """
        inside = {name, *(out for node in nodes[:-1] for out in node.outputs)}
        readers = (node for node in self.graph.nodes if not inside.isdisjoint(node.uses))
        return inside.isdisjoint(self.graph.outputs) and all(
            node in nodes or all(out in self.constants for out in node.outputs) for node in readers
        )

    def pair(self, node: Node, *ops: str) -> tuple[Node, str] | None:
        """Return which of two operands is made by some op, and the name of the other."""
        for mine, other in ((0, 1), (1, 0)):
            found = self.maker(node.inputs[mine], *ops)
            if found is not None:
                return found, node.inputs[other]
        return None

    def scaled(self, node: Node) -> tuple[str, float] | None:
        """Return what a Mul or Div by a number is applied to, and the factor."""
        if node.op == "Div":
            divisor = self.number(node.inputs[1])
            return (node.inputs[0], 1.0 / divisor) if divisor else None
        if node.op == "Mul":
            for mine, other in ((0, 1), (1, 0)):
                factor = self.number(node.inputs[other])
                if factor is not None:
                    return node.inputs[mine], factor
        return None


def node_of(last: Node, op: str, version: int, inputs: tuple[str, ...], like: Node | None = None,
          **attributes: Any) -> Node:  # fmt: skip
    """Return a node in the place of the last of a pattern; its operands are typed by ``like``."""
    domain = PATTERN if op in ("Linear",) else ""
    types = last.input_types if like is None else like.input_types
    scope = last.scope if like is None else like.scope
    return Node(
        op, domain, version, last.name, inputs, last.outputs, MappingProxyType(attributes),
        types, last.output_types, scope,
    )  # fmt: skip


def is_float(node: Node) -> bool:
    element = node.output_types[0].element if node.output_types else None
    return element is not None and element.carrier is not None and element.carrier.is_float
