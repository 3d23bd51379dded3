"""Many ops as one value: which are applied to what, from the types of inputs to the results.

The body of a composite is one, and what Fusion recorded is one; whoever makes kernels reads it.  It
knows no tensor and no device.  Values have numbers: first the graph's inputs, then the results of
each node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.content import ContentKey, content_of
from pyrite.op import Op, rules_key
from pyrite.sized import key_of_sizes
from pyrite.types import DType, Number, TensorType


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a call by its position: a tensor, or a number as one of a dtype.

    Or it is a number with a ``value``, made of sizes: kernels get it as those that a call gives.
    """

    position: int
    type: TensorType
    is_number: bool = False
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A number that stands in the graph, in the dtype that it takes there."""

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
    #: What it is by content, but for the numbers and types of values; see `content_of_node`.
    content: Hashable = field(repr=False)
    #: The values among its operands, and the numbers of its results: asked for all the time.
    values: tuple[int, ...] = field(init=False, repr=False)
    results: range = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = tuple([x for x in self.operands if isinstance(x, int)])
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "results", range(self.first, self.first + len(self.types)))

    @property
    def key(self) -> Hashable:
        """What it is by content, but for the types of values."""
        return self.content, self.values

    def renumbered(self, numbers: Mapping[int, int], first: int) -> Node:
        """Return it applied to the values of other numbers."""
        operands = tuple([numbers[x] if isinstance(x, int) else x for x in self.operands])
        return Node(self.op, operands, self.attrs, self.types, first, self.content)


def content_of_node(op: Op, operands: Sequence[Operand], attrs: Mapping[str, Any]) -> Hashable:
    """Return what an application of an op is by content, but for its values."""
    parts: list[Hashable] = [op, rules_key(op)]
    for x in operands:
        # Values may change places with what is left out: each says which it is.
        is_left_out = x is None
        parts.append(
            (content_of(key_of_sizes(x.value)), x.dtype) if isinstance(x, Literal) else is_left_out
        )
    parts += [(name, content_of(key_of_sizes(attrs[name]))) for name in sorted(attrs)]
    # Kernels of a body are looked up by the content of their nodes, each time sizes are new.
    return ContentKey(tuple(parts))


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Ops, each after those whose results it takes; those in vain are left out."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    #: The values that are wanted.
    results: tuple[int, ...]
    #: The type of each value, and the node that makes it, None for an input.
    types: tuple[TensorType, ...] = field(init=False, repr=False)
    makers: tuple[Node | None, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = [(type, node) for node in self.nodes for type in node.types]
        of_inputs: list[Node | None] = [None] * len(self.inputs)
        object.__setattr__(self, "types", (*[i.type for i in self.inputs], *[t for t, _ in made]))
        object.__setattr__(self, "makers", (*of_inputs, *[n for _, n in made]))

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
    kept = [graph.nodes[n] for n in reaching(graph)]
    if len(kept) == len(graph.nodes):
        return graph
    nodes, numbers = numbered_anew(kept, range(len(graph.inputs)))
    return Graph(graph.inputs, nodes, tuple([numbers[r] for r in graph.results]))


def reaching(graph: Graph) -> list[int]:
    """Return which nodes the results are made of, in order."""
    wanted = set(graph.results)
    found: list[int] = []
    for n in reversed(range(len(graph.nodes))):
        node = graph.nodes[n]
        if not wanted.isdisjoint(node.results):
            wanted.update(node.values)
            found.append(n)
    return found[::-1]


def numbered_anew(
    nodes: Iterable[Node], leaves: Iterable[int]
) -> tuple[tuple[Node, ...], dict[int, int]]:
    """Return nodes over values whose numbers begin with the leaves; and the new numbers by old."""
    numbers = {old: new for new, old in enumerate(leaves)}
    found: list[Node] = []
    for node in nodes:
        moved = node.renumbered(numbers, len(numbers))
        numbers.update(zip(node.results, moved.results, strict=True))
        found.append(moved)
    return tuple(found), numbers


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some nodes of a graph as one of their own, in numbers that do not depend on the rest.

    Inputs are the leaves: the values that they take of elsewhere.  ``numbers`` are the new ones of
    the values of the graph.
    """

    graph: Graph
    leaves: tuple[int, ...]
    numbers: Mapping[int, int]

    @classmethod
    def of(cls, graph: Graph, nodes: Sequence[Node]) -> Part:
        """Return the part of a graph that nodes are."""
        made = {v for node in nodes for v in node.results}
        leaves = tuple(dict.fromkeys(v for n in nodes for v in n.values if v not in made))
        moved, numbers = numbered_anew(nodes, leaves)
        inputs = tuple([_leaf(graph, value, n) for n, value in enumerate(leaves)])
        return cls(Graph(inputs, moved, ()), leaves, numbers)


