"""The pattern of layer norm, as exporters write it for opsets without one."""

from __future__ import annotations

from pyrite.onnx.graph import Node
from pyrite.onnx.pattern.rewriting import Pattern, node_of
from pyrite.onnx.pattern.term import (
    AnyValue,
    KnownNumber,
    Match,
    NodeOf,
    Same,
    Term,
    Weight,
    call,
    commuting,
    either,
)
from pyrite.onnx.pattern.view import GraphView

X = AnyValue("x")


def _is_over_last(node: Node, view: GraphView) -> bool:
    """Whether a reduction is over the last axis and keeps it."""
    axes = node.attributes.get("axes")
    if axes is None and len(node.inputs) > 1:
        known = view.constants.get(node.inputs[1])
        axes = None if known is None else known.reshape(-1).tolist()
    shape = node.input_types[0].shape if node.input_types else None
    last = (-1,) if shape is None else (-1, len(shape) - 1)
    is_one = axes is not None and len(axes) == 1 and axes[0] in last
    return is_one and bool(node.attributes.get("keepdims", 1))


def _mean(term: Term) -> NodeOf:
    return NodeOf("ReduceMean", (term,), is_open=True, where=_is_over_last)


_CENTRED = Same("centred", NodeOf("Sub", (X, _mean(X)), shared=True))
_AGAIN = AnyValue("centred")
_VARIANCE = _mean(either(call("Pow", _AGAIN, KnownNumber(2.0)), call("Mul", _AGAIN, _AGAIN)))
_SPREAD = call("Sqrt", commuting("Add", _VARIANCE, KnownNumber(label="epsilon")))
_SCALED = commuting("Mul", call("Div", _CENTRED, _SPREAD), Weight("scale", 1))


def _made(match: Match, last: Node, view: GraphView) -> Node:
    names = ("x", "scale", "shift")
    return node_of(
        last, "LayerNormalization", 17, match.named(*names), match.types(*names),
        epsilon=match.numbers["epsilon"], axis=-1,
    )  # fmt: skip


#: (x - mean) / sqrt(variance + epsilon) scale + shift, over the last axis.
LAYER_NORM = Pattern(("Add",), commuting("Add", _SCALED, Weight("shift", 1)), _made)
