"""Which values of a model steer it: sizes, axes, counts.  They stay on the host.

An input is followed backwards from the operands that have to be on the host, through the
arithmetic of small integers and the branches that it stands in, and through nothing else.
"""

from __future__ import annotations

from pyrite.onnx.converter import STEERING, converter
from pyrite.onnx.graph import Graph, Node

_ARITHMETIC = {
    "Add", "Cast", "Concat", "Div", "Identity", "Max", "Min", "Mul", "Neg", "Reshape", "Slice",
    "Squeeze", "Sub", "Unsqueeze", "Abs", "Where", "And", "Or", "Not", "Equal", "Less", "Greater",
    "Flatten", "Split", "Mod", "Ceil", "Floor", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin",
}  # fmt: skip


#: Ops whose results may be far larger than their operands.
GROWING = {
    "ConstantOfShape", "Expand", "OneHot", "Range", "Tile", "Pad", "Resize", "Upsample",
    "CenterCropPad", "Col2Im", "BlackmanWindow", "HannWindow", "HammingWindow",
    "MelWeightMatrix", "EyeLike", "MaxUnpool",
}  # fmt: skip


def steering_values(graph: Graph) -> frozenset[str]:
    """Return the names of all values that an operand on the host depends on."""
    wanted: set[str] = set()
    _close(graph, wanted)
    return frozenset(wanted)


def _close(graph: Graph, wanted: set[str]) -> None:
    for node in reversed(graph.nodes):
        wanted.update(_host_operands(node))
        is_wanted = any(name in wanted for name in node.outputs)
        for body in node.bodies:
            wanted.update(body.outputs if is_wanted else ())
            _close(body, wanted)
        if is_wanted and node.op not in _OF_TYPES:
            wanted.update(filter(None, node.inputs))


#: Ops whose results depend on no value of their operands.
_OF_TYPES = {"Shape", "Size"}


def static_inputs(graph: Graph) -> frozenset[str]:
    """Return the names of the inputs that steer a graph."""
    wanted: set[str] = set()
    _collect(graph, wanted)
    return frozenset(name for name in graph.inputs if name in wanted and _is_steering(graph, name))


def _collect(graph: Graph, wanted: set[str]) -> None:
    for node in reversed(graph.nodes):
        for body in node.bodies:
            if node.op == "If":
                pairs = zip(node.outputs, body.outputs, strict=True)
                wanted.update(inner for name, inner in pairs if name in wanted)
            _collect(body, wanted)
        wanted.update(_host_operands(node))
        if node.op in _ARITHMETIC and any(name in wanted for name in node.outputs):
            wanted.update(filter(None, node.inputs))


def _host_operands(node: Node) -> list[str]:
    found = converter(node.domain, node.op, node.version)
    if found is None:
        return []
    return [n for i, n in enumerate(node.inputs) if n and found.kind(i) in STEERING]


def _is_steering(graph: Graph, name: str) -> bool:
    of = graph.types.get(name)
    if of is None or of.kind != "tensor":
        return False
    is_short = of.shape is None or len(of.shape) <= 1
    is_number = of.element is not None and of.element.carrier is not None
    return is_short and is_number
