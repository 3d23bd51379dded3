"""Translators of recurrent layers that `recurrence` found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.onnx.graph import Weight
from pyrite.onnx.python.code import Code, call, code, listed, local, pyrite
from pyrite.onnx.python.step import Step
from pyrite.onnx.python.use import NodeUse, translates
from pyrite.onnx.python.value import TENSOR, UNKNOWN, Value, Variable
from pyrite.types import Array

Read = Callable[[], Array]

#: The place of each gate among ONNX's: i, o, f, c of an LSTM and z, r, h of a GRU.
_ORDERS = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}


@translates("Recurrent")
def layer(use: NodeUse) -> Code | Sequence[Value] | None:
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


def _outputs(use: NodeUse, op: str, made: Code) -> Code | Sequence[Value]:
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
