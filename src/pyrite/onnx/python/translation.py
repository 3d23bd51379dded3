"""From a graph to statements: each node by its translator, or as a call of its op.

A translator is a function that is given a `Use`, one node with its operands, and returns an
expression that computes the same, or None where it has none.  What no translator takes is computed
here if its operands are known, is arithmetic of sizes, or calls the op by `pyrite.onnx.operator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from pyrite.errors import PyriteError
from pyrite.onnx.converter import Converter, converter
from pyrite.onnx.graph import Graph, Node, ValueType, Weight
from pyrite.onnx.naming import identifier
from pyrite.onnx.program import HOST, HOST_LIMIT, Context, compiled, run
from pyrite.onnx.python.code import (
    Anchor,
    Code,
    Imported,
    Member,
    Operator,
    call,
    code,
    literal,
    local,
)
from pyrite.onnx.python.member import Held, Layer, Members
from pyrite.onnx.python.scope import Scopes
from pyrite.onnx.python.step import Scope, Step
from pyrite.onnx.python.value import (
    TENSOR,
    UNKNOWN,
    Fixed,
    Sizes,
    Value,
    Variable,
    as_sizes,
    integers,
)
from pyrite.onnx.role import roles
from pyrite.onnx.static import GROWING
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


@dataclass(frozen=True, slots=True)
class Several:
    """An expression that gives a tuple of all outputs."""

    code: Code
    kind: str = TENSOR


#: Returns what a node gives: an expression, values, or None where it cannot say.
Translator = Callable[["Use"], "Code | Value | Sequence[Value] | Several | None"]

TRANSLATORS: dict[str, Translator] = {}

#: By op: what it does to sizes of the host; returns None for what is none.
SIZE_RULES: dict[str, Callable[[Use], Value | None]] = {}

#: By op: writes a node with bodies into the statements of a translation.
CONTROLS: dict[str, Callable[[Use], None]] = {}

#: The domain of what `pattern` finds that is no op of ONNX.
PATTERN = "pyrite.pattern"


def translates(*ops: str) -> Callable[[Translator], Translator]:
    """Return a decorator that files a function as the translator of ops of ONNX's own domain."""

    def file(function: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(ops, function))
        return function

    return file


@dataclass(slots=True)
class Use:
    """One node as a translator sees it."""

    node: Node
    values: Sequence[Value | None]
    kinds: Sequence[str | None]
    translation: Translation
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
        return position < len(outputs) and outputs[position] in self.translation.read

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
        told = self.translation.shapes.get(inputs[position]) if position < len(inputs) else None
        return self.type(position).shape if told is None else told

    def tell(self, shape: Sequence[int | str | None]) -> None:
        """Note the shape of the node's output."""
        self.translation.shapes[self.node.outputs[0]] = tuple(shape)

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
        return self.translation.tensor(self.values[position])

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
        return self.translation.device_weights.get(self.node.inputs[position])

    def is_held_elsewhere(self, weight: Weight, name: str) -> bool:
        """Whether a layer of another class has a weight: an embedding's, which a head shares."""
        members = self.translation.members
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
        return self.translation.layer(self.node, name, weights, arguments, named)


