"""Which nodes of a recording depend on what is differentiated, and where each stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyrite.extension.derivative.tape import Tape
from pyrite.kernel.ir import Node, Region


@dataclass(frozen=True, slots=True)
class Survey:
    """The nodes of a body with a derivative, and those that only a region inside of it sees."""

    active: frozenset[Node]
    hidden: frozenset[Node]

    @classmethod
    def of(cls, body: Sequence[Node], tape: Tape, tracked: frozenset[str]) -> Survey:
        """Return the survey of a body, where the inputs of some names are differentiated."""
        active: set[Node] = set()
        _Activity(tape, tracked, active).visit(body)
        hidden = {n for region in _regions(body) for n in (*region.parameters, *region.body)}
        return cls(frozenset(active), frozenset(hidden))


class _Activity:
    """Marks the floats that come of reads of tracked inputs."""

    def __init__(self, tape: Tape, tracked: frozenset[str], active: set[Node]) -> None:
        self._tape, self._tracked, self._active = tape, tracked, active

    def visit(self, body: Sequence[Node]) -> None:
        for node in body:
            if node.kind == "for":
                self._loop(node)
            elif node.kind == "if":
                for region in node.regions:
                    self.visit(region.body)
            elif self._is_active(node):
                self._active.add(node)

    def _is_active(self, node: Node) -> bool:
        if node.type is None or not node.type.dtype.is_float:
            return False
        read = self._tape.reads.get(node)
        if read is not None:
            return read.name in self._tracked
        if node.kind == "result":
            return any(x in self._active for x in _sources(node))
        applied = self._tape.applied.get(node)
        operands = node.inputs if applied is None else applied.operands
        return not self._active.isdisjoint(operands)

    def _loop(self, node: Node) -> None:
        (region,) = node.regions
        carried = list(zip(region.parameters[1:], node.inputs[2:], region.yields, strict=True))
        while True:
            count = len(self._active)
            for parameter, initial, end in carried:
                is_float = parameter.value_type.dtype.is_float
                if is_float and not self._active.isdisjoint((initial, end)):
                    self._active.add(parameter)
            self.visit(region.body)
            if len(self._active) == count:
                return


def _sources(result: Node) -> Iterator[Node]:
    """What a result of a control node may be."""
    control, position = result.inputs[0], result.attr
    for region in control.regions:
        yield region.yields[position]
    if control.kind == "for":
        yield control.inputs[2 + position]


def _regions(body: Sequence[Node]) -> Iterator[Region]:
    for node in body:
        for region in node.regions:
            yield region
            yield from _regions(region.body)


def writes_in(body: Sequence[Node], tape: Tape) -> bool:
    """Whether anything is written in a body, or in a region of it."""
    return any(
        node in tape.writes or any(writes_in(r.body, tape) for r in node.regions) for node in body
    )


def puts_on_a_way(body: Sequence[Node], tape: Tape, name: str) -> int:
    """Return how often an invocation puts a value into an output at most; 2 for many times."""
    count = 0
    for node in body:
        write = tape.writes.get(node)
        if write is not None and write.how == "put" and write.cotangent.name == name:
            count += 1
        inner = [puts_on_a_way(r.body, tape, name) for r in node.regions]
        if inner:
            count += max(inner) * (2 if node.kind == "for" else 1)
    return min(count, 2)
