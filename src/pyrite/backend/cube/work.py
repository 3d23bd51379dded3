"""How long the nodes of a launch take, roughly: to choose which values to make again.

In bytes that a device moves meanwhile, as most kernels take as long as their memory does.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from pyrite.backend.graph import Graph, Node
from pyrite.op.rule import Contract, Fold, Gather, Map, View

#: Multiplications and additions that take as long as a byte: 10 on a processor's core, as many on
#: a GPU without its matrix units.
BALANCE: Final = 10
#: What goes over its operands several times, or in steps, is as if all were so many times as large.
STEPS: Final = 8
#: The rules of ops that are as fast as memory.
_SMOOTH: Final = (Fold, Gather, Map)


def work_of(graph: Graph, nodes: Iterable[Node], touched: int) -> int:
    """Return the work of a launch that touches so many bytes and computes some nodes."""
    arithmetic = sum(_arithmetic(graph, node) for node in nodes)
    return max(touched, arithmetic // BALANCE)


def _arithmetic(graph: Graph, node: Node) -> int:
    """Return about how many operations a node takes."""
    rule = node.op.rule
    if isinstance(rule, View):
        return 0
    size: int = sum(graph.types[v].size for v in {*node.values, *node.results})
    if isinstance(rule, Contract):
        shapes = [graph.types[v].shape for v in node.values[:2]]
        points: int = prod(rule.products_of(shapes, node.attrs).out.shape)
        return 2 * points
    if node.op.is_elementwise or isinstance(rule, _SMOOTH):
        return size
    return STEPS * BALANCE * size
