"""The body of a composite as kernels: what can be one is one, whoever wrote it.

The graph of a body is cut into regions: elementwise ops, folds and moves that name axes anew.  In
a region folds over the same rows are one kernel with all that hangs on them, what no fold stands
before is another, and a fold that fits no rows runs by its own skeleton.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from pyrite.backend.cube.body.epilogue import TailSearch, epilogue_of
from pyrite.backend.cube.body.evaluate import weight_of
from pyrite.backend.cube.body.group import (
    KEPT_WEIGHT,
    Group,
    can_add,
    made_after,
    made_before,
    passes,
    reads_position,
)
from pyrite.backend.cube.body.points import Space, leaves_of, map_points
from pyrite.backend.cube.body.region import (
    CutError,
    Region,
    ancestors,
    inside_of,
    is_fold,
    is_view,
)
from pyrite.backend.cube.body.rows import outer_of, run_group, run_parts
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import FINISHING, Input, Lowering, lowering_of
from pyrite.backend.cube.skeleton.elementwise import elementwise
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Graph, Literal, Node, Part, reaching
from pyrite.backend.graph import Input as GraphInput
from pyrite.backend.tracing import traced
from pyrite.op import Attributes, Constant, Op
from pyrite.types import TensorType

#: Fewer rows than that leave most of a GPU idle, if they are long.
FEW_GROUPS = 256
LONG = 1 << 14

#: A value that takes more nodes of a region is computed in steps.
MOST_NODES = 200

#: What is made of so many times its own bytes is better read than made again.
WIDE = 1.25


def _nbytes(type: TensorType) -> int:
    return type.size * type.dtype.itemsize


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


class GraphRun:
    """One run of a graph: the values that lie in memory by now, by their numbers."""

    #: Whether what follows a node is computed by its kernel, where that takes it.
    has_tails = False

    def __init__(
        self, launcher: Launcher, name: str, graph: Graph, inputs: Sequence[Input]
    ) -> None:
        self.launcher, self.name, self.graph = launcher, name, graph
        self.real = {value: _given(i, inputs) for value, i in enumerate(graph.inputs)}
        self._heavy: dict[Node, bool] = {}
        self._inside = inside_of(graph)
        #: Nodes outside of regions that were run, with all that needs their results or without.
        self._done: set[Node] = set()

    def realise_results(self) -> None:
        """Have the results of the graph lie in memory, in the order in which they were asked for.

        A fold that is one is run as soon as its operand is there, which is read while it is near.
        """
        needed = reaching(self.graph)
        wanted = set(self.graph.results)
        folds = [
            n for n in (self.graph.nodes[i] for i in needed)
            if is_fold(n) and not wanted.isdisjoint(n.results)
        ]  # fmt: skip
        for node in (self.graph.nodes[i] for i in needed):
            if node in self._inside:
                continue
            self.realise(node.values)
            if node not in self._done:
                self._run_alone(node)
            for fold in [f for f in folds if self._base(f.values[0]) in self.real]:
                self.realise([v for v in fold.results if v in wanted])
                folds.remove(fold)
        self.realise(self.graph.results)

    def realise(self, wanted: Sequence[int]) -> None:
        """Have values lie in memory."""
        wanted = list(dict.fromkeys(wanted))
        while any(value not in self.real for value in wanted):
            nodes = ancestors(self.graph, wanted, self.real.keys())
            ready = [n for n in nodes if self._is_moved(n)]
            if ready:
                self._run_alone(ready[0])
                continue
            outside = next((n for n in nodes if n not in self._inside), None)
            if outside is not None:
                self.realise(outside.values)
                if outside not in self._done:
                    self._run_alone(outside)
                continue
            bases = list(dict.fromkeys(self._base(v) for v in wanted if v not in self.real))
            if len(nodes) > MOST_NODES and (first := self._first_half(bases)):
                bases = [first]
            parts = self._apart(bases)
            if len(parts) == 1:
                self._step(bases)
                continue
            for part in parts:
                self.realise(part)

    def _apart(self, wanted: Sequence[int]) -> list[list[int]]:
        """Return some values by parts that share nothing of what they are made of."""
        if len(wanted) == 1:
            return [list(wanted)]
        # Each value points to one that shares with it, up to the last of a part.
        later: dict[int, int] = {}
        owner: dict[Node | int, int] = {}
        for value in wanted:
            nodes = ancestors(self.graph, [value], self.real.keys())
            own: list[Node | int] = [*nodes, *self._tensors_read(nodes)]
            for x in own:
                last = _end(later, owner.get(x, value))
                if last != value:
                    later[last] = value
                owner[x] = value
        parts: dict[int, list[int]] = {}
        for value in wanted:
            parts.setdefault(_end(later, value), []).append(value)
        return list(parts.values())

    def _tensors_read(self, nodes: Sequence[Node]) -> set[int]:
        """Return the tensors in memory, but for single elements, that nodes read."""
        read = {v for node in nodes for v in node.values if v in self.real}
        return {v for v in read if self.graph.types[v].size > 1}

    def _first_half(self, wanted: Sequence[int]) -> int | None:
        """Return what is better in memory first of values that take too many nodes each.

        A compiler takes for a kernel of a thousand ops much longer than for ten of a hundred.
        """
        for value in wanted:
            nodes = ancestors(self.graph, [value], self.real.keys())
            if len(nodes) > MOST_NODES:
                return self._base(_largest_part(nodes))
        return None

    def _base(self, value: int) -> int:
        """Return what is to be computed for a value to lie in memory: of a view the operand."""
        node = self.graph.makers[value]
        while node is not None and is_view(node) and value not in self.real:
            (value,) = node.values
            node = self.graph.makers[value]
        return value

    def _is_moved(self, node: Node) -> bool:
        """Whether a node is but a view of what lies in memory."""
        return is_view(node) and all(v in self.real for v in node.values)

    def _step(self, wanted: Sequence[int]) -> None:
        """Run kernels of the region of some values, or what has to be in memory before."""
        nodes = ancestors(self.graph, wanted, self.real.keys())
        siblings: Sequence[int] = ()
        if any(is_fold(n) for n in nodes):
            left = ancestors(self.graph, self.graph.results, self.real.keys())
            siblings = _siblings(self._inside, nodes, left)
        wanted = [*wanted, *self._dear(nodes, wanted, siblings)]
        step = RegionRun.of(self, nodes, wanted, siblings)
        stop = step.run()
        new = {v: x for v, x in step.made.items() if v not in self.real}
        self.note(ancestors(self.graph, list(new), self.real.keys()))
        self.real |= new
        if stop is None:
            return
        if stop.is_wanted:
            self.realise(stop.node.results)
            return
        missing = [v for v in stop.node.values if v not in self.real]
        self.realise(missing)
        if stop.is_alone or not missing:
            self._run_alone(stop.node)

    def _dear(
        self, nodes: Sequence[Node], wanted: Sequence[int], siblings: Sequence[int]
    ) -> list[int]:
        """Return what takes longer to make again than to read, and other kernels want too."""
        done = self.real.keys() | set(wanted) | set(siblings)
        left = ancestors(self.graph, self.graph.results, done)
        used = {v for n in left for v in n.values} | set(self.graph.results)
        # What is read by kernels that are no rows', for which a number of a row is not at hand.
        apart = {v for n in left if n not in self._inside or self._is_heavy(n) for v in n.values}
        reads: dict[int, frozenset[int]] = {v: frozenset((v,)) for v in wanted}
        found: list[int] = []
        for node in nodes:
            of = frozenset().union(*(reads.get(v, frozenset((v,))) for v in node.values))
            for v in node.results:
                if v in reads:
                    continue
                is_kept = v in used and self._is_dear(node, of, is_apart=v in apart)
                reads[v] = frozenset((v,)) if is_kept else of
                found += [v] * is_kept
        return found

    def _is_dear(self, node: Node, reads: Set[int], *, is_apart: bool) -> bool:
        """Whether making its results again, of what is read for it, takes longer than reading."""
        if is_view(node):
            return False
        if is_fold(node) or self._is_heavy(node):
            return True
        types = self.graph.types
        (type,) = node.types
        is_stretched = any(1 < types[v].size < type.size for v in reads)
        is_wide = sum(_nbytes(types[v]) for v in reads) > WIDE * _nbytes(type)
        return is_wide or (is_stretched and is_apart)

    def _is_heavy(self, node: Node) -> bool:
        """Whether a node is an elementwise op of many instructions."""
        found = self._heavy.get(node)
        if found is None:
            is_map = node.op.is_elementwise
            found = is_map and weight_of(node, self.graph.types) >= KEPT_WEIGHT
            self._heavy[node] = found
        return found

    def _run_alone(self, node: Node) -> None:
        """Run a node by its own kernels, and what follows it with them where they take that."""
        self._done.add(node)
        inputs = [
            self.real[x] if isinstance(x, int)
            else Constant(x.value, TensorType((), x.dtype)) if isinstance(x, Literal) else x
            for x in node.operands
        ]  # fmt: skip
        lowering = self.lowering(node, inputs)
        if self._run_with_tail(node, lowering, inputs):
            return
        results = lowering(self.launcher, node.op, inputs, node.attrs, node.types)
        self.real.update(zip(node.results, results, strict=True))
        self.note([node])

    def _run_with_tail(self, node: Node, lowering: Lowering, inputs: Sequence[Input]) -> bool:
        """Run a node and what follows it by one kernel, if its kernels take that."""
        finish = FINISHING.get(lowering) if self.has_tails else None
        if finish is None:
            return False
        left = ancestors(self.graph, self.graph.results, self.real.keys())
        search = TailSearch(self.graph, self.real, self._inside, left)
        tail = search.of(node, self.launcher.machine)
        if tail is None:
            return False
        epilogue, made = epilogue_of(self.launcher, self.graph, tail, self.real)
        if not finish(self.launcher, node.op, inputs, node.attrs, node.types, epilogue):
            return False
        self.real |= made
        self.note([node, *tail.nodes])
        return True

    def name_of(self, nodes: Sequence[Node]) -> str:
        """Return the name of a kernel of some nodes: in a body that of the composite."""
        return self.name

    def note(self, nodes: Sequence[Node]) -> None:
        """Hear which nodes were run last: of no matter here."""

    def lowering(self, node: Node, inputs: Sequence[Input]) -> Lowering:
        """Return what runs a node alone: in a body there are no composites."""
        return lowering_of(node.op) or elementwise


class Stop(NamedTuple):
    """A node that fits no kernel of its region: its operands are to be in memory first.

    With ``is_alone`` it then runs by kernels of its own; with ``is_wanted`` it is its results that
    are to be there first.
    """

    node: Node
    is_alone: bool
    is_wanted: bool


class RegionRun:
    """One step in a region: which values become real by the kernel that goes furthest.

    It sees the nodes of the region as a graph of their own, so that its kernels do not depend on
    where they stand.
    """

    def __init__(
        self, launcher: Launcher, name: str, nodes: Sequence[Node], part: Part,
        wanted: Sequence[int], siblings: Sequence[int], real: dict[int, Input],
    ) -> None:  # fmt: skip
        self.launcher, self.name, self.machine = launcher, name, launcher.machine
        self._nodes = nodes
        self._part = part
        self._wanted = wanted
        self._siblings = siblings
        self._real = real

    @classmethod
    def of(
        cls, run: GraphRun, nodes: Sequence[Node], wanted: Sequence[int], siblings: Sequence[int]
    ) -> RegionRun:
        """Return the step of a run in the region of some nodes.

        Siblings are folds besides that may be made along with them.
        """
        if siblings:
            nodes = ancestors(run.graph, [*wanted, *siblings], run.real.keys())
        part = Part.of(run.graph, nodes)
        real = {n: run.real[value] for n, value in enumerate(part.leaves)}
        return cls(
            run.launcher, run.name_of(nodes), nodes, part, [part.numbers[v] for v in wanted],
            [part.numbers[v] for v in siblings], real,
        )  # fmt: skip

    @property
    def made(self) -> dict[int, Input]:
        """What lies in memory now, by its number in the whole graph."""
        return {old: self._real[n] for old, n in self._part.numbers.items() if n in self._real}

    def run(self) -> Stop | None:
        """Run a kernel; or return what stops that."""
        nodes, graph = self._part.graph.nodes, self._part.graph
        try:
            region = Region(graph, nodes, tuple(range(len(self._part.leaves))))
        except CutError as error:
            return self._stop(error.node)
        if not any(is_fold(n) for n in nodes):
            beyond = map_points(self.launcher, self.name, region, self._wanted, self._real)
            # One that is made of too many tensors at once stops it.
            if beyond is None:
                return None
            return self._stop(next(n for n in nodes if beyond in n.results))
        group = self._within_limits(region, best_group(region, self._wanted, self._siblings))
        if self._fits(region, group):
            if first := made_before(region, group):
                return self._stop(first, is_wanted=True)
            if (last := made_after(region, group)) and self._is_broken(region, group):
                return self._stop(last)
            run_group(self.launcher, self.name, region, group, self._real)
            return None
        group = replace(group, folds=tuple(passes(region, group)[0]), elements=(), sums=())
        if self._runs_in_parts(region, group):
            return None
        return self._stop(group.folds[0], is_alone=True)

    def _stop(self, node: Node, *, is_alone: bool = False, is_wanted: bool = False) -> Stop:
        """Return a node of the part as one of the whole graph."""
        return Stop(self._nodes[self._part.graph.nodes.index(node)], is_alone, is_wanted)

    def _within_limits(self, region: Region, group: Group) -> Group:
        """Return a group without what takes more tensors than a kernel may have."""
        most = self.machine.buffers
        if self._tensors_of(region, group) <= most:
            return group
        results = tuple(v for n in group.folds for v in n.results)
        return replace(group, elements=(), numbers=results, sums=())

    def _tensors_of(self, region: Region, group: Group) -> int:
        wanted = [*group.elements, *group.numbers, *(n.first for n in group.sums)]
        return len(wanted) + len(leaves_of(region, wanted, self._real))

    def _fits(self, region: Region, group: Group) -> bool:
        """Whether a kernel over rows is the way: they are many, or short, and more than one fold.

        A fold alone whose elements are no neighbours runs by the skeleton of folds, which goes over
        memory as it lies.
        """
        machine = self.machine
        rows, length = region.atoms.count(group.rows), region.atoms.count(group.length)
        if self._tensors_of(region, group) > machine.buffers:
            return False
        if length == 1 and machine.kind == "gpu":
            # Drivers see that a mean of one is the number, and make 0 of x - x, infinite or not.
            return False
        few = 2 * machine.threads if machine.kind == "cpu" else FEW_GROUPS
        if rows < few and length > LONG:
            return False
        has_more = bool(group.elements or group.sums) or len(passes(region, group)) > 1
        return has_more or (self._is_along(region, group) and not self._is_broken(region, group))

    def _is_broken(self, region: Region, group: Group) -> bool:
        """Whether rows lie in pieces, which are better folded one by one."""
        pieces = outer_of(region, group, self._real, parts=0)
        return bool(pieces) and not any(reads_position(n) for n in group.folds)

    def _runs_in_parts(self, region: Region, group: Group) -> bool:
        """Run folds of few or broken rows part by part, if they can be cut."""
        if any(reads_position(n) for n in group.folds) or not self._is_along(region, group):
            return False
        machine = self.machine
        most = 8 * machine.threads if machine.kind == "cpu" else FEW_GROUPS
        rows = region.atoms.count(group.rows)
        outer = outer_of(region, group, self._real, -(-most // rows))
        if not outer:
            return False
        whole = replace(group, length=region.reduced(group.folds[0]))
        run_parts(self.launcher, self.name, region, whole, outer, self._real)
        return True

    def _is_along(self, region: Region, group: Group) -> bool:
        """Whether the elements that a fold joins are neighbours in memory."""
        last = group.length[-1:]
        return any(
            region.atoms.strides(region.axes(v), t.strides).get(a) == 1
            for v in region.leaves
            if isinstance(t := self._real[v], CubeTensor)
            for a in last
        )


def _given(wanted: GraphInput, inputs: Sequence[Input]) -> Input:
    """Return an input of a graph: a number in the dtype that it takes in the body."""
    if wanted.value is not None:
        return Constant(wanted.value, wanted.type)
    x = inputs[wanted.position]
    if not wanted.is_number:
        return x
    assert isinstance(x, Constant)
    return x.with_type(wanted.type)


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


def _largest_part(nodes: Sequence[Node]) -> int:
    """Return the value that takes most of some nodes, but not too many."""
    # The nodes of which a value is made, as bits.
    made: dict[int, int] = {}
    best = most = 0
    for n, node in enumerate(nodes):
        of = 1 << n
        for v in node.values:
            of |= made.get(v, 0)
        made.update(dict.fromkeys(node.results, of))
        if most < (count := of.bit_count()) <= MOST_NODES:
            best, most = node.first, count
    return best


def _end(later: Mapping[int, int], value: int) -> int:
    while value in later:
        value = later[value]
    return value


def _siblings(inside: Set[Node], nodes: Sequence[Node], left: Sequence[Node]) -> list[int]:
    """Return folds that need no more than lies in memory and what some nodes make, which fold too.

    ``left`` are all nodes that are still to run, ``inside`` those that a region may have.
    """
    own = set(nodes)
    made = {v for n in nodes for v in n.results if not is_view(n)}
    out = {v for n in left for v in n.results}
    # Of each value to come: whether it is made of what is there, and of something in ``made``.
    ready: dict[int, bool] = {}
    found: list[int] = []
    for node in left:
        coming = [v for v in node.values if v in out]
        is_ready = node in inside and all(v in ready for v in coming)
        if not is_ready:
            continue
        shares = any(v in made or ready[v] for v in coming)
        ready.update(dict.fromkeys(node.results, shares))
        if shares and is_fold(node) and node not in own:
            found += node.results
    return found


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
