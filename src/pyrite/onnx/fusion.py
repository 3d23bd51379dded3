"""Nodes that are one op of Pyrite, found again: linear layers, attention, GELU.

Files spell these in single ops of ONNX, which here are as many kernels.  A pattern is replaced
where nothing else reads what is between; weights stay where they are, so the model trains as
before.  What is found is nodes of a domain of their own (`pyrite.onnx.ops.fused`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isclose, sqrt
from typing import Any

from pyrite.onnx.graph import Graph, Node, Weight

#: The domain of what is found.  No file may name it (`support`).
FUSED = "pyrite.fused"


@dataclass(frozen=True, eq=False)
class Match:
    """Nodes, the last of which gives the value, and what they are."""

    op: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        """The one node that replaces them, named as the last."""
        last = self.nodes[-1]
        return replace(
            last, op=self.op, domain=FUSED, version=1, inputs=self.inputs,
            attributes=self.attributes, input_types=(),
        )  # fmt: skip


class Values:
    """What makes each value of a graph, and who reads it."""

    def __init__(self, graph: Graph) -> None:
        self.weights = graph.weights
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._reads = Counter(name for node in graph.nodes for name in _reads(node))
        self._reads.update(graph.outputs)

    def inner(self, name: str, *ops: str) -> Node | None:
        """Return the node of one of some ops that makes a value which is read once."""
        node = self._makers.get(name)
        if node is None or node.domain or node.op not in ops or self._reads[name] != 1:
            return None
        return node if not any(node.outputs[1:]) else None

    def maker(self, name: str) -> Node | None:
        """Return the node that makes a value; None for an input or a weight."""
        return self._makers.get(name)

    def number(self, name: str) -> float | None:
        """Return a weight that is one number, of no axis or of one."""
        weight = self.weights.get(name)
        if weight is None or weight.size != 1 or len(weight.shape) > 1 or _trains(weight):
            return None
        return float(weight.read().reshape(-1)[0])


def _trains(weight: Weight) -> bool:
    """Whether one number may be trained: an initializer that has an axis."""
    return weight.is_initializer and bool(weight.shape)


def _reads(node: Node) -> Iterator[str]:
    """Give the names that a node reads, as often as it does."""
    yield from filter(None, node.inputs)
    for body in node.bodies:
        yield from body.captured


def fused(graph: Graph) -> Graph:
    """Return a graph with the nodes of each pattern as one."""
    values = Values(graph)
    matches = {}
    taken: set[Node] = set()
    for node in graph.nodes:
        for pattern in PATTERNS.get(node.op, ()) if not node.domain else ():
            match = pattern(node, values)
            if match is not None and taken.isdisjoint(match.nodes):
                taken.update(match.nodes)
                matches[node] = match.node
                break
    nodes = (
        matches.get(node, node) for node in graph.nodes if node in matches or node not in taken
    )
    return replace(graph, nodes=tuple(nodes))


# ---- linear layers ----


def _linear(last: Node, values: Values) -> Match | None:
    """x @ weight + bias, as exporters write layers over more than two axes."""
    for product_name, bias_name in _both(last.inputs):
        product = values.inner(product_name, "MatMul")
        bias = values.weights.get(bias_name)
        if product is None or bias is None or len(bias.shape) != 1:
            continue
        found = _layer_weight(product.inputs[1], values)
        if found is not None and found[2] == bias.shape[0]:
            name, transposed, _ = found
            inputs = (product.inputs[0], name, bias_name)
            return Match("Linear", (product, last), inputs, {"transposed": transposed})
    return None


def _layer_weight(name: str, values: Values) -> tuple[str, int, int] | None:
    """Return a weight of two axes: its name, whether it is (out, in), and how many are out."""
    weight = values.weights.get(name)
    if weight is not None:
        return (name, 0, weight.shape[1]) if len(weight.shape) == 2 else None
    turned = values.maker(name)
    if turned is None or turned.op != "Transpose" or turned.domain:
        return None
    weight = values.weights.get(turned.inputs[0])
    if weight is None or len(weight.shape) != 2:
        return None
    if tuple(turned.attributes.get("perm", (1, 0))) != (1, 0):
        return None
    return turned.inputs[0], 1, weight.shape[0]


# ---- attention ----


def _attention(last: Node, values: Values) -> Match | None:
    """softmax(query keys * factor + bias) value; keys are transposed already."""
    softmax = values.inner(last.inputs[0], "Softmax")
    if softmax is None or not _is_over_last(softmax):
        return None
    scores, bias, added = _biased(softmax.inputs[0], values)
    product, factor, scaled = _scaled(scores, values)
    if product is None:
        return None
    nodes = (product, *scaled, *added, softmax, last)
    divides = any(node.op == "Div" for node in scaled)
    inputs = (*product.inputs, last.inputs[1], bias, factor)
    return Match("Attention", nodes, inputs, {"divides": int(divides)})


def _shape(node: Node, position: int) -> tuple[Any, ...]:
    types = node.input_types
    return (types[position].shape if position < len(types) else None) or ()


def _is_over_last(softmax: Node) -> bool:
    axis = softmax.attributes.get("axis", -1 if softmax.version >= 13 else 1)
    return softmax.version >= 13 and axis in (-1, len(_shape(softmax, 0)) - 1)


def _biased(name: str, values: Values) -> tuple[str, str, tuple[Node, ...]]:
    """Return scores before a bias was added, its name, and the node that adds it."""
    node = values.inner(name, "Add")
    for scores, bias in _both(node.inputs) if node else ():
        if _scaled(scores, values)[0] is not None:
            assert node is not None
            return scores, bias, (node,)
    return name, "", ()


def _scaled(name: str, values: Values) -> tuple[Node | None, str, tuple[Node, ...]]:
    """Return the product that scores are, the name of a factor, and the node that multiplies."""
    product = values.inner(name, "MatMul")
    if product is not None:
        return product, "", ()
    node = values.inner(name, "Mul", "Div")
    for scores, factor in _orders(node) if node else ():
        product = values.inner(scores, "MatMul")
        if product is not None:
            assert node is not None
            return product, factor, (node,)
    return None, "", ()


def _orders(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the operands of a node, in both orders where they may be swapped."""
    return _both(node.inputs) if node.op == "Mul" else ((node.inputs[0], node.inputs[1]),)


