"""Calls of ops without a translator, by `pyrite.onnx.operator`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.onnx.converter import Converter
from pyrite.onnx.graph import ValueType, Weight
from pyrite.onnx.naming import identifier
from pyrite.onnx.python.code import Code, Operator, call, code, literal
from pyrite.onnx.python.draft import ANCHOR, NUMPY
from pyrite.onnx.python.use import NodeUse, Several
from pyrite.onnx.python.value import TENSOR, UNKNOWN, Value, Variable


@dataclass(frozen=True, slots=True)
class Called:
    """What a call of an op gives, and of which kind that is."""

    code: Code
    kind: str


def called(use: NodeUse, found: Converter) -> Several | list[Called]:
    """Return a call of the op itself."""
    node = use.node
    function = Code((_operator(use),))
    arguments = [use.draft.argument(v, k) for v, k in zip(use.values, use.kinds, strict=True)]
    while arguments and use.values[len(arguments) - 1] is None:
        arguments.pop()
    named = {
        identifier(name): _attribute(value)
        for name, value in node.attributes.items()
        if name in found.attributes and not isinstance(value, ValueType)
    }
    kind = _kind_of(use.values, use.kinds)
    if not any(isinstance(v, Variable) and v.kind == TENSOR for v in use.values):
        named["device"] = ANCHOR
    made = call(function, *arguments, **named)
    return Several(made, kind) if len(node.outputs) > 1 else [Called(made, kind)]


def _operator(use: NodeUse) -> Operator:
    node = use.node
    narrow = [
        of.element.name if of.element is not None and of.element.is_narrow else ""
        for of in node.input_types
    ]
    elements = tuple(narrow) if any(narrow) else ()
    return Operator(node.op, node.domain, node.version, len(node.outputs), elements)


def _attribute(value: Any) -> Code:
    if not isinstance(value, Weight):
        return literal(value)
    written = literal(value.read())
    return written if written.parts else call(code("{}.array", NUMPY), written)


def _kind_of(values: Sequence[Value | None], kinds: Sequence[str | None]) -> str:
    """Return what a call gives: arrays of the host if all its tensors are such arrays."""
    tensors = [v for v, k in zip(values, kinds, strict=True)
               if v is not None and k not in ("host", "value")]  # fmt: skip
    if "value" in kinds:
        return UNKNOWN
    is_tensor = any(isinstance(v, Variable) and v.kind == TENSOR for v in tensors)
    return TENSOR if is_tensor else UNKNOWN
