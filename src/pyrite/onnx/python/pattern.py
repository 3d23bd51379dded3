"""Patterns of several ops that are one: a linear layer, layer norm, GELU, SiLU, attention.

Exporters write as several nodes what their opset has no op for, or what they take apart.  A pattern
is told by its last node; it is one node then, of ONNX's own op of a later opset where there is one.
What is between is read by nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pyrite.onnx.graph import Graph, Node, ValueType, Weight
from pyrite.onnx.optimization import pruned
from pyrite.onnx.python.translation import PATTERN
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


def _node(last: Node, op: str, version: int, inputs: tuple[str, ...], like: Node | None = None,
          **attributes: Any) -> Node:  # fmt: skip
    """Return a node in the place of the last of a pattern; its operands are typed by ``like``."""
    domain = PATTERN if op in ("Linear",) else ""
    types = last.input_types if like is None else like.input_types
    scope = last.scope if like is None else like.scope
    return Node(
        op, domain, version, last.name, inputs, last.outputs, MappingProxyType(attributes),
        types, last.output_types, scope,
    )  # fmt: skip


def _is_float(node: Node) -> bool:
    element = node.output_types[0].element if node.output_types else None
    return element is not None and element.carrier is not None and element.carrier.is_float


# ---- linear layers ----


@ends_in("Add")
def linear(finder: Finder, last: Node) -> Node | None:
    """Find x W + b."""
    found = finder.pair(last, "MatMul")
    if found is None or last.version < 7 or not _is_float(last):
        return None
    product, bias = found
    weight, added = finder.weight(product.inputs[1]), finder.weight(bias)
    fits = weight is not None and added is not None and len(weight.shape) == 2
    if not fits or weight is None or added is None or added.shape != (weight.shape[1],):
        return None
    return _node(last, "Linear", 1, (*product.inputs, bias), product)


@ends_in("Gemm")
def linear_gemm(finder: Finder, last: Node) -> Node | None:
    """Find x W' + b in a Gemm."""
    a = last.attributes
    plain = a.get("alpha", 1.0) == 1.0 and a.get("beta", 1.0) == 1.0 and not a.get("transA", 0)
    weight = finder.weight(last.inputs[1])
    if not plain or weight is None or last.version < 7 or not _is_float(last):
        return None
    transposed = int(a.get("transB", 0))
    out = weight.shape[0 if transposed else 1]
    if len(last.inputs) > 2 and last.inputs[2]:
        bias = finder.weight(last.inputs[2])
        if bias is None or bias.shape != (out,):
            return None
    return _node(last, "Linear", 1, tuple(filter(None, last.inputs)), last, transposed=transposed)


@ends_in("MatMul")
def linear_transposed(finder: Finder, last: Node) -> Node | None:
    """Find x W' of a weight that is transposed in the graph: one that an embedding has too."""
    turned = finder.maker(last.inputs[1], "Transpose", alone=False)
    weight = finder.weight(turned.inputs[0]) if turned is not None else None
    if turned is None or weight is None or len(weight.shape) != 2 or not _is_float(last):
        return None
    return _node(last, "Linear", 1, (last.inputs[0], turned.inputs[0]), last, transposed=1)


# ---- activations ----


@ends_in("Mul")
def gelu(finder: Finder, last: Node) -> Node | None:
    """Find x (1 + erf(x / sqrt 2)) / 2, with its factors in any order."""
    factors = _factors(finder, last.outputs[0])
    if factors is None:
        return None
    number, values = factors
    for position, value in enumerate(values):
        inner = _one_plus_erf(finder, value)
        others = values[:position] + values[position + 1 :]
        if inner is not None and others == [inner] and math.isclose(number, 0.5, rel_tol=1e-6):
            return _node(last, "Gelu", 20, (inner,))
    return None


def _factors(finder: Finder, name: str) -> tuple[float, list[str]] | None:
    """Return the known number and the values whose product a value is."""
    node = finder.maker(name, "Mul", "Div", alone=False)
    if node is None or len(node.inputs) != 2:
        return None
    number, values = 1.0, []
    for position, each in enumerate(node.inputs):
        known = finder.number(each)
        if known is not None:
            number *= known if node.op == "Mul" or not position else 1.0 / known
            continue
        if node.op == "Div" and position:
            return None
        inner = _factors(finder, each) if finder.counts[each] == 1 else None
        if inner is None:
            values.append(each)
        else:
            number *= inner[0]
            values += inner[1]
    return number, values


def _one_plus_erf(finder: Finder, name: str) -> str | None:
    """Return x where a value is 1 + erf(x / sqrt 2)."""
    added = finder.maker(name, "Add")
    found = finder.pair(added, "Erf") if added is not None else None
    if found is None or finder.number(found[1]) != 1.0:
        return None
    inner = finder.maker(found[0].inputs[0], "Mul", "Div")
    scaled = finder.scaled(inner) if inner is not None else None
    if scaled is None or not math.isclose(scaled[1], 0.5**0.5, rel_tol=1e-6):
        return None
    return scaled[0]


