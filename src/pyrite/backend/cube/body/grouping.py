"""Which folds of a region share a kernel: the most that are over the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyrite.backend.cube.body.group import (
    Group,
    can_add,
    order_in,
    reads_position,
    sweeps,
)
from pyrite.backend.cube.body.points import Space
from pyrite.backend.cube.body.region import (
    Region,
    ancestors,
    is_fold,
)
from pyrite.backend.cube.skeleton.fold import FoldOrder
from pyrite.backend.graph import Node
from pyrite.cached import distinct
from pyrite.kernel.machine import Machine


def best_group(
    region: Region, wanted: Sequence[int], machine: Machine, lies_along: Callable[[Node], bool],
    siblings: Sequence[int] = (),
) -> Group:  # fmt: skip
    """Return the folds that may run next, the most that share their rows, and what they allow.

    What is wanted is made of one at least; siblings join them if they are over the same rows.
    Folds along columns share a kernel where what they join lies along memory.
    """
    folds = [n for n in region.nodes if is_fold(n)]
    orders = {n: order_in(region, n, machine) for n in folds}
    before = {n: _folds_before(region, n) for n in folds}
    needed = set(ancestors(region.graph, wanted, set(region.leaves)))
    groups = []
    for key in distinct(
        _RowsKey.of(region, n, orders[n], lies_along(n)) for n in folds if n in needed
    ):
        members: list[Node] = []
        # What runs by itself is no sibling's.
        for n in (n for n in folds if n in needed) if key.is_alone else folds:
            if key.takes(region, n, orders[n], members) and before[n] <= set(members):
                members.append(n)
        if members:
            groups.append(members)
    best = max(groups, key=lambda group: sum(n in needed for n in group))
    alone = [n for n in best if n in needed]
    group = _group(region, alone, wanted, orders)
    if not siblings:
        return group
    joined = _group(region, best, [*wanted, *siblings], orders)
    # What takes another pass over a row is no gain.
    is_free = sweeps(region, joined) == sweeps(region, group)
    return joined if is_free else _group(region, alone, [*wanted, *siblings], orders)


#: Of folds the order in which they join elements, None where any gives the same bits.
Orders = Mapping[Node, FoldOrder | None]


def _is_along_columns(order: FoldOrder | None) -> bool:
    return order is not None and order.along == "columns"


#: The atoms along which rows lie, and those of a row.
Sides = tuple[frozenset[int], frozenset[int]]


def _rows_of(region: Region, node: Node) -> Sides:
    return frozenset(region.kept(node)), frozenset(region.reduced(node))


@dataclass(frozen=True, slots=True)
class _RowsKey:
    """What folds have in common that may share a kernel: their rows, and their order, if any.

    ``space`` are the atoms of a row in that order.
    """

    rows: Sides
    order: FoldOrder | None
    space: Space | None
    #: Whether it runs by itself: elements that are joined along columns lie apart.
    is_alone: bool

    @classmethod
    def of(
        cls, region: Region, node: Node, order: FoldOrder | None, lies_along: bool
    ) -> _RowsKey:  # fmt: skip
        space = None if order is None else region.reduced(node)
        is_alone = _is_along_columns(order) and not lies_along
        return cls(_rows_of(region, node), order, space, is_alone)

    def takes(
        self, region: Region, node: Node, order: FoldOrder | None, members: Sequence[Node]
    ) -> bool:
        """Whether a fold may join others.

        It is over the same rows; in the same order if it has one, or asks for positions.
        """
        if _rows_of(region, node) != self.rows:
            return False
        space = region.reduced(node)
        if self.is_alone:
            return not members and (order, space) == (self.order, self.space)
        if order is not None:
            return (order, space) == (self.order, self.space)
        if not reads_position(node):
            return True
        return space == (self.space or region.reduced(members[0] if members else node))


def _folds_before(region: Region, node: Node) -> set[Node]:
    made = ancestors(region.graph, node.values, set(region.leaves))
    return {n for n in made if is_fold(n)}


def _group(region: Region, folds: Sequence[Node], wanted: Sequence[int], orders: Orders) -> Group:
    graph, leaves = region.graph, set(region.leaves)
    first = next((n for n in folds if orders[n] is not None), folds[0])
    rows, length = region.kept(first), region.reduced(first)
    order = orders[first]
    everything = set(rows) | set(length)
    elements: list[int] = []
    numbers: list[int] = []
    rest: list[int] = []
    members = set(folds)
    along = {v for n in ancestors(graph, [n.values[0] for n in folds], leaves) for v in n.results}
    for value in wanted:
        before = {n for n in ancestors(graph, [value], leaves) if is_fold(n)}
        space = set(region.space(value))
        if (before or value in along) and before <= members and space == everything:
            elements.append(value)
        elif before and before <= members and space == set(rows):
            numbers.append(value)
        else:
            rest.append(value)
    sums = _sums(region, members, rows, length, rest, orders)
    summed = {n.first for n in sums}
    rest = [v for v in rest if v not in summed]
    results = {v for n in folds for v in n.results}
    later = ancestors(graph, rest, leaves | results | summed)
    used = {v for n in later for v in n.values} | set(rest)
    numbers += [v for n in folds for v in n.results if v in used and v not in numbers]
    return Group(tuple(folds), rows, length, tuple(elements), tuple(numbers), sums, order=order)


def _sums(
    region: Region, members: set[Node], rows: Space, length: Space, wanted: Sequence[int],
    orders: Orders,
) -> tuple[Node, ...]:  # fmt: skip
    """Return the folds over the rows of what is made along them, of which something is wanted.

    With an order they are along columns: rows are gone over one after the other.
    """
    other = frozenset(length), frozenset(rows)
    needed = ancestors(region.graph, wanted, set(region.leaves))
    return tuple(
        n for n in needed
        if n not in members and is_fold(n) and _rows_of(region, n) == other
        and _folds_before(region, n) <= members and can_add(region, n, members)
        and (orders[n] is None or (_is_along_columns(orders[n]) and region.reduced(n) == rows))
    )  # fmt: skip
