"""One node as a translator sees it, and the tables of translators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.onnx.graph import Node, ValueType, Weight
from pyrite.onnx.python.code import Code, literal
from pyrite.onnx.python.draft import Draft
from pyrite.onnx.python.value import TENSOR, Fixed, Sizes, Value, integers
from pyrite.types import Array


@dataclass(frozen=True, slots=True)
class Several:
    """An expression that gives a tuple of all outputs."""

    code: Code
    kind: str = TENSOR


#: Returns what a node gives: an expression, values, or None where it cannot say.
Translator = Callable[["NodeUse"], "Code | Value | Sequence[Value] | Several | None"]

TRANSLATORS: dict[str, Translator] = {}

#: By op: what it does to sizes of the host; returns None for what is none.
SIZE_RULES: dict[str, Callable[[NodeUse], Value | None]] = {}

#: By op: writes a node with bodies into the statements of a translation.
CONTROLS: dict[str, Callable[[NodeUse], None]] = {}


def translates(*ops: str) -> Callable[[Translator], Translator]:
    """Return a decorator that files a function as the translator of ops of ONNX's own domain."""

    def file(function: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(ops, function))
        return function

    return file


@dataclass(slots=True)
class NodeUse:
    """One node as a translator sees it."""

    node: Node
    values: Sequence[Value | None]
    kinds: Sequence[str | None]
    draft: Draft
    #: How the variable of what it gives may be called.
    hint: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def has(self, position: int) -> bool:
        """Whether there is an operand at a position."""
        return position < len(self.values) and self.values[position] is not None

    def has_output(self, position: int) -> bool:
        """Whether something reads an output."""
        outputs = self.node.outputs
        return position < len(outputs) and outputs[position] in self.draft.read

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.node.attributes.get(name, default)

    def value(self, position: int) -> Value | None:
        """Return an operand; None if it is left out."""
        return self.values[position] if position < len(self.values) else None

    def type(self, position: int) -> ValueType:
        """Return what the file says of an operand."""
        types = self.node.input_types
        return types[position] if position < len(types) else ValueType()

    def shape(self, position: int) -> tuple[int | str | None, ...] | None:
        """Return what is known of an operand's shape."""
        inputs = self.node.inputs
        told = self.draft.shapes.get(inputs[position]) if position < len(inputs) else None
        return self.type(position).shape if told is None else told

    def tell(self, shape: Sequence[int | str | None]) -> None:
        """Note the shape of the node's output."""
        self.draft.shapes[self.node.outputs[0]] = tuple(shape)

    def rank(self, position: int) -> int | None:
        """Return how many axes an operand has, if it is known."""
        shape = self.shape(position)
        return None if shape is None else len(shape)

    def is_float(self, position: int) -> bool:
        """Whether an operand is known to be of a float dtype that ONNX has no narrower name for."""
        element = self.type(position).element
        found = element is not None and element.carrier is not None and element.carrier.is_float
        return found and element is not None and not element.is_narrow

    def fixed(self, position: int) -> Array | None:
        """Return an operand that is known, as an array."""
        value = self.value(position)
        return value.array if isinstance(value, Fixed) else None

    def integers(self, position: int, name: str) -> list[int] | None:
        """Return integers that are an attribute or a known operand."""
        if name in self.node.attributes:
            found = self.node.attributes[name]
            return [found] if isinstance(found, int) else list(found)
        return integers(self.value(position))

    def tensor(self, position: int) -> Code:
        """Return an operand as a tensor."""
        return self.draft.tensor(self.values[position])

    def tensors(self) -> list[Code]:
        """Return all operands as tensors."""
        return [self.tensor(i) for i in range(len(self.values))]

    def number(self, position: int) -> Code | None:
        """Return an operand that is one number, without axes, or with no more than the others."""
        value = self.value(position)
        if isinstance(value, Sizes):
            return None if value.is_vector else value.code
        if not isinstance(value, Fixed) or value.array.size != 1:
            return None
        others = [self.rank(i) for i in range(len(self.values)) if i != position]
        if value.array.ndim > max((r for r in others if r is not None), default=0):
            return None
        return literal(value.array.reshape(-1)[0])

    def weight(self, position: int) -> Weight | None:
        """Return an operand that is a weight of the file and no array of the host."""
        if position >= len(self.node.inputs):
            return None
        return self.draft.device_weights.get(self.node.inputs[position])

    def is_held_elsewhere(self, weight: Weight, name: str) -> bool:
        """Whether a layer of another class has a weight: an embedding's, which a head shares."""
        members = self.draft.members
        owner = members.within.get(weight.key)
        return owner is not None and members.layers[owner[0]].name != name

    def layer(
        self,
        name: str,
        weights: Mapping[str, tuple[Weight, Callable[[], Array] | None]],
        *arguments: Any,
        **named: Any,
    ) -> Code:
        """Return a layer to call: made once for the same weights.

        weights: by their names in the layer, with how to read them if not as they are.
        """
        return self.draft.layer(self.node, name, weights, arguments, named)
