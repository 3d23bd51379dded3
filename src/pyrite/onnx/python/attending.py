"""Patterns of attention: softmax(q k' scale + mask) v, with whatever exporters put in between."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

from pyrite.onnx.graph import Node, ValueType
from pyrite.onnx.python.finder import Finder, ends_in, is_float, node_of


@ends_in("MatMul")
def attention(finder: Finder, last: Node) -> Node | None:
    """Find softmax(q k' scale + mask) v of four axes, or with scores that a mask makes -inf."""
    softmax = _weights(finder, last.inputs[0])
    shape = last.input_types[1].shape if len(last.input_types) > 1 else None
    if softmax is None or shape is None or len(shape) != 4 or not is_float(last):
        return None
    scores, mask, scale = softmax.inputs[0], None, 1.0
    chosen = finder.maker(scores, "Where")
    added = finder.maker(scores, "Add")
    found = finder.pair(added, "MatMul", "Mul", "Div") if added is not None else None
    seen = _seen(finder, chosen) if chosen is not None else None
    if added is not None and found is not None:
        scores, name = found[0].outputs[0], found[1]
        mask = name, added.input_types[list(added.inputs).index(name)]
    elif chosen is not None and seen is not None:
        scores, mask = seen[0], (seen[1].outputs[0], chosen.input_types[0])
    node = finder.maker(scores, "Mul", "Div")
    scaled = finder.scaled(node) if node is not None else None
    if scaled is not None:
        scores, scale = scaled
    product = finder.maker(scores, "MatMul")
    if product is None:
        return None
    made = _attention(finder, last, product, mask, scale)
    if made is not None and chosen is not None and seen is not None:
        finder.put(chosen, seen[1])
    return made


#: A mask: its name and type.
Mask = tuple[str, ValueType]


def _seen(finder: Finder, chosen: Node) -> tuple[str, Node] | None:
    """Return the scores of which a choice makes some -inf, and the node that says which stay."""
    condition, first, second = chosen.inputs
    if _is_minus_infinity(finder, first):
        scores, op = second, "Not"
    elif _is_minus_infinity(finder, second):
        scores, op = first, "Identity"
    else:
        return None
    types, name = chosen.input_types[:1], f"{chosen.outputs[0]}/seen"
    return scores, replace(chosen, op=op, version=1, inputs=(condition,), outputs=(name,),
                           input_types=types, output_types=types)  # fmt: skip


def _is_minus_infinity(finder: Finder, name: str) -> bool:
    """Whether a value is that number, also where a file keeps it among its weights."""
    weight = finder.weight(name)
    if weight is not None and not weight.shape:
        return bool(weight.read() == -math.inf)
    return finder.number(name) == -math.inf


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
    finder: Finder, last: Node, product: Node, mask: Mask | None, scale: float
) -> Node | None:
    queries, first = _unscaled(finder, product.inputs[0])
    turned, second = _unscaled(finder, product.inputs[1])
    flat = _turned_flat(finder, turned)
    if flat is not None:
        query, value = product.input_types[0], last.input_types[1]
        inputs = (queries, flat, last.inputs[1], *((mask[0],) if mask else ()))
        return _attention_node(last, inputs, (query, query, value), mask,
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
    inputs = (queries, name, last.inputs[1], *((mask[0],) if mask else ()))
    return _attention_node(last, inputs, (query, query, value), mask,
                           scale * first * second)  # fmt: skip


def _attention_node(
    last: Node, inputs: tuple[str, ...], types: tuple[ValueType, ...],
    mask: Mask | None, scale: float,
) -> Node:  # fmt: skip
    """Return attention as one node; the operands are typed by those of its products."""
    if mask is not None:
        types = (*types, mask[1])
    node = node_of(last, "Attention", 23, inputs, scale=scale, added=1)
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
