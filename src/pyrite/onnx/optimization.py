"""Graphs made smaller: copies, and what nothing uses, are left out."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from pyrite.onnx.graph import Graph, Node


def pruned(graph: Graph) -> Graph:
    """Return a graph without copies, and without nodes and weights that no output depends on."""
    graph = _without_copies(graph)
    wanted = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.uses)
    weights = {name: weight for name, weight in graph.weights.items() if name in wanted}
    return replace(graph, nodes=tuple(reversed(kept)), weights=MappingProxyType(weights))


def _without_copies(graph: Graph) -> Graph:
    """Return a graph whose nodes read what an Identity copies, unless a body or a result does.

    PyTorch writes equal weights once, and copies them: a copied statistic is one still.
    """
    kept = {*graph.outputs, *(name for n in graph.nodes for b in n.bodies for name in b.captured)}
    sources: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(sources.get(name, name) for name in node.inputs))
        is_copy = node.op == "Identity" and not node.domain and len(node.inputs) == 1
        if is_copy and node.outputs[0] not in kept:
            sources[node.outputs[0]] = node.inputs[0]
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