# ---- GELU ----


def _gelu(last: Node, values: Values) -> Match | None:
    """x * 0.5 * (1 + erf(x / sqrt(2))), whose three factors come in any order."""
    for outer, rest in _both(last.inputs):
        for found in (_of_half(last, outer, rest, values), _of_product(last, outer, rest, values)):
            if found is not None:
                return found
    return None


def _of_half(last: Node, half: str, rest: str, values: Values) -> Match | None:
    """0.5 * (x * (1 + erf))."""
    product = values.inner(rest, "Mul")
    if product is None or values.number(half) != 0.5:
        return None
    for x, sum_name in _both(product.inputs):
        nodes = _one_and_erf(x, sum_name, values)
        if nodes:
            return Match("Gelu", (*nodes, product, last), (x,))
    return None


def _of_product(last: Node, halved: str, sum_name: str, values: Values) -> Match | None:
    """(x * 0.5) * (1 + erf)."""
    product = values.inner(halved, "Mul")
    for x, half in _both(product.inputs) if product else ():
        nodes = _one_and_erf(x, sum_name, values)
        if nodes and values.number(half) == 0.5:
            assert product is not None
            return Match("Gelu", (*nodes, product, last), (x,))
    return None


def _one_and_erf(x: str, name: str, values: Values) -> tuple[Node, ...]:
    """Return the nodes of 1 + erf(x / sqrt(2)); none where a value is not that."""
    total = values.inner(name, "Add")
    for erf_name, one in _both(total.inputs) if total else ():
        erf = values.inner(erf_name, "Erf")
        inner = values.inner(erf.inputs[0], "Div", "Mul") if erf else None
        if inner is None or erf is None or values.number(one) != 1:
            continue
        assert total is not None
        wanted = sqrt(2) if inner.op == "Div" else sqrt(0.5)
        number = values.number(inner.inputs[1])
        if inner.inputs[0] == x and number is not None and isclose(number, wanted, rel_tol=1e-6):
            return inner, erf, total
    return ()


def _both(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return two operands in both orders."""
    first, second = names
    return (first, second), (second, first)


#: By the op of the last node.
PATTERNS: Mapping[str, tuple[Callable[[Node, Values], Match | None], ...]] = {
    "Add": (_linear,),
    "MatMul": (_attention,),
    "Mul": (_gelu,),
}