@dataclass(slots=True)
class Translation:
    """A graph on its way to statements."""

    graph: Graph
    scopes: Scopes
    members: Members = field(default_factory=Members)
    steps: list[Step] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    device_weights: dict[str, Weight] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    #: Shapes of which more is known than the file says.
    shapes: dict[str, tuple[int | str | None, ...]] = field(default_factory=dict)
    #: What cannot be written, by node.
    problems: list[str] = field(default_factory=list)
    _lifted: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        graphs = list(self.graph.graphs())
        used = (name for graph in graphs for node in graph.nodes for name in node.uses)
        self.read = {*used, *(name for graph in graphs for name in graph.outputs)}
        found = roles(self.graph)
        for name, weight in ((n, w) for graph in graphs for n, w in graph.weights.items()):
            if found[weight.key] == "host":
                self.values[name] = Fixed(
                    weight.read(), weight.key if weight.is_initializer else ""
                )
                continue
            self.device_weights[name] = weight
            self.values[name] = Variable(Code((Member(weight.key),)))
            self._hold(weight, "parameter" if found[weight.key] == "parameter" else "state")
        for name in self.graph.inputs:
            of = self.graph.types.get(name, ValueType())
            kind = TENSOR if of.kind == "tensor" else UNKNOWN
            self.values[name] = Variable(local(name), kind)

    def _hold(self, weight: Weight, role: Any) -> None:
        carrier = weight.element.carrier
        assert carrier is not None, "support.problems refuses what has no carrier"
        path = self.scopes.of_weight(weight.key)
        self.members.held[weight.key] = Held(path, role, weight.shape, carrier.name, weight.read)

    def run(self) -> None:
        """Translate all nodes."""
        self.nodes(self.graph)

    def nodes(self, graph: Graph) -> None:
        """Translate the nodes of the graph, or of a body."""
        for node in graph.nodes:
            self._translate(node)

    @contextmanager
    def block(self, steps: list[Step]) -> Iterator[None]:
        """Put what is translated meanwhile behind other statements."""
        outer, self.steps = self.steps, steps
        try:
            yield
        finally:
            self.steps = outer

    def _translate(self, node: Node) -> None:
        values = [self.values[name] if name else None for name in node.inputs]
        if node.bodies:
            self._control(Use(node, values, (None,) * len(values), self))
            return
        found = converter(node.domain, node.op, node.version)
        kinds = tuple(found.kind(i) if found else None for i in range(len(values)))
        use = Use(node, values, kinds, self)
        made: Any = None if found is None else self._folded(node, found, values)
        if made is None and node.op in SIZE_RULES:
            made = self._sized(use)
        if made is None and node.domain in ("", PATTERN) and node.op in TRANSLATORS:
            made = TRANSLATORS[node.op](use) if _is_on_device(use) else None
        if made is None:
            assert found is not None, node.label
            made = self._called(use, found)
        self._bind(use, made)

    def _control(self, use: Use) -> None:
        """Write a branch or a loop."""
        write = CONTROLS.get(use.node.op) if not use.node.domain else None
        if write is None:
            self.refuse(use.node)
        else:
            write(use)

    def refuse(self, node: Node, reason: str = "its body cannot be written as Python") -> None:
        """Note a node that cannot be written."""
        self.problems.append(f"{node.label}: {reason}")
        self.values.update({name: Variable(local(name), UNKNOWN) for name in node.outputs})

    def _sized(self, use: Use) -> Value | None:
        """Return what arithmetic of sizes gives, where the operands are sizes."""
        is_shape = use.node.op in ("Shape", "Size")
        if not is_shape and not any(isinstance(v, Sizes) for v in use.values):
            return None
        return SIZE_RULES[use.node.op](use)

    def _bind(self, use: Use, made: Any) -> None:
        """Give the outputs of a node what a translator returned."""
        outputs = use.node.outputs
        if isinstance(made, Several):
            targets = tuple(name if name in self.read else "" for name in outputs)
            self._step(use.node, targets, made.code, (made.kind,) * len(targets), use.hint)
            for name in outputs:
                self.values[name] = Variable(local(name), made.kind)
            return
        listed = made if isinstance(made, list | tuple) else [made]
        for name, one in zip(outputs, listed, strict=False):
            if not name:
                continue
            if isinstance(one, Code):
                self._step(use.node, (name,), one, (TENSOR,), use.hint)
                self.values[name] = Variable(local(name))
            elif isinstance(one, _Called):
                self._step(use.node, (name,), one.code, (one.kind,), use.hint)
                self.values[name] = Variable(local(name), one.kind)
            else:
                self.values[name] = one

    def _step(
        self, node: Node, targets: tuple[str, ...], made: Code, kinds: tuple[str, ...], hint: str
    ) -> None:
        self.steps.append(Step(targets, made, self.scopes.of_node(node), kinds, hint))

    def _folded(
        self, node: Node, found: Converter, values: Sequence[Value | None]
    ) -> list[Value] | None:
        """Return what a node gives whose operands are all known arrays of the host."""
        known = [value.array for value in values if isinstance(value, Fixed)]
        is_known = len(known) == sum(value is not None for value in values)
        if not known or not is_known or node.op in _NOT_FOLDED or "value" in found.operands[1:]:
            return None
        part = Graph("", node.inputs, node.outputs, (node,), {}, {})
        if node.op in GROWING and _too_large(node, values):
            return None
        try:
            by_name = {n: v.array for n, v in zip(node.inputs, values, strict=True)
                       if isinstance(v, Fixed)}  # fmt: skip
            names = tuple(by_name)
            program = compiled(Graph("", names, part.outputs, part.nodes, {}, {}))
            made = run(program, list(by_name.values()), {}, Context(HOST, {}))
        except PyriteError:
            return None  # an error of its own, when it runs
        arrays = [m.numpy() if isinstance(m, Tensor) else m for m in made]
        if not all(isinstance(a, np.ndarray) and a.size <= HOST_LIMIT for a in arrays):
            return None
        return [Fixed(a) for a in arrays]

    # ---- operands ----

    def tensor(self, value: Value | None) -> Code:
        """Return a value as a tensor of the device."""
        assert value is not None, "a translator asks whether there is an operand"
        if isinstance(value, Fixed):
            return self._constant(value)
        if isinstance(value, Variable) and value.kind == TENSOR:
            return value.code
        dtype = {"dtype": _INT64} if isinstance(value, Sizes) else {}
        name = f"lifted:{next(self._lifted)}"
        self.steps.append(Step((name,), call(_TENSOR, value.code, **dtype, device=_ANCHOR)))
        return local(name)

    def _constant(self, value: Fixed) -> Code:
        """Return a known array as a state of the module: it is saved, moved and not trained."""
        array, told = value.array, value.key
        key = f"constant:{told or len(self.members.held)}"
        known = [k for k, h in self.members.held.items() if k.startswith("constant:")
                 and h.shape == array.shape and h.read() is array]  # fmt: skip
        if known:
            return Code((Member(known[0]),))
        count = sum(k.startswith("constant:") for k in self.members.held) + 1
        path = self.scopes.of_weight(told) if told else (f"constant{count}",)
        held = Held(path, "state", array.shape, array.dtype.name, lambda: array)
        self.members.held.setdefault(key, held)
        return Code((Member(key),))

    def layer(
        self,
        node: Node,
        name: str,
        weights: Mapping[str, tuple[Weight, Callable[[], Array] | None]],
        arguments: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Code:
        """Return a layer to call, made if there is none with these weights and arguments."""
        path = self.scopes.of_layer(node, [w.key for w, _ in weights.values()], name)
        given = tuple(map(literal, arguments))
        options = {key: literal(value) for key, value in named.items()}
        reads = {field: read or weight.read for field, (weight, read) in weights.items()}
        key = f"layer:{'.'.join(path)}"
        known = self.members.layers.get(key)
        if known is not None and (known.name, known.arguments) != (name, given):
            path = self.scopes.another(path)
            key = f"layer:{'.'.join(path)}"
        self.members.layers.setdefault(key, Layer(path, name, given, options, reads))
        for field_name, (weight, read) in weights.items():
            if read is None:
                self.members.claim(weight, key, field_name)
        return Code((Member(key),))

    # ---- ops without a translator ----

    def _called(self, use: Use, found: Converter) -> Any:
        """Return a call of the op itself."""
        node = use.node
        function = Code((_operator(use),))
        arguments = [self._argument(v, k) for v, k in zip(use.values, use.kinds, strict=True)]
        while arguments and use.values[len(arguments) - 1] is None:
            arguments.pop()
        named = {
            identifier(name): self._attribute(value)
            for name, value in node.attributes.items()
            if name in found.attributes and not isinstance(value, ValueType)
        }
        kind = _kind_of(found, use.values, use.kinds)
        if not any(isinstance(v, Variable) and v.kind == TENSOR for v in use.values):
            named["device"] = _ANCHOR
        made = call(function, *arguments, **named)
        return Several(made, kind) if len(node.outputs) > 1 else [_Called(made, kind)]

    def _attribute(self, value: Any) -> Code:
        if not isinstance(value, Weight):
            return literal(value)
        written = literal(value.read())
        return written if written.parts else call(code("{}.array", _NUMPY), written)

    def plain(self, value: Value | None) -> Code:
        """Return a value as it is: a tensor, an array of the host, a sequence, None."""
        return self._argument(value, None)

    def _argument(self, value: Value | None, kind: str | None) -> Code:
        if value is None:
            return literal(None)
        if isinstance(value, Variable):
            return value.code
        if isinstance(value, Sizes):
            as_list = kind == "host" or not value.is_vector
            return value.code if as_list else call(code("{}.array", _NUMPY), value.code)
        if value.array.size > _WRITTEN:
            return self._constant(value)
        written = literal(value.array)
        is_list = written.brackets == "[]" and not written.parts and written.arguments is not None
        if is_list and kind != "host":
            return call(code("{}.array", _NUMPY), written)
        return written


def constants(graph: Graph) -> dict[str, Array]:
    """Return the values of a graph that its file decides, as arrays of the host."""
    translation = Translation(graph, Scopes(graph))
    translation.run()
    return {n: v.array for n, v in translation.values.items() if isinstance(v, Fixed)}


@dataclass(frozen=True, slots=True)
class _Called:
    """What a call of an op gives, and of which kind that is."""

    code: Code
    kind: str


_NUMPY = Imported("numpy", "")
_TENSOR = Code((Imported("pyrite", "asarray"),))
_INT64 = Code((Imported("pyrite", "int64"),))
_ANCHOR = Code((Anchor(),))

#: Elements of the largest array that is written into the code.
_WRITTEN = 64

#: Ops whose results differ from call to call, or are no arrays.
_NOT_FOLDED = {
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "SequenceConstruct", "SequenceEmpty", "Optional", "SplitToSequence",
}  # fmt: skip


def _too_large(node: Node, values: Sequence[Value | None]) -> bool:
    """Whether a result is large, or of a size that the file does not say."""
    count = 1
    for of in node.output_types:
        if of.shape is None or not all(isinstance(size, int) for size in of.shape):
            return True
        for size in of.shape:
            count *= int(size)  # type: ignore[arg-type]
    return count > HOST_LIMIT


def _is_on_device(use: Use) -> bool:
    """Whether all operands that come of a computation are tensors, and one is."""
    found = [v for v in use.values if isinstance(v, Variable)]
    is_made = use.node.op in ("Range", "ConstantOfShape")
    is_cut = use.fixed(0) is not None and any(isinstance(v, Sizes) for v in use.values[1:])
    is_ours = use.node.domain == PATTERN
    return is_ours or (all(v.kind == TENSOR for v in found) and (bool(found) or is_made or is_cut))


def _operator(use: Use) -> Operator:
    node = use.node
    narrow = [
        of.element.name if of.element is not None and of.element.is_narrow else ""
        for of in node.input_types
    ]
    elements = tuple(narrow) if any(narrow) else ()
    return Operator(node.op, node.domain, node.version, len(node.outputs), elements)


def _kind_of(found: Converter, values: Sequence[Value | None], kinds: Sequence[str | None]) -> str:
    """Return what a call gives: arrays of the host if all its tensors are such arrays."""
    tensors = [v for v, k in zip(values, kinds, strict=True)
               if v is not None and k not in ("host", "value")]  # fmt: skip
    if "value" in kinds:
        return UNKNOWN
    is_tensor = any(isinstance(v, Variable) and v.kind == TENSOR for v in tensors)
    return TENSOR if is_tensor else UNKNOWN


__all__ = ["TRANSLATORS", "Scope", "Translation", "Use", "as_sizes", "translates"]
