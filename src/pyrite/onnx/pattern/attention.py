"""Patterns of attention: softmax(q k' scale + mask) v, with what exporters put in between.

Two nodes come of them.  A model that is loaded keeps the keys as its file turns them, and a scale
that may be computed: `SCORES`, which stretches as the single ops do.  A model that is written as
Python has heads, keys that are not turned, and a scale that is known: `HEADS`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

from pyrite.onnx.graph import Node, ValueType
from pyrite.onnx.pattern.rewriting import Made, Pattern, node_of
from pyrite.onnx.pattern.term import (
    AnyValue,
    KnownNumber,
    Match,
    NodeOf,
    Same,
    Scaled,
    Term,
    call,
    commuting,
    either,
)
from pyrite.onnx.pattern.view import PATTERN, GraphView

QUERY, KEYS, VALUE = AnyValue("query"), AnyValue("keys"), AnyValue("value")


def _is_over_last(node: Node, view: GraphView) -> bool:
    shape = node.input_types[0].shape if node.input_types else None
    return node.attributes.get("axis", -1) in (-1, len(shape or ()) - 1)


def _softmax(scores: Term, *, shared: bool = False) -> NodeOf:
    return NodeOf("Softmax", (scores,), shared=shared, where=_is_over_last)


# ---- as it is loaded ----

_FACTOR = AnyValue("factor")
_PRODUCT = call("MatMul", QUERY, KEYS)
_MULTIPLE = either(
    _PRODUCT,
    commuting("Mul", _PRODUCT, _FACTOR),
    NodeOf("Div", (_PRODUCT, _FACTOR), "division"),
)
_BIASED = either(_MULTIPLE, commuting("Add", _MULTIPLE, AnyValue("bias")))


def _scores(match: Match, last: Node, view: GraphView) -> Node:
    names = ("query", "keys", "value", "bias", "factor")
    return node_of(
        last, "Attention", 1, match.named(*names), match.types(*names), domain=PATTERN,
        divides=int("division" in match.nodes),
    )  # fmt: skip


#: softmax(query keys * factor + bias) value.
SCORES = Pattern(("MatMul",), call("MatMul", _softmax(_BIASED), VALUE), _scores)


# ---- as it is written ----


def _has_order(node: Node, view: GraphView) -> bool:
    return node.attributes.get("perm") is not None


_TURNED = NodeOf("Transpose", (Scaled(KEYS, "inner"),), "turn", where=_has_order)

#: As PyTorch's newer exporter turns keys: (N H, S, D).
_ROWS = NodeOf("Reshape", (KEYS,), "rows", is_open=True)
_FLAT = NodeOf("Reshape", (NodeOf("Transpose", (_ROWS,), "flat"),), "heads", is_open=True)

_SCORES = call("MatMul", Scaled(QUERY, "queries"), Scaled(either(_FLAT, _TURNED), "keys"))
_MULTIPLES = Scaled(_SCORES, "scores")

_MASK = AnyValue("mask")
_HIDDEN = KnownNumber(-math.inf)
_MASKED = either(
    commuting("Add", _MULTIPLES, _MASK),
    NodeOf("Where", (_MASK, _HIDDEN, _MULTIPLES), "hides"),
    NodeOf("Where", (_MASK, _MULTIPLES, _HIDDEN), "keeps"),
    _MULTIPLES,
)

#: A query without keys has weights of NaN, which a file may make 0.
_NO_KEYS = call("IsNaN", Same("weights", _softmax(_MASKED, shared=True)))
_WEIGHTS = either(_softmax(_MASKED), call("Where", _NO_KEYS, KnownNumber(0.0), AnyValue("weights")))


def _heads(match: Match, last: Node, view: GraphView) -> Made | None:
    """Return attention over (N, H, T, D) as ONNX's op, and what its operands need."""
    shape = match.values["value"].type.shape
    if shape is None or len(shape) != 4 or ("flat" in match.nodes and not _swaps_flat(match)):
        return None
    keys, made = _keys(match)
    query, value = match.types("query", "value")
    inputs: tuple[str, ...] = (*match.named("query"), keys, *match.named("value"))
    types: tuple[ValueType, ...] = (query, query, value)
    if "mask" in match.values:
        (name,), (type_,) = match.named("mask"), match.types("mask")
        for label, op in (("hides", "Not"), ("keeps", "Identity")):
            if label in match.nodes:
                chosen = match.nodes[label]
                name = f"{chosen.outputs[0]}/seen"
                made[chosen] = replace(
                    chosen, op=op, version=1, inputs=match.named("mask"), outputs=(name,),
                    input_types=(type_,), output_types=(type_,),
                )  # fmt: skip
        inputs, types = (*inputs, name), (*types, type_)
    scale = math.prod(match.numbers.get(n, 1.0) for n in ("queries", "keys", "inner", "scores"))
    made[last] = node_of(last, "Attention", 23, inputs, types, scale=scale, added=1)
    return made


def _keys(match: Match) -> tuple[str, dict[Node, Node | None]]:
    """Return the name of keys (N, H, S, D), and what makes them where nothing has their order."""
    (name,), turn = match.named("keys"), match.nodes.get("turn")
    if turn is None:
        return name, {}
    *outer, row, column = turn.attributes["perm"]
    order = (*outer, column, row)
    if order == tuple(range(len(order))):
        return name, {}
    made = f"{turn.outputs[0]}/keys"
    attributes = MappingProxyType({"perm": order})
    return made, {turn: replace(turn, inputs=(name,), outputs=(made,), attributes=attributes)}


def _swaps_flat(match: Match) -> bool:
    """Whether keys (N, H, S, D) become (N, H, D, S) by way of (N H, S, D)."""
    rows, flat, heads = (match.nodes[label] for label in ("rows", "flat", "heads"))
    types = (*rows.input_types[:1], *flat.input_types[:1], *heads.output_types[:1])
    old, three, new = (each.shape or () for each in types) if len(types) == 3 else ((), (), ())
    if tuple(flat.attributes.get("perm", ())) != (0, 2, 1) or None in old[1:]:
        return False
    return (
        (len(old), len(three), len(new)) == (4, 3, 4)
        and three[1:] == old[2:]
        and new[1:] == (old[1], old[3], old[2])
    )


#: softmax(q k' scale + mask) v of heads, or with scores that a mask makes -inf.
HEADS = Pattern(("MatMul",), call("MatMul", _WEIGHTS, VALUE), _heads)
