"""Folds that share their rows: which pass over a row makes which, and what is kept between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from pyrite.backend.cube.body.evaluate import weight_of
from pyrite.backend.cube.body.points import Space
from pyrite.backend.cube.body.region import Region, ancestors, reduced_axes
from pyrite.backend.cube.skeleton.fold import FoldOrder, KernelFold, fold_order, has_order
from pyrite.backend.cube.skeleton.row import RowsConfig
from pyrite.backend.graph import Node
from pyrite.kernel.machine import Machine
from pyrite.op import rules_key
from pyrite.op.rule import Fold
from pyrite.op.rule.fold import BoundFold

#: A value whose rule takes fewer instructions is made again where it is wanted again.
KEPT_WEIGHT = 12


@dataclass(frozen=True, slots=True)
class Abreast:
    """So many rows side by side, of which a vector has an element each.

    All tensors have a ``line`` of rows on their last axis.  With ``is_turned`` elements of rows are
    neighbours in all of them, so they are turned in registers, and so are those that are made.
    """

    width: int
    line: int
    is_turned: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Folds over the same rows, and what is written with them.

    ``elements`` are values of each element of a row, ``numbers`` of each row.  ``sums`` are folds
    the other way, over the rows, of what is made along a row.  With ``is_part`` a row is part of
    one, and what is written are the states of the folds.  ``order`` is the one in which its folds
    join elements, None where any gives the same bits.  ``abreast`` says how rows are gone over side
    by side, if they are.
    """

    folds: tuple[Node, ...]
    rows: Space
    length: Space
    elements: tuple[int, ...]
    numbers: tuple[int, ...]
    sums: tuple[Node, ...] = ()
    is_part: bool = False
    order: FoldOrder | None = None
    abreast: Abreast | None = None


def order_in(region: Region, node: Node, machine: Machine) -> FoldOrder | None:
    """Return the order of a fold; None where any gives the same bits, and on GPUs."""
    if machine.kind == "gpu":
        return None
    shape, axes = region.graph.types[node.values[0]].shape, reduced_axes(region.graph, node)
    return fold_order(kernel_fold_of(region, node, 0), shape, axes, machine)


def has_own_order(region: Region, node: Node) -> bool:
    """Whether a fold has other bits in another order."""
    return has_order(kernel_fold_of(region, node, 0), 0)


def kernel_fold_of(region: Region, node: Node, count: int) -> KernelFold:
    """Return the fold of a node over so many elements, and the name of its kernels."""
    return KernelFold(node.op.name, bound_fold(region, node, count), rules_key(node.op))


def bound_fold(
    region: Region, node: Node, count: int, config: RowsConfig | None = None
) -> BoundFold:
    """Return the fold of a node over so many elements, in the form that suits a config."""
    rule = node.op.rule
    assert isinstance(rule, Fold)
    dtype = region.graph.types[node.values[0]].dtype.compute
    # Lanes that share a row have registers for one value of state.
    if config is not None and config.lanes == 1:
        form = rule.simpler if count <= SHORT * config.width else rule.larger
        rule = (form and form(dtype)) or rule
    return rule.of(dtype, [t.dtype for t in node.types], node.attrs, count)


#: In rows of so many vectors joining their elements costs more than taking them in.
SHORT = 4


def reads_position(node: Node) -> bool:
    """Whether a fold asks where an element is in its row."""
    rule = node.op.rule
    assert isinstance(rule, Fold)
    return rule.reads_position


def can_add(region: Region, node: Node, folds: set[Node]) -> bool:
    """Whether what a fold gives of some rows is a state, which the same fold joins once more.

    Lines of a row hold states in the dtype of its own folds.
    """
    rule = node.op.rule
    assert isinstance(rule, Fold)
    bound = bound_fold(region, node, 1)
    dtype = region.graph.types[next(iter(folds)).values[0]].dtype.compute
    is_plain = rule.take is _PLAIN["take"] and rule.end is _PLAIN["end"]
    return is_plain and [d for _, d in bound.start] == [dtype]


_PLAIN = {field.name: field.default for field in fields(Fold)}


