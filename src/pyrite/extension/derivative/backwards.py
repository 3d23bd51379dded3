"""A counted loop of a kernel, run back for its derivative.

A round needs what it got from the one before only where the derivative does, as that of a product
does and that of a sum does not.  Then it is kept in memory of the invocation, where the rounds are
few and their number is known, and else computed anew for each round, by all rounds before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyrite.extension.derivative.primal import CarriedWanted, Primal
from pyrite.extension.derivative.tape import DerivedScope
from pyrite.kernel import Memory, Value
from pyrite.kernel.ir import Node

#: So many values are kept of all rounds of a loop.
MOST_KEPT = 1024

#: Cotangents of nodes.
Cotangents = dict[Node, Value]


class Walk(Protocol):
    """What a loop asks of the walk that it is a part of."""

    def walk(self, body: Sequence[Node], found: Cotangents) -> None: ...
    def add(self, found: Cotangents, node: Node, cotangent: Value | None) -> None: ...
    def zero(self, node: Node) -> Value: ...


class _OuterFound(Exception):
    """A round has cotangents of nodes outside of the loop, which it has to carry."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__(nodes)
        self.nodes = nodes


class Backwards:
    """One loop."""

    def __init__(self, walk: Walk, scope: DerivedScope, primal: Primal, node: Node) -> None:
        self._walk, self._scope, self._primal, self._node = walk, scope, primal, node
        (self._region,) = node.regions
        self._start, self._stop = (primal.value(i) for i in node.inputs[:2])
        self._step: int = node.attr[0]
        #: Whether rounds need what was carried into them, and where it is kept, if it is.
        self._needs_carried = False
        self._kept: list[Memory] | None = None

    def run(self, carried: Sequence[Node], given: Mapping[Node, Value]) -> Cotangents:
        """Record the loop; return cotangents of what it got, and of nodes outside.

        ``carried`` are parameters with a derivative, ``given`` the cotangents of their results.
        The loop is recorded again until all is known that a round needs and gives.
        """
        memories, outer = self._scope.memories(), list[Node]()
        while True:
            try:
                return self._recorded(carried, outer, given)
            except _OuterFound as found:
                outer += found.nodes
            except CarriedWanted as wanted:
                if wanted.parameter not in self._region.parameters:
                    self._scope.forget_memories(memories)
                    raise
                self._needs_carried = True
                self._kept = self._keeping()

    def _recorded(
        self, carried: Sequence[Node], outer: Sequence[Node], given: Mapping[Node, Value]
    ) -> Cotangents:
        zero, count = self._walk.zero, self._count()
        initial = [given[p] if p in given else zero(p) for p in carried] + [zero(n) for n in outer]
        with self._scope.plain.for_(0, count, carried=initial) as loop:
            totals = dict(zip((*carried, *outer), loop.carried, strict=True))
            found = self._round(count - 1 - loop.index, {p: totals[p] for p in carried})
            if new := [n for n in found if n not in totals]:
                raise _OuterFound(new)
            ends = [found[p] if p in found else zero(p) for p in carried]
            ends += [totals[n] + found[n] if n in found else totals[n] for n in outer]
            loop.yield_(*ends)
        initials = [self._node.inputs[1 + p.attr] for p in carried]
        return self._summed((*initials, *outer), loop.results)

    @staticmethod
    def _summed(nodes: Sequence[Node], values: Sequence[Value]) -> Cotangents:
        """Return cotangents by node; one node may begin several names."""
        found: Cotangents = {}
        for node, value in zip(nodes, values, strict=True):
            found[node] = found[node] + value if node in found else value
        return found

    def _round(self, number: Value, given: Mapping[Node, Value]) -> Cotangents:
        """Record a round back; return the cotangents at its beginning."""
        region = self._region
        counter = self._start + number * self._step
        found: Cotangents = {}
        with self._primal.frame({region.parameters[0]: counter.node}):
            if self._needs_carried:
                self._primal.know(region.parameters[1:], self._carried_into(number, counter))
            for p, cotangent in given.items():
                self._walk.add(found, region.yields[p.attr - 1], cotangent)
            self._walk.walk(region.body, found)
        return found

    def _count(self) -> Value:
        rounds = self._rounds()
        if rounds is not None:
            return self._scope.index(rounds)
        span = self._scope.plain.max(self._stop - self._start, 0)
        return span if self._step == 1 else (span + (self._step - 1)) // self._step

    def _rounds(self) -> int | None:
        """Return the number of rounds, where it is known."""
        start, stop = self._start.node, self._stop.node
        if start.kind != "const" or stop.kind != "const":
            return None
        return len(range(start.attr, stop.attr, self._step))

    # ---- what was carried ----

    def _carried_into(self, number: Value, counter: Value) -> list[Node]:
        if self._kept is None:
            return self._primal.rounds(self._node, counter)
        return [memory.load(number).node for memory in self._kept]

    def _keeping(self) -> list[Memory] | None:
        """Run the loop and keep what each round gets; None where that is too much."""
        rounds, parameters = self._rounds() or 0, self._region.parameters[1:]
        if not 1 <= rounds * len(parameters) <= MOST_KEPT:
            return None
        memories = [self._scope.keep(p.value_type.dtype, rounds) for p in parameters]

        def keep(counter: Node, values: Sequence[Node]) -> None:
            distance = self._scope.plain.of(counter) - self._start
            number = distance if self._step == 1 else distance // self._step
            for memory, value in zip(memories, values, strict=True):
                memory.store(number, self._scope.plain.of(value))

        self._primal.rounds(self._node, self._stop, keep)
        return memories
