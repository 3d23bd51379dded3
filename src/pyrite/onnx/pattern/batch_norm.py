"""The pattern of a batch norm after a convolution: a factor and a shift of its weights.

The folded weights are computed when they are read, and are others than the file's: a model with
them is for inference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyrite.onnx.graph import Node
from pyrite.onnx.graph import Weight as Stored
from pyrite.onnx.pattern.rewriting import Pattern
from pyrite.onnx.pattern.term import AnyValue, Match, NodeOf, Weight
from pyrite.onnx.pattern.view import GraphView
from pyrite.types import Array


def _is_inference(node: Node, view: GraphView) -> bool:
    is_plain = not node.attributes.get("training_mode") and node.attributes.get("spatial", 1) == 1
    return is_plain and not any(node.outputs[1:])


def _folded(match: Match, last: Node, view: GraphView) -> Node | None:
    """Return the convolution that does what both do; None of one whose bias is computed."""
    conv = match.nodes["conv"]
    name = conv.inputs[2] if len(conv.inputs) > 2 else ""
    bias = view.weight(name)
    if name and bias is None:
        return None
    held = [view.weights[n] for n in match.named("kernel", "scale", "shift", "mean", "variance")]
    kernel, shift = _weights(held, bias, float(last.attributes.get("epsilon", 1e-5)))
    # By the norm's output: several convolutions may share a kernel.
    names = (f"{last.outputs[0]}/weight", f"{last.outputs[0]}/bias")
    for each, weight in zip(names, (kernel, shift), strict=True):
        view.hold(each, replace(weight, key=each))
    return replace(conv, inputs=(conv.inputs[0], *names), outputs=last.outputs[:1])


def _weights(held: list[Stored], bias: Stored | None, epsilon: float) -> tuple[Stored, Stored]:
    """Return the kernel and the bias of a convolution with a batch norm in them."""
    kernel, scale, shift, mean, variance = held

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

    return replace(kernel, read=new_kernel), replace(shift, read=new_bias)


_CONV = NodeOf("Conv", (AnyValue("x"), Weight("kernel")), "conv", is_open=True)
_STATISTICS = tuple(Weight(label, 1) for label in ("scale", "shift", "mean", "variance"))

#: A batch norm for inference of a convolution that nothing else reads.
BATCH_NORM = Pattern(
    ("BatchNormalization",),
    NodeOf("BatchNormalization", (_CONV, *_STATISTICS), is_open=True, where=_is_inference),
    _folded,
)
