"""A walk over a kernel that finds the intervals of what its loops carry, and all its accesses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrite.kernel.bounds.interval import Interval, joined
from pyrite.kernel.bounds.linear import Linear, linear
from pyrite.kernel.bounds.values import Facts, Values, View, anything, is_whole
from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.kernel.text import line_of
from pyrite.types import Number

_ACCESSES = ("load", "store", "atomic")

#: Rounds after which a carried value that still grows is taken for anything.
_ROUNDS = 3


#: So many selections within another are looked at side by side.
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Unproved:
    """An access of which it is not known that it stays inside: where it may be, and may touch."""

    line: str
    found: Interval
    allowed: Interval


def unproved(
    kernel: Kernel,
    grid: Sequence[int],
    arguments: Mapping[Node, Number],
    extents: Mapping[Node, Interval],
) -> list[Unproved]:
    """Return the accesses of a launch that are not proved, in order.

    ``arguments`` and ``extents`` are by parameter: its number, and the elements that it may touch.
    """
    found = []
    for node, where in addresses(kernel, grid, arguments):
        memory = node.inputs[0]
        allowed = extents[memory] if memory.kind == "buffer" else Interval(0, memory.attr[1] - 1)
        if not where.is_inside(allowed):
            found.append(Unproved(line_of(kernel, node), where, allowed))
    return found


def addresses(
    kernel: Kernel, grid: Sequence[int], arguments: Mapping[Node, Number]
) -> list[tuple[Node, Interval]]:
    """Return the accesses of a launch, each with elements that it does not leave."""
    values = Values(kernel, grid, arguments)
    analysis = _Analysis(values)
    analysis.region(kernel.body, ())
    found = []
    for node, facts in analysis.accesses:
        conditions = facts + _mask_of(node)
        values.deepest = len(conditions) + _DEPTH
        found.append((node, _address(node, View(values, conditions))))
    return found


def accesses(kernel: Kernel) -> int:
    """Return how many accesses a kernel has."""
    return sum(node.kind in _ACCESSES for node in kernel.walk())


def _mask_of(node: Node) -> Facts:
    if node.kind == "atomic":
        mask = node.inputs[-1:] if node.attr[1] else ()
    else:
        mask = node.inputs[2:3] if node.kind == "load" else node.inputs[3:4]
    return tuple((m, True) for m in mask)


def _address(node: Node, view: View) -> Interval:
    """Return the interval of the elements that an access touches."""
    if view.is_never:
        return Interval(0, -1)
    index = node.inputs[1]
    width = 1 if node.kind == "atomic" else (node if node.kind == "load" else node.inputs[2])
    count = width if isinstance(width, int) else width.value_type.width
    form = view.form(index)
    if index.value_type.width == 1 and count > 1:
        form = form.plus(Linear({}, tuple(range(count))))
        return view.of_sum(form)
    return view.of(index).meet(view.of_sum(form))


class _Analysis:
    """A walk over a kernel: it learns the values of a launch, and notes all accesses."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.accesses: list[tuple[Node, Facts]] = []
        self.results: dict[Node, list[Interval]] = {}

    def region(self, region: Region, facts: Facts) -> None:
        for node in region.body:
            if node.kind in _ACCESSES:
                self.accesses.append((node, facts))
            elif node.kind == "if":
                self.branch(node, facts)
            elif node.kind == "for":
                self.counted(node, facts)
            elif node.kind == "while":
                self.conditional(node, facts)
            elif node.kind == "result":
                self.values.learn([(node, self.results[node.inputs[0]][node.attr])])

    def branch(self, node: Node, facts: Facts) -> None:
        sides = []
        for region, truth in zip(node.regions, (True, False), strict=True):
            inside = (*facts, (node.inputs[0], truth))
            self.region(region, inside)
            view = View(self.values, inside)
            if not view.is_never:
                sides.append([view.of(y) for y in region.yields])
        if not sides:  # Nothing gets here, so what comes of it is nobody's: any interval holds.
            sides.append([anything(y) for y in node.regions[0].yields])
        self.results[node] = [joined(*found) for found in zip(*sides, strict=True)]

    def counted(self, node: Node, facts: Facts) -> None:
        (region,) = node.regions
        counter, *carried = region.parameters
        view = View(self.values, facts)
        start, stop = view.of(node.inputs[0]), view.of(node.inputs[1])
        step = node.attr[0]
        last = stop.high - 1
        if start.low == start.high and last >= start.low:
            last = start.low + (last - start.low) // step * step
        self.values.counters[counter] = math.gcd(self.values.divisor(node.inputs[0]), step)
        self.values.learn([(counter, Interval(start.low, max(last, start.low)))])
        rounds = max(0, -(-(stop.high - start.low) // step))
        initial = [view.of(i) for i in node.inputs[2:]]
        # In the body the counter is below the stop, whatever that is.
        bounds = (("le", node.inputs[0], counter), ("lt", counter, node.inputs[1]))
        inside = (*facts, *((_condition(*bound), True) for bound in bounds))
        self.carry(node, region, carried, initial, inside, rounds)

    def conditional(self, node: Node, facts: Facts) -> None:
        condition, body = node.regions
        view = View(self.values, facts)
        initial = [view.of(i) for i in node.inputs]
        self.values.alias.update(zip(body.parameters, condition.parameters, strict=True))
        goes_on = (condition.yields[0], True)
        self.carry(node, body, condition.parameters, initial, (*facts, goes_on), None)
        self.region(condition, facts)

    def carry(
        self, node: Node, region: Region, parameters: Sequence[Node], initial: list[Interval],
        facts: Facts, rounds: int | None,
    ) -> None:  # fmt: skip
        """Find intervals that hold at the beginning of each round, and walk the body with them."""
        steady = [
            self.steps(p, y, i, rounds)
            for p, y, i in zip(parameters, region.yields, initial, strict=True)
        ]
        now = [s or i for s, i in zip(steady, initial, strict=True)]
        before = len(self.accesses)
        for n in itertools.count():
            del self.accesses[before:]
            self.values.learn(zip(parameters, now, strict=True))
            self.region(region, facts)
            view = View(self.values, facts)
            after = [
                s or i.join(view.of(y)) for s, i, y in zip(steady, now, region.yields, strict=True)
            ]
            if after == now:
                break
            # What still grows after some rounds may become anything, once.
            now = [
                a if a == i or n < _ROUNDS else anything(p)
                for p, a, i in zip(parameters, after, now, strict=True)
            ]
        self.results[node] = now

    def steps(self, p: Node, y: Node, first: Interval, rounds: int | None) -> Interval | None:
        """Return the interval of a value that grows by the same number each round."""
        if rounds is None or not is_whole(p):
            return None
        form = linear(y)
        if form.terms != {p: 1} or len(set(form.constants)) != 1:
            return None
        grown = form.constants[0] * rounds
        found = first.join(Interval(first.low + grown, first.high + grown))
        return found if found.is_inside(anything(p)) else anything(p)


def _condition(name: str, x: Node, y: Node) -> Node:
    """Return a condition that stands nowhere."""
    return Node("alu", None, (x, y), name)