@ends_in("Mul")
def gelu_tanh(finder: Finder, last: Node) -> Node | None:
    """Find x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2."""
    factors = _factors(finder, last.outputs[0])
    if factors is None or not math.isclose(factors[0], 0.5, rel_tol=1e-6):
        return None
    for position, value in enumerate(factors[1]):
        others = factors[1][:position] + factors[1][position + 1 :]
        added = finder.maker(value, "Add")
        found = finder.pair(added, "Tanh") if added is not None else None
        if found is None or finder.number(found[1]) != 1.0 or len(others) != 1:
            continue
        if _is_cubic(finder, found[0].inputs[0], others[0]):
            return _node(last, "Gelu", 20, (others[0],), approximate="tanh")
    return None


def _is_cubic(finder: Finder, name: str, x: str) -> bool:
    """Whether a value is sqrt(2 / pi) (x + 0.044715 x³)."""
    outer = finder.maker(name, "Mul")
    scaled = finder.scaled(outer) if outer is not None else None
    if scaled is None or not math.isclose(scaled[1], math.sqrt(2 / math.pi), rel_tol=1e-6):
        return False
    added = finder.maker(scaled[0], "Add")
    if added is None or x not in added.inputs:
        return False
    cube = next((n for n in added.inputs if n != x), "")
    factors = _factors(finder, cube)
    if factors is None or not math.isclose(factors[0], 0.044715, rel_tol=1e-6):
        return False
    if factors[1] == [x, x, x]:
        return True
    power = finder.maker(factors[1][0], "Pow") if len(factors[1]) == 1 else None
    return power is not None and power.inputs[0] == x and finder.number(power.inputs[1]) == 3.0


@ends_in("Mul")
def silu(finder: Finder, last: Node) -> Node | None:
    """Find x sigmoid(x)."""
    found = finder.pair(last, "Sigmoid")
    if found is None or found[0].inputs[0] != found[1]:
        return None
    return _node(last, "Swish", 24, (found[1],))


# ---- norms ----


@ends_in("Add")
def layer_norm(finder: Finder, last: Node) -> Node | None:
    """Find (x - mean) / sqrt(variance + eps) scale + shift over the last axis."""
    found = finder.pair(last, "Mul")
    if found is None or finder.weight(found[1]) is None:
        return None
    scaled = finder.pair(found[0], "Div")
    if scaled is None or finder.weight(scaled[1]) is None:
        return None
    return _normalized(finder, last, scaled[0], scaled[1], found[1])


def _normalized(finder: Finder, last: Node, divided: Node, scale: str, shift: str) -> Node | None:
    centred = finder.maker(divided.inputs[0], "Sub", alone=False)
    root = finder.maker(divided.inputs[1], "Sqrt")
    moved = finder.maker(root.inputs[0], "Add") if root is not None else None
    found = finder.pair(moved, "ReduceMean") if moved is not None else None
    if centred is None or found is None:
        return None
    epsilon, squared = finder.number(found[1]), finder.maker(found[0].inputs[0], "Pow", "Mul")
    mean = finder.maker(centred.inputs[1], "ReduceMean")
    if epsilon is None or squared is None or mean is None:
        return None
    is_square = squared.inputs[0] == centred.outputs[0] and (
        squared.inputs[1] == squared.inputs[0] or finder.number(squared.inputs[1]) == 2.0
    )
    x = centred.inputs[0]
    is_mean = mean.inputs[0] == x and _is_last(finder, mean) and _is_last(finder, found[0])
    weights = finder.weight(scale), finder.weight(shift)
    is_row = all(w is not None and len(w.shape) == 1 for w in weights)
    if not (is_square and is_mean and is_row):
        return None
    made = _node(last, "LayerNormalization", 17, (x, scale, shift), epsilon=epsilon, axis=-1)
    types = (centred.input_types[0], *(replace(centred.input_types[0], shape=w.shape)
                                       for w in weights if w is not None))  # fmt: skip
    return replace(made, input_types=types)


def _is_last(finder: Finder, node: Node) -> bool:
    """Whether a reduction is over the last axis and keeps it."""
    axes = node.attributes.get("axes")
    if axes is None and len(node.inputs) > 1:
        axes = finder.constants.get(node.inputs[1], np.zeros(0)).reshape(-1).tolist()
    shape = node.input_types[0].shape
    last = (-1,) if shape is None else (-1, len(shape) - 1)
    is_one = axes is not None and len(axes) == 1 and axes[0] in last
    return is_one and bool(node.attributes.get("keepdims", 1))


# ---- attention ----