#: From an op and what it is applied to, to the graph of its body; None for one that stays whole.
BodyOf = Callable[[Node], "Graph | None"]


def inlined(graph: Graph, body_of: BodyOf) -> tuple[Graph, tuple[int, ...]]:
    """Return a graph with composites in terms of their bodies.

    The second result says of each new node in which old one it was.
    """
    bodies = {node: body for node in graph.nodes if (body := body_of(node)) is not None}
    if not bodies:
        return graph, tuple(range(len(graph.nodes)))
    inputs = {_key_of(x): x for x in graph.inputs}
    for node, body in bodies.items():
        inputs |= {_key_of(x): x for x in _numbers_of(graph, node, body).values()}
    places = {key: n for n, key in enumerate(inputs)}
    numbers = {n: places[_key_of(x)] for n, x in enumerate(graph.inputs)}
    nodes: list[Node] = []
    origins: list[int] = []
    count = len(places)
    for origin, node in enumerate(graph.nodes):
        inner = bodies.get(node)
        if inner is None:
            made = [node.renumbered(numbers, count)]
            numbers.update(zip(node.results, made[0].results, strict=True))
        else:
            given = {k: places[_key_of(x)] for k, x in _numbers_of(graph, node, inner).items()}
            made, found = _applied(inner, node, numbers, given, count)
            numbers.update(zip(node.results, found, strict=True))
        count += sum(len(n.types) for n in made)
        nodes += made
        origins += [origin] * len(made)
    results = tuple([numbers[v] for v in graph.results])
    return Graph(tuple(inputs.values()), tuple(nodes), results), tuple(origins)


def merged(graph: Graph) -> tuple[Graph, tuple[int, ...]]:
    """Return a graph in which nothing is computed twice.

    The second result says of each new node which old one it is: of equal ones the first.
    """
    numbers = {n: n for n in range(len(graph.inputs))}
    nodes: list[Node] = []
    origins: list[int] = []
    known: dict[Hashable, Node] = {}
    count = len(numbers)
    for origin, node in enumerate(graph.nodes):
        moved = node.renumbered(numbers, count)
        same = known.setdefault((moved.key, moved.types), moved)
        numbers.update(zip(node.results, same.results, strict=True))
        if same is moved:
            nodes.append(moved)
            origins.append(origin)
            count += len(moved.types)
    results = tuple([numbers[v] for v in graph.results])
    return Graph(graph.inputs, tuple(nodes), results), tuple(origins)


def _key_of(x: Input) -> Hashable:
    return x, content_of(x.value)


def _numbers_of(graph: Graph, node: Node, body: Graph) -> dict[int, Input]:
    """Return the inputs of the whole graph that are the numbers of a body, by their value there."""
    found: dict[int, Input] = {}
    for value, wanted in enumerate(body.inputs):
        if wanted.value is not None:
            found[value] = wanted
        elif wanted.is_number and isinstance(x := node.operands[wanted.position], int):
            found[value] = Input(graph.inputs[x].position, wanted.type, is_number=True)
    return found


def _applied(
    body: Graph, node: Node, numbers: Mapping[int, int], given: Mapping[int, int], count: int
) -> tuple[list[Node], list[int]]:
    """Return the nodes of a body applied to a node's operands, and its results."""
    values: dict[int, Operand] = {}
    for value, wanted in enumerate(body.inputs):
        operand = None if wanted.value is not None else node.operands[wanted.position]
        if value in given:
            values[value] = given[value]
        elif isinstance(operand, Literal):
            values[value] = Literal(operand.value, wanted.type.dtype)
        else:
            assert isinstance(operand, int), "a body takes no input that was left out"
            values[value] = numbers[operand]
    made: list[Node] = []
    for inner in body.nodes:
        operands = tuple([values[x] if isinstance(x, int) else x for x in inner.operands])
        is_same = all(isinstance(x, int) for x in operands)
        content = inner.content if is_same else content_of_node(inner.op, operands, inner.attrs)
        moved = Node(inner.op, operands, inner.attrs, inner.types, count, content)
        values.update(zip(inner.results, moved.results, strict=True))
        count += len(moved.types)
        made.append(moved)
    results = [x for v in body.results if isinstance(x := values[v], int)]
    assert len(results) == len(body.results), "a number is no result of a body"
    return made, results


def _leaf(graph: Graph, value: int, number: int) -> Input:
    is_number = value < len(graph.inputs) and graph.inputs[value].is_number
    return Input(number, graph.types[value], is_number)
