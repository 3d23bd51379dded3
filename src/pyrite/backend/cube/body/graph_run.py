"""One run of a graph: what is made in which order, and what is in memory before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from pyrite.backend.cube.body.closing_fold import closing_folds
from pyrite.backend.cube.body.epilogue import TailSearch, epilogue_of
from pyrite.backend.cube.body.kept_values import KeptValues
from pyrite.backend.cube.body.region import (
    ancestors,
    inside_of,
    is_fold,
    is_view,
)
from pyrite.backend.cube.body.region_run import RegionRun, Stop
from pyrite.backend.cube.body.remaining import Remaining
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import FINISHING, Input, Lowering, lowering_of
from pyrite.backend.cube.skeleton.elementwise import elementwise
from pyrite.backend.cube.skeleton.elementwise_group import ElementwiseCall, grouped, map_apart
from pyrite.backend.graph import Graph, Literal, Node, Part, reaching
from pyrite.backend.graph import Input as GraphInput
from pyrite.op import Attributes, Constant
from pyrite.types import TensorType

#: A value that takes more nodes of a region is computed in steps.
MOST_NODES = 200


class GraphRun:
    """One run of a graph: the values that lie in memory by now, by their numbers."""

    #: Whether it is more than a body: then what follows a node is computed by its kernel, where
    #: that takes it, and elementwise kernels that share nothing are few launches.
    is_program = False

    def __init__(
        self, launcher: Launcher, name: str, graph: Graph, inputs: Sequence[Input]
    ) -> None:
        self.launcher, self.name, self.graph = launcher, name, graph
        self.real = {value: _given(i, inputs) for value, i in enumerate(graph.inputs)}
        self._inside = inside_of(graph)
        self._remaining = Remaining(graph, self.real)
        self._kept = KeptValues(graph, self._inside, self._remaining, launcher.machine)
        self._closing = closing_folds(graph, self._inside) if self.is_program else []
        #: Nodes outside of regions that were run, with all that needs their results or without.
        self._done: set[Node] = set()
        #: Values that were used up in the kernel that made them, and are not in memory.
        self._used_up: set[int] = set()

    def realise_results(self) -> None:
        """Have the results of the graph lie in memory, in the order in which they were asked for.

        A fold that is one, or that only small results are made of, is run as soon as its operand is
        there, which is read while it is near.
        """
        needed = reaching(self.graph)
        used = {*self.graph.results, *(v for n in needed for v in self.graph.nodes[n].values)}
        folds = self._early_folds(needed)
        for node in (self.graph.nodes[i] for i in needed):
            if node in self._inside:
                continue
            self.realise(node.values)
            if node not in self._done:
                self._run_alone(node)
            for fold in [f for f in folds if self._base(f.values[0]) in self.real]:
                self.realise([v for v in fold.results if v in used])
                folds.remove(fold)
        self.realise(self.graph.results)

    def _early_folds(self, needed: Sequence[int]) -> list[Node]:
        """Return folds that are run before their results are asked for."""
        wanted, closing = set(self.graph.results), set(self._closing)
        return [
            n for n in (self.graph.nodes[i] for i in needed)
            if is_fold(n) and (n in closing or not wanted.isdisjoint(n.results))
        ]  # fmt: skip

    def realise(self, wanted: Sequence[int]) -> None:
        """Have values lie in memory."""
        while wanted := [v for v in dict.fromkeys(wanted) if not self._is_made(v)]:
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
            bases = list(dict.fromkeys(self._base(v) for v in wanted))
            if len(nodes) > MOST_NODES and (first := self._first_half(bases)):
                bases = [first]
            parts = self._apart(bases)
            if len(parts) == 1:
                self._step(bases)
                continue
            for part in self._run_together(parts) if self.is_program else parts:
                self.realise(part)

    def _is_made(self, value: int) -> bool:
        return value in self.real or value in self._used_up

    def _run_together(self, parts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        """Run parts that one elementwise kernel each would compute by few launches.

        Closing folds are run before what is made of them.  Return the others.
        """
        for part in parts:
            self._run_closing_folds(part)
        parts = [[v for v in part if v not in self.real] for part in parts]
        left: list[Sequence[int]] = []
        steps: dict[int, RegionRun] = {}
        calls: list[ElementwiseCall] = []
        for part in filter(None, parts):
            nodes = ancestors(self.graph, part, self.real.keys())
            is_kept = any(is_fold(n) for n in nodes) or bool(self._kept.beside(nodes, part, ()))
            step = None if is_kept else self._region_run(nodes, part, ())
            call = None if step is None else step.call()
            if step is None or call is None:
                left.append(part)
                continue
            steps[id(call)] = step
            calls.append(call)
        for group in grouped(calls, self.launcher.machine):
            map_apart(self.launcher, group)
            new: dict[int, Input] = {}
            for call in group:
                new |= steps[id(call)].made
            new = {v: x for v, x in new.items() if v not in self.real}
            self.note(ancestors(self.graph, list(new), self.real.keys()))
            self.real |= new
        return left

    def _run_closing_folds(self, wanted: Sequence[int]) -> None:
        """Run the folds of which some values are made, if they are closing ones all."""
        folds = self._folds_of(wanted)
        if folds and all(f in self._closing for f in folds):
            # A kernel of a fold may make all that is wanted.
            self._step(wanted)
            self.realise([v for f in self._folds_of(wanted) for v in f.results])

    def _folds_of(self, wanted: Sequence[int]) -> list[Node]:
        return [n for n in ancestors(self.graph, wanted, self.real.keys()) if is_fold(n)]

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
        if (shared := self._kept.shared(nodes, wanted)) is not None:
            self.realise([shared])
            # Its kernel may have written some of those too.
            wanted = [v for v in wanted if not self._is_made(v)]
            if not wanted:
                return
            nodes = ancestors(self.graph, wanted, self.real.keys())
        siblings: Sequence[int] = ()
        if any(is_fold(n) for n in nodes):
            siblings = _siblings(self._inside, nodes, self._remaining.nodes)
        stop = self._run_kernel(nodes, wanted, siblings)
        if stop is not None and stop.node not in nodes:
            # A sibling does not fit.  To make its operands would be to ask for it again.
            stop = self._run_kernel(nodes, wanted, ())
        if stop is None:
            return
        if stop.is_wanted:
            self.realise(stop.node.results)
            return
        missing = [v for v in stop.node.values if v not in self.real]
        self.realise(missing)
        if stop.is_alone or not missing:
            self._run_alone(stop.node)

    def _run_kernel(
        self, nodes: Sequence[Node], wanted: Sequence[int], siblings: Sequence[int]
    ) -> Stop | None:
        """Run one kernel of the region of some values and siblings; or return what stops that."""
        wanted = [*wanted, *self._kept.beside(nodes, wanted, siblings)]
        if siblings:
            nodes = ancestors(self.graph, [*wanted, *siblings], self.real.keys())
        step = self._region_run(nodes, wanted, siblings)
        before = self._used_up.copy()
        stop = step.run(self._run_with_tail if self.is_program else None)
        new = {v: x for v, x in step.made.items() if v not in self.real}
        self.note(ancestors(self.graph, [*new, *self._used_up - before], self.real.keys()))
        self.real |= new
        return stop

    def _region_run(
        self, nodes: Sequence[Node], wanted: Sequence[int], siblings: Sequence[int]
    ) -> RegionRun:
        """Return the step in the region of some nodes."""
        part = Part.of(self.graph, nodes)
        real = {n: self.real[value] for n, value in enumerate(part.leaves)}
        return RegionRun(
            self.launcher, self.name_of(nodes), nodes, part, [part.numbers[v] for v in wanted],
            [part.numbers[v] for v in siblings], real,
        )  # fmt: skip

    def _run_alone(self, node: Node) -> None:
        """Run a node by its own kernels, and what follows it with them where they take that."""
        self._done.add(node)
        inputs = [
            self.real[x] if isinstance(x, int)
            else Constant(x.value, TensorType((), x.dtype)) if isinstance(x, Literal) else x
            for x in node.operands
        ]  # fmt: skip
        if self._run_with_tail(node, inputs, node.attrs):
            return
        lowering = self.lowering(node, inputs)
        results = lowering(self.launcher, node.op, inputs, node.attrs, node.types)
        self.real.update(zip(node.results, results, strict=True))
        self.note([node])

    def _run_with_tail(self, node: Node, inputs: Sequence[Input], attrs: Attributes) -> bool:
        """Run a node and what follows it by one kernel, if its kernels take that.

        The inputs may be others that give the same result by other attributes.
        """
        finish = FINISHING.get(self.lowering(node, inputs)) if self.is_program else None
        if finish is None or (is_fold(node) and self.launcher.machine.kind == "cpu"):
            # Where launches are cheap, one that writes in place behind many folds is better.
            return False
        search = TailSearch(self.graph, self.real, self._inside, self._remaining)
        tail = search.of(node, self.launcher.machine)
        if tail is None:
            return False
        epilogue, made = epilogue_of(self.launcher, self.graph, tail, self.real)
        if not finish(self.launcher, node.op, inputs, attrs, node.types, epilogue):
            return False
        self._used_up.update(node.results)
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


def _given(wanted: GraphInput, inputs: Sequence[Input]) -> Input:
    """Return an input of a graph: a number in the dtype that it takes in the body."""
    if wanted.value is not None:
        return Constant(wanted.value, wanted.type)
    x = inputs[wanted.position]
    if not wanted.is_number:
        return x
    assert isinstance(x, Constant)
    return x.with_type(wanted.type)


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
    # For each value to come: whether what is there, with something in ``made``, makes it.
    ready: dict[int, bool] = {}
    found: list[int] = []
    for node in left:
        if node not in inside:
            continue
        shares = False
        for v in node.values:
            if (is_shared := ready.get(v)) is not None:
                shares = shares or is_shared or v in made
            elif v in out:
                break
        else:
            ready.update(dict.fromkeys(node.results, shares))
            if shares and is_fold(node) and node not in own:
                found += node.results
    return found
