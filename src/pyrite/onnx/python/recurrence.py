"""Patterns of recurrent layers: a node of RNN, LSTM or GRU with what takes its outputs apart.

ONNX has an axis of directions in all outputs, which exporters squeeze or merge into the features
afterwards; a layer of `pyrite.nn` has none.  States that are zeros are what a layer begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from pyrite.onnx.graph import Graph, Node
from pyrite.onnx.pattern.rewriting import Made, Pattern
from pyrite.onnx.pattern.term import AnyValue, Match, NodeOf
from pyrite.onnx.pattern.view import PATTERN, GraphView
from pyrite.onnx.program import HOST, Context, compiled, run
from pyrite.types import Array

#: The activations that the layers have, for each direction.
_USUAL = {
    "RNN": (["tanh"], ["relu"]), "LSTM": (["sigmoid", "tanh", "tanh"],),
    "GRU": (["sigmoid", "tanh"],),
}  # fmt: skip


def _is_usual(node: Node, view: GraphView) -> bool:
    """Whether a node computes what a layer does, of weights of the file."""
    a, inputs = node.attributes, _inputs(node)
    names = [name.lower() for name in a.get("activations") or ()]
    count = 2 if a.get("direction") == "bidirectional" else 1
    is_plain = not any(
        (a.get("layout"), a.get("clip"), a.get("input_forget"), inputs[4], inputs[7])
    )
    is_known = names in ([], *(usual * count for usual in _USUAL[node.op]))
    held = all(view.weight(name) is not None for name in filter(None, inputs[1:4]))
    return is_plain and is_known and held


def _inputs(node: Node) -> tuple[str, ...]:
    """Return the inputs: X, W, R, B, lengths, the two states, and peepholes."""
    return (*node.inputs, *[""] * (8 - len(node.inputs)))


def _layer(node: Node, output: str, view: GraphView) -> Node:
    """Return the layer of a node, whose steps have a name; one more of the layer that it reads."""
    inputs = _inputs(node)
    states = tuple("" if _is_zero(name, view) else name for name in inputs[5:7])
    made = replace(
        node, op="Recurrent", domain=PATTERN, version=1, inputs=(inputs[0], *states, *inputs[1:4]),
        outputs=(output, *node.outputs[1:]),
        attributes=MappingProxyType({**node.attributes, "of": node.op}),
    )  # fmt: skip
    below = view.maker(inputs[0], "Recurrent")
    if below is None or view.reads(inputs[0]) != 1 or not _stacks(below, made, view):
        return made
    return replace(made, inputs=(*below.inputs, *made.inputs[3:]), name=below.name)


def _stacks(below: Node, made: Node, view: GraphView) -> bool:
    """Whether a node is the next layer of one that is found already."""
    ours, theirs = dict(made.attributes), dict(below.attributes)
    is_same = ours == theirs and made.scope == below.scope
    has_states = any((*made.inputs[1:3], *below.inputs[1:3]))
    reads_states = any(view.reads(n) for n in (*made.outputs[1:], *below.outputs[1:]) if n)
    has_bias = bool(made.inputs[5]) == bool(below.inputs[5])
    return is_same and has_bias and not has_states and not reads_states


# ---- a node whose steps nothing reads ----


def _plain(match: Match, last: Node, view: GraphView) -> Node | None:
    name = last.outputs[0] if last.outputs else ""
    return None if view.reads(name) else _layer(last, name, view)


# ---- one direction: its axis is squeezed ----


def _squeezed(match: Match, last: Node, view: GraphView) -> Made | None:
    node = match.nodes["node"]
    if node.attributes.get("direction") == "bidirectional" or _axes(last, view) != [1]:
        return None
    return {node: _layer(node, last.outputs[0], view), last: None}


def _axes(squeeze: Node, view: GraphView) -> list[int] | None:
    if "axes" in squeeze.attributes:
        return list(squeeze.attributes["axes"])
    array = view.constants.get(squeeze.inputs[1]) if len(squeeze.inputs) > 1 else None
    return None if array is None else [int(n) for n in array.reshape(-1)]


# ---- several directions: their axis becomes part of the features ----


def _merged(match: Match, last: Node, view: GraphView) -> Made | None:
    node, turned = match.nodes["node"], match.nodes["turned"]
    directions = 2 if node.attributes.get("direction") == "bidirectional" else 1
    if not _merges(turned, last, (directions, int(node.attributes["hidden_size"])), view):
        return None
    return {node: _layer(node, last.outputs[0], view), turned: None, last: None}


def _merges(turned: Node, merged: Node, last: tuple[int, int], view: GraphView) -> bool:
    """Whether a Reshape merges the last two axes of (T, N, directions, H), tried at two sizes."""
    source, shape = turned.outputs[0], merged.inputs[1]
    chain = _chain(shape, source, view)
    if chain is None or not _is_within(source, [*chain, merged], view):
        return False
    for steps, batch in ((5, 3), (7, 11)):
        known = {**view.constants, source: np.zeros((steps, batch, *last), np.float32)}
        sizes = known[shape].tolist() if shape in known else _computed(chain, shape, known)
        old = (steps, batch, -1)
        sizes = [old[i] if n == 0 and i < 3 else n for i, n in enumerate(sizes)]
        if sizes not in ([steps, batch, -1], [steps, batch, last[0] * last[1]]):
            return False
    return True


def _chain(name: str, source: str, view: GraphView) -> list[Node] | None:
    """Return the nodes, in order, that make a value of a source and of constants alone."""
    wanted: set[Node] = set()
    pending = [name]
    while pending:
        name = pending.pop()
        if name in view.constants or name == source:
            continue
        node = view.maker(name)
        if node is None or node.domain or node.bodies:
            return None
        if node not in wanted:  # a file may have two ways to each of many nodes
            wanted.add(node)
            pending += filter(None, node.inputs)
    return [node for node in view.nodes() if node in wanted]


def _is_within(name: str, nodes: Sequence[Node], view: GraphView) -> bool:
    """Whether a value, and all that is made of it on the way to the last node, stays inside.

    What gives constants alone, as the size of an axis that is known, need not read it.
    """
    inside = {name, *(out for node in nodes[:-1] for out in node.outputs)}
    return inside.isdisjoint(view.graph.outputs) and all(
        node in nodes or all(out in view.constants for out in node.outputs)
        for node in view.readers(inside)
    )


def _computed(chain: Sequence[Node], name: str, known: dict[str, Array]) -> list[int]:
    inputs = tuple({n: None for node in chain for n in node.inputs if n in known})
    program = compiled(Graph("", inputs, (name,), tuple(chain), {}, {}))
    (made,) = run(program, [known[n] for n in inputs], {}, Context(HOST, {}))
    return [int(n) for n in np.asarray(made).reshape(-1)]


# ---- states of zeros ----

#: Ops that give zeros of zeros.
_KEEPS_ZERO = {"Expand", "Slice", "Transpose", "Unsqueeze", "Squeeze", "Identity", "Cast", "Split"}


def _is_zero(name: str, view: GraphView) -> bool:
    """Whether a value is left out or zeros, of whatever shape."""
    known = view.constants.get(name)
    if not name or known is not None:
        return known is None or not known.any()
    weight, node = view.weights.get(name), view.maker(name)
    if weight is not None:
        return not weight.shape and not weight.read().any()  # one number is not trained
    if node is None or node.domain:
        return False
    if node.op == "ConstantOfShape":
        value = node.attributes.get("value")
        return value is None or not value.read().any()
    return node.op in _KEEPS_ZERO and _is_zero(node.inputs[0], view)


# ---- steps first, and back ----


def _batch_first(match: Match, last: Node, view: GraphView) -> Node | None:
    layer = match.nodes["layer"]
    if any(view.reads(name) for name in filter(None, layer.outputs[1:])):
        return None
    attributes = MappingProxyType({**layer.attributes, "batch_first": 1})
    inputs = (*match.named("x"), *layer.inputs[1:])
    return replace(layer, inputs=inputs, attributes=attributes, outputs=last.outputs)


def _merges_directions(node: Node, view: GraphView) -> bool:
    return tuple(node.attributes.get("perm", ())) == (0, 2, 1, 3)


def _swaps_steps(node: Node, view: GraphView) -> bool:
    return tuple(node.attributes.get("perm", ())) == (1, 0, 2)


_OPS = ("RNN", "LSTM", "GRU")
_NODE = NodeOf(_OPS, (), "node", is_open=True, where=_is_usual)
#: The sizes that a Reshape is given may be computed of it.
_TURNED = NodeOf("Transpose", (_NODE,), "turned", shared=True, where=_merges_directions)
_STEPS = NodeOf("Transpose", (AnyValue("x"),), shared=True, where=_swaps_steps)
_LAYER = NodeOf("Recurrent", (_STEPS,), "layer", is_open=True)

#: What is one recurrent layer.
RECURRENT = (
    Pattern(_OPS, _NODE, _plain),
    Pattern(("Squeeze",), NodeOf("Squeeze", (_NODE,), is_open=True), _squeezed),
    Pattern(("Reshape",), NodeOf("Reshape", (_TURNED,), is_open=True), _merged),
    Pattern(("Transpose",), NodeOf("Transpose", (_LAYER,), where=_swaps_steps), _batch_first),
)
