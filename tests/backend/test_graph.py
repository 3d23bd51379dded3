"""Graphs as values: parts in numbers of their own, composites in terms of bodies, nothing twice."""

from __future__ import annotations

from pyrite.backend.graph import (
    Graph,
    Input,
    Literal,
    Node,
    Operand,
    Part,
    content_of_node,
    inlined,
    merged,
    pruned,
    reaching,
)
from pyrite.op import OPS
from pyrite.types import TensorType, float32

TYPE = TensorType((3,), float32)
NUMBER = TensorType((), float32)


def graph(inputs: int, *calls: tuple[str, tuple[Operand, ...]], wanted: tuple[int, ...]) -> Graph:
    """Return a graph of calls with one result each."""
    nodes = []
    for n, (name, operands) in enumerate(calls, inputs):
        op = OPS[name]
        attrs = dict(op.attributes)
        nodes.append(Node(op, operands, attrs, (TYPE,), n, content_of_node(op, operands, attrs)))
    return Graph(tuple(Input(n, TYPE) for n in range(inputs)), tuple(nodes), wanted)


def names(of: Graph) -> list[tuple[str, tuple[int, ...]]]:
    return [(node.op.name, node.values) for node in of.nodes]


def test_parts_that_do_the_same_elsewhere_are_equal() -> None:
    whole = graph(
        2, ("exp", (0,)), ("add", (2, 1)), ("exp", (3,)), ("add", (4, 1)), wanted=(5,)
    )  # fmt: skip
    one, two = Part.of(whole, whole.nodes[:2]), Part.of(whole, whole.nodes[2:])
    assert one.leaves == (0, 1)
    assert two.leaves == (3, 1)
    assert [n.key for n in one.graph.nodes] == [n.key for n in two.graph.nodes]
    assert two.numbers[5] == 3


def test_only_what_results_are_made_of_is_left() -> None:
    whole = graph(1, ("exp", (0,)), ("sin", (0,)), ("cos", (1,)), wanted=(3,))
    assert reaching(whole) == [0, 2]
    assert names(pruned(whole)) == [("exp", (0,)), ("cos", (1,))]


def test_nothing_is_computed_twice() -> None:
    whole = graph(
        2,
        ("exp", (0,)), ("exp", (0,)), ("exp", (1,)), ("add", (2, 3)), ("add", (3, 2)),
        wanted=(5, 6, 3),
    )  # fmt: skip
    found, origins = merged(whole)
    assert names(found) == [("exp", (0,)), ("exp", (1,)), ("add", (2, 2))]
    assert origins == (0, 2, 3)
    assert found.results == (4, 4, 2)


def test_numbers_in_a_graph_tell_calls_apart_by_content() -> None:
    calls = [("multiply", (0, Literal(value, float32))) for value in (0.0, -0.0, 0.0)]
    found, _ = merged(graph(1, *calls, wanted=(1, 2, 3)))
    assert len(found.nodes) == 2
    assert found.results == (1, 2, 1)


def test_bodies_take_the_place_of_composites() -> None:
    body = graph(2, ("exp", (1,)), ("add", (2, 0)), wanted=(3, 2))
    body = Graph((Input(0, TYPE), Input(1, NUMBER, is_number=True)), body.nodes, body.results)
    call = Node(OPS["lerp"], (1, 2), {}, (TYPE, TYPE), 3, "a call")
    inputs = (Input(0, TYPE), Input(1, TYPE), Input(2, TensorType((), float32), is_number=True))
    last = graph(5, ("add", (3, 4)), wanted=()).nodes[0]
    whole = Graph(inputs, (call, last), (5, 4))
    found, origins = inlined(whole, lambda node: body if node is call else None)
    assert names(found) == [("exp", (2,)), ("add", (3, 1)), ("add", (4, 3))]
    assert origins == (0, 0, 1)
    assert found.results == (5, 3)
    assert found.types == (TYPE, TYPE, NUMBER, TYPE, TYPE, TYPE)