def passes(region: Region, group: Group) -> list[list[Node]]:
    """Return the folds by the pass over the row in which they are made.

    A fold waits as long as it can: then it reads what another one of its pass reads.
    """
    before: dict[int, int] = {}
    for node in region.nodes:
        depth = max((before.get(v, 0) for v in node.values), default=0)
        before.update(dict.fromkeys(node.results, depth + (node in group.folds)))
    last = max(before[n.first] for n in group.folds) - 1
    latest: dict[int, int] = {}
    found: list[list[Node]] = [[] for _ in range(last + 1)]
    for node in reversed(region.nodes):
        turn = min((latest.get(v, last) for v in node.results), default=last)
        if node in group.folds:
            found[turn].insert(0, node)
            turn -= 1
        for v in node.values:
            latest[v] = min(latest.get(v, last), turn)
    return found


def writes_in_last(region: Region, group: Group) -> bool:
    """Whether what lies along a row is written in the pass that makes its last folds.

    These are of no matter to it, as the sum of a gradient that is made of other sums.  Only in the
    order of rows, in which a pass goes over neighbours, and on processors.
    """
    order = group.order
    if not group.elements or group.sums or group.is_part or order is None:
        return False
    last = passes(region, group)[-1]
    made_of = ancestors(region.graph, group.elements, set(region.leaves))
    return order.along == "rows" and set(last).isdisjoint(made_of)


def sweeps(region: Region, group: Group) -> int:
    """Return how many times a row is gone over."""
    writes = bool(group.elements or group.sums) and not writes_in_last(region, group)
    return len(passes(region, group)) + writes


def elements_of(
    region: Region, group: Group, wanted: Sequence[int], *, but: int | None = None
) -> set[int]:
    """Return the values along the row that a pass makes to have some, ``but`` one and its own."""
    along = set(group.length)
    nodes = {v: node for node in region.nodes for v in node.results}
    found: set[int] = set()
    left = list(wanted)
    while left:
        value = left.pop()
        if value in found or value not in nodes or value == but:
            continue
        if along.isdisjoint(region.support(value)):
            continue
        found.add(value)
        left += nodes[value].values
    return found


def kept_value(region: Region, group: Group) -> int | None:
    """Return the value along the row that is made once and kept, if one is worth it."""
    found = [
        node.first
        for node in _heavy(region, group)
        if node.types[0].dtype.is_float and node.types[0].dtype is node.types[0].dtype.compute
    ]
    return found[-1] if found else None


def _heavy(region: Region, group: Group) -> list[Node]:
    """Return what is costly to make and needed along the row in more than one pass."""
    wanted = [[n.values[0] for n in folds] for folds in passes(region, group)]
    last = [*group.elements, *(node.values[0] for node in group.sums)]
    if writes_in_last(region, group):
        last += wanted.pop()
    needed = [elements_of(region, group, values) for values in (*wanted, last)]
    return [
        node
        for node in region.nodes
        if sum(node.first in values for values in needed) > 1
        and node.op.is_elementwise
        and weight_of(node, region.graph.types) >= KEPT_WEIGHT
    ]


#: Rows of more elements are too long to keep what is made before their first fold.
LONG_ROW = 1 << 12


def made_before(region: Region, group: Group) -> Node | None:
    """Return what is better in memory before a kernel over long rows begins, if anything is."""
    if region.atoms.count(group.length) <= LONG_ROW:
        return None
    made = _made_of_folds(region)
    found = [n for n in _heavy(region, group) if n.first not in made]
    return found[-1] if found else None


def made_after(region: Region, group: Group) -> Node | None:
    """Return what is costly, made of the folds and of no matter to them, if anything is."""
    made = _made_of_folds(region)
    own = elements_of(region, group, group.elements)
    folded = elements_of(region, group, [n.values[0] for n in (*group.folds, *group.sums)])
    return next(
        (
            node
            for node in region.nodes
            if node.first in own & made
            and node.first not in folded
            and node.op.is_elementwise
            and weight_of(node, region.graph.types) >= KEPT_WEIGHT
        ),
        None,
    )


def _made_of_folds(region: Region) -> set[int]:
    found: set[int] = set()
    for node in region.nodes:
        if isinstance(node.op.rule, Fold) or not found.isdisjoint(node.values):
            found.update(node.results)
    return found
