"""What each weight of a model is: trained, renewed by training, fixed, or an array of the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

from pyrite.onnx.converter import STEERING, Kind, converter
from pyrite.onnx.graph import Graph, Node, Weight
from pyrite.onnx.program import HOST_LIMIT

Role = Literal["parameter", "state", "constant", "host"]

#: Ops for which a weight of one element is a factor or a bound, not something that is learned.
_ARITHMETIC = {"Mul", "Div", "Sub", "Pow", "Min", "Max", "Clip", "Where", "Mod", "Equal"}


def roles(graph: Graph) -> dict[str, Role]:
    """Return the role of each weight of a graph and its bodies, by key."""
    uses: dict[str, list[tuple[Node, Kind | None]]] = defaultdict(list)
    weights = {w.key: w for w in _weights(graph)}
    for key, node, kind in _uses(graph, {}):
        uses[key].append((node, kind))
    return {key: _role(w, uses[key]) for key, w in weights.items()}


def _weights(graph: Graph) -> Iterator[Weight]:
    yield from graph.weights.values()
    for node in graph.nodes:
        for body in node.bodies:
            yield from _weights(body)


def _uses(graph: Graph, outer: Mapping[str, str]) -> Iterator[tuple[str, Node, Kind | None]]:
    """Give each use of a weight, within bodies too: its key, the node, the kind of operand."""
    keys = {**outer, **{name: w.key for name, w in graph.weights.items()}}
    for node in graph.nodes:
        found = converter(node.domain, node.op, node.version)
        for position, name in enumerate(node.inputs):
            if name in keys:
                yield keys[name], node, found.kind(position) if found else None
        for body in node.bodies:
            yield from _uses(body, keys)


def _role(weight: Weight, uses: list[tuple[Node, Kind | None]]) -> Role:
    kinds = {kind for _, kind in uses}
    is_small = weight.size <= HOST_LIMIT
    carrier = weight.element.carrier
    if carrier is None or not carrier.is_float:
        return "host" if is_small else "constant"
    if kinds & STEERING or (is_small and not weight.shape):
        return "host"
    if not weight.is_initializer or not kinds or "fixed" in kinds:
        return "host" if is_small and weight.size < 64 else "constant"
    if "statistic" in kinds:
        return "state"
    if weight.size == 1 and all(node.op in _ARITHMETIC for node, _ in uses):
        return "host"
    return "parameter"
