"""The body of a composite as kernels: what can be one is one, whoever wrote it.

The graph of a body is cut into regions: elementwise ops, folds and moves that name axes anew.  In
a region folds over the same rows are one kernel with all that hangs on them, what no fold stands
before is another, and a fold that fits no rows runs by its own skeleton.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.body.graph_run import GraphRun
from pyrite.backend.cube.body.region import (
    inside_of,
)
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input, lowering_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Graph, Node
from pyrite.backend.tracing.tracer import traced
from pyrite.op import Attributes, Op


def graph_of(op: Op, inputs: Sequence[Input], attrs: Attributes) -> Graph | None:
    """Return the graph of a body for such inputs, None where it is not for these kernels."""
    graph = _traced(op, inputs, attrs)
    return graph if graph is not None and is_classed(graph) else None


def _traced(op: Op, inputs: Sequence[Input], attrs: Attributes) -> Graph | None:
    return traced(op, [i.type if isinstance(i, CubeTensor) else i for i in inputs], attrs)


def is_classed(graph: Graph) -> bool:
    """Whether every op of a graph has a rule of a class, and there is something to go over."""
    if not all(type.size for type in graph.types):
        return not any(type.size for type in graph.out)
    inside = inside_of(graph)
    return all(node in inside or _has_skeleton(node) for node in graph.nodes)


def _has_skeleton(node: Node) -> bool:
    """Whether kernels for a node come of the class of its rule, or stand in for that."""
    if node.op.rule is None:
        return node.op.scalar is not None
    return lowering_of(node.op) is not None


def run_body(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: object
) -> Sequence[CubeTensor]:
    """Run a composite by its body, of which `graph_of` has the graph."""
    graph = _traced(op, inputs, attrs)
    assert graph is not None, "a body that keeps its op whole"
    if not any(type.size for type in graph.out):
        return [launcher.empty(type) for type in graph.out]
    return run_graph(launcher, op.name, graph, inputs)


def run_graph(
    launcher: Launcher, name: str, graph: Graph, inputs: Sequence[Input]
) -> list[CubeTensor]:
    """Run the ops of a graph by as few kernels as there may be; return its results."""
    run = GraphRun(launcher, name, graph, inputs)
    run.realise_results()
    found = [run.real[value] for value in graph.results]
    made = [x for x in found if isinstance(x, CubeTensor)]
    assert len(made) == len(found), "a number of the call is no result"
    return made
