"""What is left of a graph, found step by step, is what is found from the results anew."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyrite.backend.cube.body.region import ancestors
from pyrite.backend.cube.body.remaining import Remaining
from pyrite.backend.graph import Graph, Input, Node
from pyrite.op import OPS
from pyrite.types import TensorType, float32

TYPE = TensorType((4,), float32)


def drawn_graph(rng: random.Random) -> Graph:
    """Return nodes of one to three results, of what came before; some are in vain."""
    inputs = tuple([Input(n, TYPE) for n in range(rng.randint(1, 4))])
    nodes: list[Node] = []
    count = len(inputs)
    for _ in range(rng.randint(1, 30)):
        values = tuple(rng.choices(range(count), k=rng.randint(1, 3)))
        nodes.append(Node(OPS["add"], values, {}, (TYPE,) * rng.choice((1, 1, 1, 2, 3)), count, ()))
        count += len(nodes[-1].types)
    return Graph(inputs, tuple(nodes), tuple(rng.choices(range(count), k=rng.randint(1, 4))))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_is_that_of_which_results_are_made(seed: int) -> None:
    rng = random.Random(seed)
    graph: Graph = drawn_graph(rng)
    real: dict[int, Any] = dict.fromkeys(range(len(graph.inputs)))
    remaining = Remaining(graph, real)
    values = [v for node in graph.nodes for v in node.results]
    while True:
        left = ancestors(graph, graph.results, real.keys())
        assert [*remaining.nodes] == left
        for v in (*range(len(graph.inputs)), *values):
            assert remaining.users(v) == [n for n in left if v in n.values]
        done = {*rng.sample(values, rng.randint(0, min(4, len(values))))}
        with_more = ancestors(graph, graph.results, real.keys() | done)
        gone = remaining.gone(done)
        assert [n for n in left if n not in gone] == with_more
        assert all(remaining.needs(n, done) is (n in with_more) for n in graph.nodes)
        assert [*remaining.nodes] == left
        more = [v for v in values if v not in real]
        if not more:
            return
        for v in rng.sample(more, min(len(more), rng.randint(1, 3))):
            real[v] = None
