"""A graph as it is written: each pattern is one node, and each weight has a name of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyrite.onnx.graph import Graph, Weight
from pyrite.onnx.pattern import WRITTEN
from pyrite.onnx.pattern.rewriting import rewritten
from pyrite.onnx.pattern.view import GraphView
from pyrite.onnx.python.recurrence import RECURRENT
from pyrite.types import Array


def with_patterns(
    graph: Graph, constants: Mapping[str, Array], outer: Mapping[str, Weight] | None = None
) -> Graph:
    """Return a graph in which each pattern is one node; a body may read weights around it."""
    weights = {**(outer or {}), **graph.weights}
    graph = graph.with_bodies(lambda body: with_patterns(body, constants, weights))
    return rewritten(graph, (*WRITTEN, *RECURRENT), GraphView(graph, constants, weights))


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
