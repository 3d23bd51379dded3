"""Graphs made smaller: what nothing uses is left out, and for inference batch norms are folded.

A batch norm after a convolution whose output nothing else reads is a factor and a shift of the
convolution's weights.  Weights are computed when they are read, so a folded model trains other
parameters than the file's: it is for inference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from pyrite.onnx.graph import Graph, Node, Weight
from pyrite.types import Array


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


def folded(graph: Graph) -> Graph:
    """Return a graph with its batch norms folded into the convolutions before them."""
    graph = _without_copies(graph)
    uses = Counter(name for node in graph.nodes for name in node.uses)
    uses.update(graph.outputs)
    by_output = {name: node for node in graph.nodes for name in node.outputs}
    weights = dict(graph.weights)
    instead: dict[Node, Node | None] = {}
    for norm in graph.nodes:
        conv = by_output.get(norm.inputs[0]) if norm.inputs else None
        if conv is not None and _is_foldable(norm, conv, uses, weights):
            instead[conv] = _folded(norm, conv, weights)
            instead[norm] = None
    nodes = [instead.get(node, node) for node in graph.nodes]
    made = tuple(node for node in nodes if node is not None)
    return pruned(replace(graph, nodes=made, weights=MappingProxyType(weights)))


def _is_foldable(
    norm: Node, conv: Node, uses: Mapping[str, int], weights: Mapping[str, Weight]
) -> bool:
    is_inference = (
        norm.op == "BatchNormalization"
        and not norm.attributes.get("training_mode")
        and norm.attributes.get("spatial", 1) == 1
        and not any(norm.outputs[1:])
    )
    is_alone = conv.op == "Conv" and not conv.domain and uses[conv.outputs[0]] == 1
    held = (*norm.inputs[1:], *filter(None, conv.inputs[1:]))
    return is_inference and is_alone and all(name in weights for name in held)


def _folded(norm: Node, conv: Node, weights: dict[str, Weight]) -> Node:
    """Return the convolution that does what both do; its weights are filed under new names."""
    kernel = weights[conv.inputs[1]]
    bias = weights[conv.inputs[2]] if len(conv.inputs) > 2 and conv.inputs[2] else None
    scale, shift, mean, variance = (weights[name] for name in norm.inputs[1:5])
    epsilon = float(norm.attributes.get("epsilon", 1e-5))

    def factor() -> Array:
        spread = variance.read()
        found: Array = scale.read() / np.sqrt(spread + np.asarray(epsilon, spread.dtype))
        return found

    def new_kernel() -> Array:
        return kernel.read() * factor().reshape((-1, *(1,) * (len(kernel.shape) - 1)))

    def new_bias() -> Array:
        before = 0 if bias is None else bias.read()
        found: Array = (before - mean.read()) * factor() + shift.read()
        return found

    # By the norm's output: several convolutions may share a kernel.
    names = (f"{norm.outputs[0]}/weight", f"{norm.outputs[0]}/bias")
    weights[names[0]] = replace(kernel, key=names[0], read=new_kernel)
    weights[names[1]] = replace(shift, key=names[1], read=new_bias)
    return replace(conv, inputs=(conv.inputs[0], *names), outputs=norm.outputs[:1])
