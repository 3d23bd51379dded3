"""Bodies of a graph under names of their own, so that a name stands for one value in all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyrite.onnx.graph import Graph, Node


def with_own_names(graph: Graph) -> Graph:
    """Return a graph in whose bodies no value has the name of another one in it."""
    return _Renamer(_names(graph)).renamed(graph, {})


def _names(graph: Graph) -> set[str]:
    """Return the names that a graph gives values, without those of its bodies."""
    made = (name for node in graph.nodes for name in node.outputs)
    return {*graph.inputs, *graph.weights, *made}


class _Renamer:
    """Gives the values of bodies names that no other has."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def renamed(self, graph: Graph, names: Mapping[str, str]) -> Graph:
        """Return a graph whose nodes read values by their new names."""
        return replace(graph, nodes=tuple(self._node(node, names) for node in graph.nodes))

    def _node(self, node: Node, names: Mapping[str, str]) -> Node:
        return replace(
            node.with_bodies(lambda body: self._body(body, names)),
            inputs=tuple(names.get(name, name) for name in node.inputs),
            outputs=tuple(names.get(name, name) for name in node.outputs),
        )

    def _body(self, body: Graph, outer: Mapping[str, str]) -> Graph:
        names = {**outer, **{name: self._free(name) for name in sorted(_names(body) - {""})}}
        return self.renamed(
            replace(
                body,
                inputs=tuple(names[name] for name in body.inputs),
                outputs=tuple(names.get(name, name) for name in body.outputs),
                weights=MappingProxyType({names[n]: w for n, w in body.weights.items()}),
                types=MappingProxyType({names.get(n, n): t for n, t in body.types.items()}),
            ),
            names,
        )

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}:{count}"
        self._taken.add(found)
        return found
