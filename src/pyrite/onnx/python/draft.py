"""What is written of a model so far: statements, members, and what each name stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pyrite.onnx.graph import Graph, Node, ValueType, Weight
from pyrite.onnx.python.code import Anchor, Code, Imported, Member, call, code, literal, local
from pyrite.onnx.python.member import HeldTensor, LayerMember, Members
from pyrite.onnx.python.scope import Scopes
from pyrite.onnx.python.step import Step
from pyrite.onnx.python.value import TENSOR, UNKNOWN, Fixed, Sizes, Value, Variable
from pyrite.onnx.role import roles
from pyrite.types import Array

NUMPY = Imported("numpy", "")
ANCHOR = Code((Anchor(),))
_TENSOR = Code((Imported("pyrite", "asarray"),))
_INT64 = Code((Imported("pyrite", "int64"),))

#: Elements of the largest array that is written into the code.
_WRITTEN = 64


@dataclass(slots=True)
class Draft:
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
        self.members.held[weight.key] = HeldTensor(
            path, role, weight.shape, carrier.name, weight.read
        )

    @contextmanager
    def block(self, steps: list[Step]) -> Iterator[None]:
        """Put what is translated meanwhile behind other statements."""
        outer, self.steps = self.steps, steps
        try:
            yield
        finally:
            self.steps = outer

    def refuse(self, node: Node, reason: str = "its body cannot be written as Python") -> None:
        """Note a node that cannot be written."""
        self.problems.append(f"{node.label}: {reason}")
        self.values.update({name: Variable(local(name), UNKNOWN) for name in node.outputs})

    def step(
        self, node: Node, targets: tuple[str, ...], made: Code, kinds: tuple[str, ...], hint: str
    ) -> None:
        """Add the statement that a node becomes."""
        self.steps.append(Step(targets, made, self.scopes.of_node(node), kinds, hint))

    def tensor(self, value: Value | None) -> Code:
        """Return a value as a tensor of the device."""
        assert value is not None, "a translator asks whether there is an operand"
        if isinstance(value, Fixed):
            return self._constant(value)
        if isinstance(value, Variable) and value.kind == TENSOR:
            return value.code
        dtype = {"dtype": _INT64} if isinstance(value, Sizes) else {}
        name = f"lifted:{next(self._lifted)}"
        self.steps.append(Step((name,), call(_TENSOR, value.code, **dtype, device=ANCHOR)))
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
        held = HeldTensor(path, "state", array.shape, array.dtype.name, lambda: array)
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
        self.members.layers.setdefault(key, LayerMember(path, name, given, options, reads))
        for field_name, (weight, read) in weights.items():
            if read is None:
                self.members.claim(weight, key, field_name)
        return Code((Member(key),))

    def plain(self, value: Value | None) -> Code:
        """Return a value as it is: a tensor, an array of the host, a sequence, None."""
        return self.argument(value, None)

    def argument(self, value: Value | None, kind: str | None) -> Code:
        """Return a value as an operand of a kind, as `pyrite.onnx.operator` takes it."""
        if value is None:
            return literal(None)
        if isinstance(value, Variable):
            return value.code
        if isinstance(value, Sizes):
            as_list = kind == "host" or not value.is_vector
            return value.code if as_list else call(code("{}.array", NUMPY), value.code)
        if value.array.size > _WRITTEN:
            return self._constant(value)
        written = literal(value.array)
        is_list = written.brackets == "[]" and not written.parts and written.arguments is not None
        if is_list and kind != "host":
            return call(code("{}.array", NUMPY), written)
        return written
