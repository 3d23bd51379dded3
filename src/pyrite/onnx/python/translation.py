"""From a graph to statements: each node by its translator, or as a call of its op.

A translator is a function that is given a `NodeUse`, one node with its operands, and returns an
expression that computes the same, or None where it has none.  A node without a translator is
computed here if its operands are known, is arithmetic of sizes, or calls its op by
`pyrite.onnx.operator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.onnx.converter import converter
from pyrite.onnx.graph import Graph, Node
from pyrite.onnx.pattern.view import PATTERN
from pyrite.onnx.python.code import Code, least_text, local
from pyrite.onnx.python.draft import Draft
from pyrite.onnx.python.folding import folded
from pyrite.onnx.python.operation import Called, called
from pyrite.onnx.python.scope import Scopes
from pyrite.onnx.python.use import CONTROLS, SIZE_RULES, TRANSLATORS, NodeUse, Several
from pyrite.onnx.python.value import INTEGER, TENSOR, Fixed, Size, Sizes, Value, Variable
from pyrite.types import Array


def translated(graph: Graph) -> Draft:
    """Return a graph as statements."""
    draft = Draft(graph, Scopes(graph))
    translate(graph, draft)
    return draft


def constants(graph: Graph) -> dict[str, Array]:
    """Return the values of a graph that its file decides, as arrays of the host."""
    values = translated(graph).values
    return {n: v.array for n, v in values.items() if isinstance(v, Fixed)}


def translate(graph: Graph, draft: Draft) -> None:
    """Translate the nodes of a graph, or of a body, into a draft."""
    for node in graph.nodes:
        values = [draft.values[name] if name else None for name in node.inputs]
        if node.bodies:
            _control(NodeUse(node, values, (None,) * len(values), draft))
        else:
            _translate(node, values, draft)


def _control(use: NodeUse) -> None:
    """Write a branch or a loop."""
    write = CONTROLS.get(use.node.op) if not use.node.domain else None
    if write is None:
        use.draft.refuse(use.node)
    else:
        write(use)


def _translate(node: Node, values: Sequence[Value | None], draft: Draft) -> None:
    """Write a node without bodies: known, as sizes, by its translator, or as a call of its op."""
    found = converter(node.domain, node.op, node.version)
    kinds = tuple(found.kind(i) if found else None for i in range(len(values)))
    use = NodeUse(node, values, kinds, draft)
    made: Any = None if found is None else folded(node, found, values)
    if made is None and node.op in SIZE_RULES:
        made = _sized(use)
    if made is None and node.domain in ("", PATTERN) and node.op in TRANSLATORS:
        made = TRANSLATORS[node.op](use) if _is_on_device(use) else None
    if made is None:
        assert found is not None, node.label
        made = called(use, found)
    _bind(use, made)


def _sized(use: NodeUse) -> Value | None:
    """Return what arithmetic of sizes gives, where the operands are sizes."""
    is_shape = use.node.op in ("Shape", "Size")
    if not is_shape and not any(isinstance(v, Sizes) for v in use.values):
        return None
    made = SIZE_RULES[use.node.op](use)
    return _named(use, made) if isinstance(made, Sizes) else made


#: Letters of a size; one that has more is a variable, so that two of them fit a line.
_LONGEST = 36


def _named(use: NodeUse, made: Sizes) -> Sizes:
    """Return sizes of which those with long expressions are variables."""
    items: list[int | Size] = []
    for position, item in enumerate(made.items):
        if isinstance(item, Size) and len(least_text(item.code)) > _LONGEST:
            name = f"{use.node.outputs[0]}:size{position}"
            use.draft.step(use.node, (name,), item.code, (INTEGER,), "size")
            item = Size(local(name), item.symbol)
        items.append(item)
    return Sizes(tuple(items), made.is_vector)


def _is_on_device(use: NodeUse) -> bool:
    """Whether all operands that come of a computation are tensors, and one is."""
    found = [v for v in use.values if isinstance(v, Variable)]
    is_made = use.node.op in ("Range", "ConstantOfShape")
    is_cut = use.fixed(0) is not None and any(isinstance(v, Sizes) for v in use.values[1:])
    is_ours = use.node.domain == PATTERN
    return is_ours or (all(v.kind == TENSOR for v in found) and (bool(found) or is_made or is_cut))


def _bind(use: NodeUse, made: Any) -> None:
    """Give the outputs of a node what a translator returned."""
    outputs, draft = use.node.outputs, use.draft
    if isinstance(made, Several):
        targets = tuple(name if name in draft.read else "" for name in outputs)
        draft.step(use.node, targets, made.code, (made.kind,) * len(targets), use.hint)
        draft.values.update({name: Variable(local(name), made.kind) for name in outputs})
        return
    listed = made if isinstance(made, list | tuple) else [made]
    for name, one in zip(outputs, listed, strict=False):
        if name:
            draft.values[name] = _bound(use, name, one)


def _bound(use: NodeUse, name: str, one: Code | Called | Value) -> Value:
    """Return the value of one output; an expression becomes the statement that gives it."""
    if not isinstance(one, Code | Called):
        return one
    made, kind = (one, TENSOR) if isinstance(one, Code) else (one.code, one.kind)
    use.draft.step(use.node, (name,), made, (kind,), use.hint)
    return Variable(local(name), kind)