@ends_in("MatMul")
def attention(finder: Finder, last: Node) -> Node | None:
    """Find softmax(q k' scale + mask) v of four axes."""
    softmax = _weights(finder, last.inputs[0])
    shape = last.input_types[1].shape if len(last.input_types) > 1 else None
    if softmax is None or shape is None or len(shape) != 4 or not _is_float(last):
        return None
    scores, mask, scale = softmax.inputs[0], "", 1.0
    added = finder.maker(scores, "Add")
    found = finder.pair(added, "MatMul", "Mul", "Div") if added is not None else None
    if added is not None and found is not None:
        scores, mask = found[0].outputs[0], found[1]
    node = finder.maker(scores, "Mul", "Div")
    scaled = finder.scaled(node) if node is not None else None
    if scaled is not None:
        scores, scale = scaled
    product = finder.maker(scores, "MatMul")
    if product is None:
        return None
    return _attention(finder, last, product, added if mask else None, mask, scale)


def _weights(finder: Finder, name: str) -> Node | None:
    """Return the softmax along the last axis that weights are; NaN of no keys may be made 0."""
    chosen = finder.maker(name, "Where")
    if chosen is not None:
        softmax = finder.maker(chosen.inputs[2], "Softmax", alone=False)
        tested = finder.maker(chosen.inputs[0], "IsNaN")
        zero = finder.number(chosen.inputs[1]) == 0.0
        if softmax is None or tested is None or not zero or tested.inputs != softmax.outputs:
            return None
        node: Node | None = softmax
    else:
        node = finder.maker(name, "Softmax")
    if node is None or node.version < 13:
        return None
    return node if node.attributes.get("axis", -1) in (-1, 3) else None


def _attention(
    finder: Finder, last: Node, product: Node, added: Node | None, mask: str, scale: float
) -> Node | None:
    queries, first = _unscaled(finder, product.inputs[0])
    turned, second = _unscaled(finder, product.inputs[1])
    flat = _turned_flat(finder, turned)
    if flat is not None:
        query, value = product.input_types[0], last.input_types[1]
        inputs = (queries, flat, last.inputs[1], *((mask,) if mask else ()))
        return _attention_node(last, inputs, (query, query, value), added, mask,
                               scale * first * second)  # fmt: skip
    keys = finder.maker(turned, "Transpose")
    if keys is None or keys.attributes.get("perm") is None:
        return None
    *outer, row, column = keys.attributes["perm"]
    order = (*outer, column, row)
    name = keys.inputs[0]
    made: list[Node] = []
    if order != tuple(range(len(order))):
        name = f"{keys.outputs[0]}/keys"
        made = [replace(keys, outputs=(name,), attributes=MappingProxyType({"perm": order}))]
        finder.put(keys, *made)
    else:
        inner = finder.maker(name, "Mul")
        unscaled = finder.scaled(inner) if inner is not None else None
        if unscaled is not None:
            name, second = unscaled[0], second * unscaled[1]
    query, value = product.input_types[0], last.input_types[1]
    inputs = (queries, name, last.inputs[1], *((mask,) if mask else ()))
    return _attention_node(last, inputs, (query, query, value), added, mask,
                           scale * first * second)  # fmt: skip


def _attention_node(
    last: Node, inputs: tuple[str, ...], types: tuple[ValueType, ...],
    added: Node | None, mask: str, scale: float,
) -> Node:  # fmt: skip
    """Return attention as one node; the operands are typed by those of its products."""
    if added is not None:
        types = (*types, added.input_types[list(added.inputs).index(mask)])
    node = _node(last, "Attention", 23, inputs, scale=scale, added=1)
    return replace(node, input_types=types)


def _turned_flat(finder: Finder, name: str) -> str | None:
    """Return the keys (N, H, S, D) that a value is with the last two axes changed.

    PyTorch's newer exporter turns them as (N H, S, D).
    """
    last = finder.maker(name, "Reshape")
    turned = finder.maker(last.inputs[0], "Transpose") if last is not None else None
    first = finder.maker(turned.inputs[0], "Reshape") if turned is not None else None
    if last is None or turned is None or first is None:
        return None
    old, flat = first.input_types[0].shape, turned.input_types[0].shape
    new = last.output_types[0].shape if last.output_types else None
    if turned.attributes.get("perm") != (0, 2, 1) or old is None or flat is None or new is None:
        return None
    if len(old) != 4 or len(flat) != 3 or len(new) != 4 or None in old[1:]:
        return None
    heads, keys, size = old[1:]
    return first.inputs[0] if flat[1:] == (keys, size) and new[1:] == (heads, size, keys) else None


def _unscaled(finder: Finder, name: str) -> tuple[str, float]:
    node = finder.maker(name, "Mul", "Div")
    found = finder.scaled(node) if node is not None else None
    return found or (name, 1.0)
