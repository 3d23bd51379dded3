"""A model as values of our own: what is read from a file before anything runs.

Functions are expanded, constants are weights, and attributes are Python values.  Names are those of
the file; a name stands for one value in its graph and in the bodies within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pyrite.onnx.element import Element
from pyrite.onnx.message import shown
from pyrite.types import Array, Shape

#: A size that is known, one that has a name, or one of which nothing is known.
Size = int | str | None


@dataclass(frozen=True, slots=True)
class ValueType:
    """What a file says of a value: ``kind`` is tensor, sequence or optional."""

    element: Element | None = None
    shape: tuple[Size, ...] | None = None
    kind: str = "tensor"

    def __str__(self) -> str:
        element = self.element.name if self.element else self.kind
        if self.shape is None:
            return element
        return f"{element}[{', '.join('?' if s is None else shown(str(s)) for s in self.shape)}]"


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A value that the file holds; ``read`` maps or decodes it when it is asked for."""

    key: str
    element: Element
    shape: Shape
    read: Callable[[], Array]
    #: Whether it is an initializer, which may be trained; else a constant.
    is_initializer: bool = True

    @property
    def size(self) -> int:
        """Its number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call of an op; an input that is left out has the name ``""``."""

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    input_types: tuple[ValueType, ...] = ()
    output_types: tuple[ValueType, ...] = ()
    #: The path of the module that it was traced in; None where its exporter does not say.
    scope: tuple[str, ...] | None = None

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs among its attributes."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Graph))

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Node:
        """Return it with the graphs among its attributes changed."""
        if not self.bodies:
            return self
        attributes = {
            name: change(value) if isinstance(value, Graph) else value
            for name, value in self.attributes.items()
        }
        return replace(self, attributes=MappingProxyType(attributes))

    @property
    def uses(self) -> tuple[str, ...]:
        """The names that it reads: its inputs, and what its bodies take from around them."""
        captured = (name for body in self.bodies for name in body.captured)
        return tuple(dict.fromkeys(filter(None, (*self.inputs, *captured))))

    @property
    def label(self) -> str:
        """How messages name it."""
        op = shown(f"{self.domain}.{self.op}" if self.domain else self.op)
        called = self.name or next(filter(None, self.outputs), "")
        return f"{op} {called!r} (opset {self.version})"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in an order in which they can run, between inputs and outputs."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    weights: Mapping[str, Weight]
    types: Mapping[str, ValueType]

    @property
    def captured(self) -> tuple[str, ...]:
        """The names that it takes from the graphs around it."""
        own = {*self.inputs, *self.weights}
        free: dict[str, None] = {}
        for node in self.nodes:
            free.update(dict.fromkeys(name for name in node.uses if name not in own))
            own.update(node.outputs)
        free.update(dict.fromkeys(name for name in self.outputs if name and name not in own))
        return tuple(free)

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Graph:
        """Return it with the bodies of its nodes changed."""
        return replace(self, nodes=tuple(node.with_bodies(change) for node in self.nodes))

    def graphs(self) -> Iterator[Graph]:
        """Give it, and the bodies in it."""
        yield self
        for node in self.nodes:
            for body in node.bodies:
                yield from body.graphs()

    def walk(self) -> Iterator[tuple[Graph, Node]]:
        """Give each node with its graph, those of bodies after the node that has the body."""
        for node in self.nodes:
            yield self, node
            for body in node.bodies:
                yield from body.walk()
