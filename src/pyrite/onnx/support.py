"""What of a model cannot be run here: all of it, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from pyrite.onnx.converter import CONVERTERS, Converter, converter
from pyrite.onnx.graph import Graph, Node, ValueType, Weight
from pyrite.onnx.pattern.view import PATTERN

#: Domains whose ops are left out on purpose.
_EXCLUDED = {
    "ai.onnx.preview.training": "training ops; train the model with pyrite.optim",
    PATTERN: "this domain is Pyrite's own, and no file's",
}

#: Attributes of old files that say nothing: how to lay out a loop, which had no meaning since.
_IGNORED = {"consumed_inputs", "is_test"}


def problems(graph: Graph) -> list[str]:
    """Return what is not supported: op, node, opset, and what is missing; each line once."""
    found = dict.fromkeys(_element_problems(graph))
    for _, node in graph.walk():
        found.update(dict.fromkeys(_node_problems(node)))
    return list(found)


def _element_problems(graph: Graph) -> Iterator[str]:
    made = {name for node in graph.nodes for name in node.outputs}
    for name, of in graph.types.items():
        if of.element is not None and of.element.carrier is None and name not in made:
            yield f"value {name!r}: no dtype of Pyrite carries {of.element.name}"
        if of.kind not in ("tensor", "sequence", "optional"):
            yield f"value {name!r}: {of.kind} is not supported"


def _node_problems(node: Node) -> Iterator[str]:
    found = converter(node.domain, node.op, node.version)
    if found is None or node.domain in _EXCLUDED:
        yield f"{node.label}: {_missing(node)}"
        return
    yield from (f"{node.label}: {problem}" for problem in _type_problems(node))
    yield from (f"{node.label}: {problem}" for problem in _signature_problems(node, found))


def _missing(node: Node) -> str:
    if node.domain in _EXCLUDED:
        return _EXCLUDED[node.domain]
    versions = CONVERTERS.get((node.domain, node.op))
    if versions:
        return f"supported from opset {versions[0].since} on"
    return "no such op is supported; see docs/onnx.md"


def _type_problems(node: Node) -> Iterator[str]:
    for of in (*node.input_types, *node.output_types):
        if of.element is not None and of.element.carrier is None:
            yield f"no dtype of Pyrite carries {of.element.name}"
    for name, value in node.attributes.items():
        kind = value.element if isinstance(value, ValueType | Weight) else None
        if kind is not None and kind.carrier is None:
            yield f"no dtype of Pyrite carries {kind.name}, of its attribute {name!r}"


def _signature_problems(node: Node, found: Converter) -> Iterator[str]:
    given = len(node.inputs)
    if given < found.required or (found.variadic is None and given > len(found.operands)):
        yield f"requires {found.required} to {len(found.operands)} inputs, got {given}"
    for name in node.attributes:
        if name not in found.attributes and name not in _IGNORED:
            yield f"its attribute {name!r} is not supported"
    for name, is_required in found.attributes.items():
        if is_required and name not in node.attributes:
            yield f"requires the attribute {name!r}"
