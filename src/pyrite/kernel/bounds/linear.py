"""Integers as sums of multiples: what an index is made of, for proofs about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyrite.kernel.bounds.interval import Interval
from pyrite.kernel.ir import Node


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of each node times its factor, and of constants, of which each lane has its own."""

    terms: dict[Node, int]
    constants: tuple[int, ...]

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Return this and a multiple of the other."""
        terms = dict(self.terms)
        for node, times in other.terms.items():
            terms[node] = terms.get(node, 0) + factor * times
        width = max(len(self.constants), len(other.constants))
        mine, others = self.lanes(width), other.lanes(width)
        constants = tuple(a + factor * b for a, b in zip(mine, others, strict=True))
        return Linear({n: t for n, t in terms.items() if t}, constants)

    def lanes(self, width: int) -> tuple[int, ...]:
        """Return the constant of each of so many lanes."""
        return self.constants * width if len(self.constants) == 1 else self.constants

    def within(self, of: Callable[[Node], Interval]) -> Interval:
        """Return the interval of its values, given those of its nodes."""
        low, high = min(self.constants), max(self.constants)
        for node, times in self.terms.items():
            part = of(node).times(times)
            low, high = low + part.low, high + part.high
        return Interval(low, high)


def linear(node: Node) -> Linear:
    """Return a node as such a sum; what is no sum is a term itself."""
    if node.kind == "const":
        return Linear({}, node.attr if isinstance(node.attr, tuple) else (int(node.attr),))
    if node.kind == "splat":
        return linear(node.inputs[0])
    if node.kind == "alu" and node.attr in ("add", "sub"):
        x, y = (linear(i) for i in node.inputs)
        return x.plus(y, 1 if node.attr == "add" else -1)
    if node.kind == "alu" and node.attr == "neg":
        return Linear({}, (0,)).plus(linear(node.inputs[0]), -1)
    if node.kind == "alu" and node.attr in ("mul", "shl"):
        for value, other in (node.inputs, node.inputs[::-1]):
            factor = constant(other)
            if factor is not None and (node.attr == "mul" or other is node.inputs[1]):
                factor = factor if node.attr == "mul" else 1 << factor
                return Linear({}, (0,)).plus(linear(value), factor)
    return Linear({node: 1}, (0,))


def constant(node: Node) -> int | None:
    """Return the one number that a node is in every lane, or None."""
    if node.kind == "splat":
        return constant(node.inputs[0])
    if node.kind != "const":
        return None
    numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,)
    same = len(set(numbers)) == 1 and isinstance(numbers[0], int)
    return int(numbers[0]) if same else None
