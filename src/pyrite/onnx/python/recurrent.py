"""Recurrent layers found again: a node of RNN, LSTM or GRU with what takes its outputs apart.

ONNX has an axis of directions in all outputs, which exporters squeeze or merge into the features
afterwards; a layer of `pyrite.nn` has none.  States that are zeros are what a layer begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pyrite.onnx.graph import Graph, Node, Weight
from pyrite.onnx.program import HOST, Context, compiled, run
from pyrite.onnx.python.code import Code, call, code, listed, local, pyrite
from pyrite.onnx.python.finder import Finder, ends_in
from pyrite.onnx.python.step import Step
from pyrite.onnx.python.use import PATTERN, Use, translates
from pyrite.onnx.python.value import TENSOR, UNKNOWN, Value, Variable
from pyrite.types import Array

Read = Callable[[], Array]

#: Of each gate here, its place among ONNX's: i, o, f, c of an LSTM and z, r, h of a GRU.
_ORDERS = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}

#: The activations that the layers have, for each direction.
_USUAL = {
    "RNN": (["tanh"], ["relu"]), "LSTM": (["sigmoid", "tanh", "tanh"],),
    "GRU": (["sigmoid", "tanh"],),
}  # fmt: skip


# ---- the patterns ----


@ends_in("RNN", "LSTM", "GRU")
def recurrent(finder: Finder, node: Node) -> Node | None:
    """Find a layer's node and the nodes that take the axis of directions out of its outputs.

    A node that reads nothing but another's output is one more of its layers.
    """
    inputs = (*node.inputs, *[""] * (8 - len(node.inputs)))
    weights = inputs[1:4]
    if not _is_usual(node, inputs) or any(finder.weight(n) is None for n in filter(None, weights)):
        return None
    output = _features(finder, node)
    if output is None:
        return None
    states = tuple("" if _is_zero(finder, name) else name for name in inputs[5:7])
    made = replace(
        node, op="Recurrent", domain=PATTERN, version=1, inputs=(inputs[0], *states, *weights),
        outputs=(output, *node.outputs[1:]),
        attributes=MappingProxyType({**node.attributes, "of": node.op}),
    )  # fmt: skip
    below = finder.maker(inputs[0], "Recurrent")
    return made if below is None or not _stacks(finder, below, made) else _stacked(below, made)


@ends_in("Transpose")
def batch_first(finder: Finder, last: Node) -> Node | None:
    """Find a recurrent layer between two transpositions that put steps first, and back."""
    layer = finder.maker(last.inputs[0], "Recurrent")
    turned = finder.maker(layer.inputs[0], "Transpose", alone=False) if layer is not None else None
    if layer is None or turned is None or any(finder.counts[name] for name in layer.outputs[1:]):
        return None
    if any(tuple(n.attributes.get("perm", ())) != (1, 0, 2) for n in (last, turned)):
        return None
    attributes = MappingProxyType({**layer.attributes, "batch_first": 1})
    return replace(layer, inputs=(turned.inputs[0], *layer.inputs[1:]), attributes=attributes,
                   outputs=last.outputs)  # fmt: skip


def _is_usual(node: Node, inputs: Sequence[str]) -> bool:
    a = node.attributes
    names = [name.lower() for name in a.get("activations") or ()]
    count = 2 if a.get("direction") == "bidirectional" else 1
    is_plain = not any(
        (a.get("layout"), a.get("clip"), a.get("input_forget"), inputs[4], inputs[7])
    )
    return is_plain and node.version >= 7 and names in ([], *(u * count for u in _USUAL[node.op]))


def _stacks(finder: Finder, below: Node, made: Node) -> bool:
    """Whether a node is the next layer of one that is found already."""
    ours, theirs = dict(made.attributes), dict(below.attributes)
    is_same = ours == theirs and made.scope == below.scope
    has_states = any((*made.inputs[1:3], *below.inputs[1:3]))
    reads_states = any(finder.counts[n] for n in (*made.outputs[1:], *below.outputs[1:]) if n)
    has_bias = bool(made.inputs[5]) == bool(below.inputs[5])
    return is_same and has_bias and not has_states and not reads_states


def _stacked(below: Node, made: Node) -> Node:
    return replace(made, inputs=(*below.inputs, *made.inputs[3:]), name=below.name)


def _features(finder: Finder, node: Node) -> str | None:
    """Return the outputs of all steps as (T, N, features), whose maker is taken out.

    None where Y is not squeezed or merged so.
    """
    y = node.outputs[0] if node.outputs else ""
    if not y or not finder.counts[y]:
        return y
    squeezed = finder.reader(y, "Squeeze")
    directions = 2 if node.attributes.get("direction") == "bidirectional" else 1
    if squeezed is not None:
        if directions == 2 or _integers(finder, squeezed, "axes") != [1]:
            return None
        finder.put(squeezed)
        return squeezed.outputs[0]
    turned = finder.reader(y, "Transpose")
    if turned is None or tuple(turned.attributes.get("perm", ())) != (0, 2, 1, 3):
        return None
    readers = [n for n in finder.graph.nodes if turned.outputs[0] in n.inputs]
    merged = next((n for n in readers if n.op == "Reshape" and not n.domain), None)
    if merged is None or merged.inputs[0] != turned.outputs[0]:
        return None
    if not _merges(finder, turned, merged, (directions, int(node.attributes["hidden_size"]))):
        return None
    finder.put(turned)
    finder.put(merged)
    return merged.outputs[0]


def _merges(finder: Finder, turned: Node, merged: Node, last: tuple[int, int]) -> bool:
    """Whether a Reshape merges the last two axes of (T, N, directions, H), tried at two sizes."""
    source, shape = turned.outputs[0], merged.inputs[1]
    chain = _chain(finder, shape, source)
    if chain is None or not finder.is_within(source, [*chain, merged]):
        return False
    for steps, batch in ((5, 3), (7, 11)):
        known = {**finder.constants, source: np.zeros((steps, batch, *last), np.float32)}
        sizes = known[shape].tolist() if shape in known else _computed(chain, shape, known)
        old = (steps, batch, -1)
        sizes = [old[i] if n == 0 and i < 3 else n for i, n in enumerate(sizes)]
        if sizes not in ([steps, batch, -1], [steps, batch, last[0] * last[1]]):
            return False
    return True


def _chain(finder: Finder, name: str, source: str) -> list[Node] | None:
    """Return the nodes, in order, that make a value of a source and of constants alone."""
    if name in finder.constants or name == source:
        return []
    node = finder.makers.get(name)
    if node is None or node.domain or node.bodies:
        return None
    found: list[Node] = []
    for each in filter(None, node.inputs):
        inner = _chain(finder, each, source)
        if inner is None:
            return None
        found += [n for n in inner if n not in found]
    return [*found, node]


def _computed(chain: Sequence[Node], name: str, known: dict[str, Array]) -> list[int]:
    inputs = tuple({n: None for node in chain for n in node.inputs if n in known})
    program = compiled(Graph("", inputs, (name,), tuple(chain), {}, {}))
    (made,) = run(program, [known[n] for n in inputs], {}, Context(HOST, {}))
    return [int(n) for n in np.asarray(made).reshape(-1)]


def _integers(finder: Finder, node: Node, name: str) -> list[int] | None:
    if name in node.attributes:
        return list(node.attributes[name])
    array = finder.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(n) for n in array.reshape(-1)]


#: Ops that give zeros of zeros.
_KEEPS_ZERO = {"Expand", "Slice", "Transpose", "Unsqueeze", "Squeeze", "Identity", "Cast", "Split"}


def _is_zero(finder: Finder, name: str) -> bool:
    """Whether a value is left out or zeros, of whatever shape."""
    known = finder.constants.get(name)
    if not name or known is not None:
        return known is None or not known.any()
    weight, node = finder.weights.get(name), finder.makers.get(name)
    if weight is not None:
        return not weight.shape and not weight.read().any()  # one number is not trained
    if node is None or node.domain:
        return False
    if node.op == "ConstantOfShape":
        value = node.attributes.get("value")
        return value is None or not value.read().any()
    return node.op in _KEEPS_ZERO and _is_zero(finder, node.inputs[0])


# ---- the layer ----


@translates("Recurrent")
def layer(use: Use) -> Code | Sequence[Value] | None:
    """Write a recurrent layer; its output alone, or with the states after the last step."""
    op, direction = use.attribute("of"), use.attribute("direction", "forward")
    layers = [tuple(use.weight(i + k) for k in range(3)) for i in range(3, len(use), 3)]
    (w, r, b), *_ = layers
    assert w is not None, "the pattern is of weights"
    assert r is not None, "the pattern is of weights"
    named: dict[str, Any] = {"layers": len(layers)} if len(layers) > 1 else {}
    if direction != "forward":
        named["direction"] = "both" if direction == "bidirectional" else direction
    if not use.attribute("batch_first", 0):
        named["batch_first"] = False
    if b is None:
        named["bias"] = False
    if op == "GRU" and not use.attribute("linear_before_reset", 0):
        named["reset_after"] = False
    if "relu" in [name.lower() for name in use.attribute("activations") or ()]:
        named["activation"] = code("{}.relu", pyrite("Tensor"))
    weights = _weights(op, layers)
    made = use.layer(op, weights, w.shape[-1], r.shape[-1], **named)
    states = [use.tensor(i) for i in (1, 2) if use.has(i)]
    begin = [listed(states)] if len(states) > 1 else states
    return _outputs(use, op, call(made, use.tensor(0), *begin))


def _outputs(use: Use, op: str, made: Code) -> Code | Sequence[Value]:
    if not use.has_output(1) and not use.has_output(2):
        return code("{}[0]", made)
    first = use.node.outputs[0] if use.has_output(0) else ""
    state = f"{use.node.name}:state"
    scope = use.draft.scopes.of_node(use.node)
    step = Step((first, state), made, scope, (TENSOR, UNKNOWN if op == "LSTM" else TENSOR), "state")
    use.draft.steps.append(step)
    value = local(state)
    fields = [code("{}.hidden", value), code("{}.cell", value)] if op == "LSTM" else [value]
    return [Variable(local(first)), *(Variable(field) for field in fields)]


def _weights(
    op: str, layers: Sequence[tuple[Weight | None, ...]]
) -> dict[str, tuple[Weight, Read | None]]:
    """Return the weights of a layer by their names, each a direction's part of the file's."""
    found: dict[str, tuple[Weight, Read | None]] = {}
    for number, (w, r, b) in enumerate(layers):
        assert w is not None, "the pattern is of weights"
        parts = [("weight_ih", w, 0, 1), ("weight_hh", r, 0, 1), ("bias_ih", b, 0, 2),
                 ("bias_hh", b, 1, 2)]  # fmt: skip
        for direction, suffix in enumerate(("", "_reverse")[: w.shape[0]]):
            for name, weight, half, halves in parts:
                if weight is not None:
                    read = _reordered(weight, direction, half, halves, _ORDERS[op])
                    found[f"{name}_l{number}{suffix}"] = weight, read
    return found


def _reordered(
    weight: Weight, direction: int, half: int, halves: int, order: Sequence[int]
) -> Read:
    def read() -> Array:
        rows = np.split(weight.read()[direction], halves)[half]
        gates = np.split(rows, len(order))
        return np.concatenate([gates[gate] for gate in order])

    return read
