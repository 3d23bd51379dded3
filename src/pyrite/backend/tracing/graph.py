"""A body as a value: which ops it calls on what, from the types of its inputs to its results.

Whoever makes kernels of a composite reads this, and so will Fusion: it knows no tensor and no
device.  Values have numbers: first the graph's inputs, then the results of each node.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrite.content import content_of
from pyrite.op import Op, rules_key
from pyrite.types import DType, Number, TensorType


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the composite by its position: a tensor, or a number as one of a dtype.

    Or it is a number with a ``value``, made of sizes: kernels get it as those that a call gives.
    """

    position: int
    type: TensorType
    is_number: bool = False
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A number that stands in the body, in the dtype that it takes there."""

    value: Number
    dtype: DType


#: What an op in a graph is applied to: a value by its number, a number, or nothing.
Operand = int | Literal | None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An op applied to operands; its results are the values from ``first`` on."""

    op: Op
    operands: tuple[Operand, ...]
    attrs: Mapping[str, Any] = field(repr=False)
    types: tuple[TensorType, ...]
    first: int
    key: Hashable = field(repr=False)
    #: The values among its operands, and the numbers of its results: asked for all the time.
    values: tuple[int, ...] = field(init=False, repr=False)
    results: range = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = tuple([x for x in self.operands if isinstance(x, int)])
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "results", range(self.first, self.first + len(self.types)))


def key_of(op: Op, operands: tuple[Operand, ...], attrs: Mapping[str, Any]) -> Hashable:
    """Return what an application of an op is by content, but for the types of values."""
    parts: list[Hashable] = [op, rules_key(op)]
    parts += [(content_of(x.value), x.dtype) if isinstance(x, Literal) else x for x in operands]
    parts += [(name, content_of(attrs[name])) for name in sorted(attrs)]
    return tuple(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The ops of a body, each after those whose results it takes; those in vain are left out."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    #: The values that the body returns.
    results: tuple[int, ...]
    #: The type of each value.
    types: tuple[TensorType, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = [type for node in self.nodes for type in node.types]
        object.__setattr__(self, "types", (*[i.type for i in self.inputs], *made))

    @property
    def out(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        return tuple([self.types[value] for value in self.results])

    @property
    def key(self) -> Hashable:
        """What tells it from other graphs, by content."""
        return self.inputs, tuple(node.key for node in self.nodes), self.results


def pruned(graph: Graph) -> Graph:
    """Return the graph without nodes whose results nobody wants, values numbered anew."""
    wanted = set(graph.results)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not wanted.isdisjoint(node.results):
            wanted.update(node.values)
            kept.append(node)
    numbers: dict[int, int] = {n: n for n in range(len(graph.inputs))}
    nodes: list[Node] = []
    for node in reversed(kept):
        first = len(numbers)
        operands = tuple(numbers[x] if isinstance(x, int) else x for x in node.operands)
        numbers.update({old: first + i for i, old in enumerate(node.results)})
        key = key_of(node.op, operands, node.attrs)
        nodes.append(Node(node.op, operands, node.attrs, node.types, first, key))
    return Graph(graph.inputs, tuple(nodes), tuple(numbers[r] for r in graph.results))
