"""Which folds of a region share a kernel: the most that are over the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.body.group import (
    Group,
    can_add,
    passes,
    reads_position,
)
from pyrite.backend.cube.body.points import Space
from pyrite.backend.cube.body.region import (
    Region,
    ancestors,
    is_fold,
)
from pyrite.backend.graph import Node


def best_group(region: Region, wanted: Sequence[int], siblings: Sequence[int] = ()) -> Group:
    """Return the folds that may run next, the most that share their rows, and what they allow.

    What is wanted is made of one at least; siblings join them if they are over the same rows.
    """
    folds = [n for n in region.nodes if is_fold(n)]
    before = {n: _folds_before(region, n) for n in folds}
    needed = set(ancestors(region.graph, wanted, set(region.leaves)))
    groups = []
    for key in dict.fromkeys(_rows_of(region, n) for n in folds if n in needed):
        members: list[Node] = []
        for n in folds:
            order = region.reduced(members[0] if members else n)
            if _meets(region, n, key, order) and before[n] <= set(members):
                members.append(n)
        if members:
            groups.append(members)
    best = max(groups, key=lambda group: sum(n in needed for n in group))
    alone = [n for n in best if n in needed]
    group = _group(region, alone, wanted)
    if not siblings:
        return group
    joined = _group(region, best, [*wanted, *siblings])
    # What takes another pass over a row is no gain.
    is_free = len(passes(region, joined)) == len(passes(region, group))
    return joined if is_free else _group(region, alone, [*wanted, *siblings])


#: The atoms along which rows lie, and those of a row.
Sides = tuple[frozenset[int], frozenset[int]]


def _rows_of(region: Region, node: Node) -> Sides:
    return frozenset(region.kept(node)), frozenset(region.reduced(node))


def _meets(
    region: Region, node: Node, key: tuple[frozenset[int], frozenset[int]], order: Space
) -> bool:
    """Whether a fold is over the same rows, in the same order if it asks for positions."""
    if _rows_of(region, node) != key:
        return False
    return not reads_position(node) or region.reduced(node) == order


def _folds_before(region: Region, node: Node) -> set[Node]:
    made = ancestors(region.graph, node.values, set(region.leaves))
    return {n for n in made if is_fold(n)}


def _group(region: Region, folds: Sequence[Node], wanted: Sequence[int]) -> Group:
    graph, leaves = region.graph, set(region.leaves)
    rows, length = region.kept(folds[0]), region.reduced(folds[0])
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
    sums = _sums(region, members, rows, length, rest)
    summed = {n.first for n in sums}
    rest = [v for v in rest if v not in summed]
    results = {v for n in folds for v in n.results}
    later = ancestors(graph, rest, leaves | results | summed)
    used = {v for n in later for v in n.values} | set(rest)
    numbers += [v for n in folds for v in n.results if v in used and v not in numbers]
    return Group(tuple(folds), rows, length, tuple(elements), tuple(numbers), sums)


def _sums(
    region: Region, members: set[Node], rows: Space, length: Space, wanted: Sequence[int]
) -> tuple[Node, ...]:
    """Return the folds over the rows of what is made along them, of which something is wanted."""
    other = frozenset(length), frozenset(rows)
    needed = ancestors(region.graph, wanted, set(region.leaves))
    return tuple(
        n for n in needed
        if n not in members and is_fold(n) and _rows_of(region, n) == other
        and _folds_before(region, n) <= members and can_add(region, n, members)
    )  # fmt: skip
