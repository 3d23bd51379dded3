"""Makes one invocation do the work of a workgroup: loops over its invocations, split at barriers.

Requires a legal kernel without subgroup operations, unless its workgroup is one invocation.
Guarantees an equal one with workgroups of one invocation and no barriers: between two barriers the
code stands in a loop over lanes, the invocations of before, which are independent of each other.

What is uniform is computed once, outside those loops.  Loops and branches with a barrier inside
stay around them; their conditions must be uniform in a way that does not need the loops themselves.
So do loops whose rounds are far apart in memory (`far_rounds`): lanes run each round together.
A value that lives across a barrier goes through private memory, an element for each lane, or is
computed again if it takes only a few operations on lane numbers and uniform values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyrite.errors import KernelError, UnsupportedKernelError
from pyrite.kernel.ir import Kernel, Node, Region, Type, scalar, walk
from pyrite.kernel.passes.far_rounds import far_rounds
from pyrite.kernel.uniformity import varying

#: Operations up to which a value is computed again rather than kept in memory.
_CHEAP = 12


def split_barriers(kernel: Kernel) -> Kernel:
    """Return the kernel with workgroups of one invocation.

    Raises KernelError where a barrier's loop or branch depends on what only a lane loop computes,
    and for subgroup operations.
    """
    if kernel.invocations > 1 and any(n.kind.startswith("subgroup") for n in kernel.walk()):
        raise UnsupportedKernelError(
            f"{kernel} requires subgroups of several invocations, got a device without; reduce in "
            "shared memory"
        )
    return _Splitter(kernel).run()


def _has_barrier(node: Node) -> bool:
    return any(n.kind == "barrier" for r in node.regions for n in walk(r))


def _has_effect(node: Node) -> bool:
    return any(n.effect in ("write", "order") for r in node.regions for n in walk(r))


def _is_outer(node: Node, varies: set[Node]) -> bool:
    """Whether it is computed once for the workgroup."""
    if node in varies or node.effect not in ("pure", "read", "control"):
        return False
    inside = [n for r in node.regions for n in (*walk(r), *r.yields)]
    return not _has_effect(node) and varies.isdisjoint(inside)


class _Splitter:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lanes = kernel.invocations
        self.index_type = scalar(kernel.index)
        #: Control nodes that stay around loops over lanes.
        self.around = {n for n in kernel.walk() if n.regions and _has_barrier(n)}
        self.varying = self._varying()
        self.costs: dict[Node, int] = {}
        if more := far_rounds(kernel, self.around, self.varying) | self._together():
            self.around |= more
            self.varying = self._varying()
            self.costs.clear()
        self.order = {n: i for i, n in enumerate(kernel.walk())}
        self.allocations: list[Node] = []
        #: The memory of values that live across a barrier, an element for each lane.
        self.slots: dict[Node, Node] = {}
        #: Which values of these go through slots.
        self.carried: dict[Node, list[tuple[int, Node]]] = {}
        self._choose_slots()
        #: What stands for nodes that are computed once for the workgroup.
        self.uniform: dict[Node, Node] = {p: p for p in kernel.parameters}
        self.outer: list[Node] = []
        self.pending: list[Node] = []

    def run(self) -> Kernel:
        region = self.region(self.kernel.body, (), (), ())
        body = Region((), (*self.allocations, *region.body))
        return replace(self.kernel, body=body, workgroup_size=(1, 1, 1))

    def _together(self) -> set[Node]:
        """Return the branch that all lanes take together, if before it there are but indices.

        Around the loop over lanes, what is uniform in it is computed once.
        """
        before: list[Node] = []
        for node in self.kernel.body.body:
            if node.kind == "if" and not node.regions[0].yields:
                is_alike = node.inputs[0] not in self.varying
                return (
                    {node} if is_alike and all(self._cost(n) <= _CHEAP for n in before) else set()
                )
            if node.effect not in ("pure", "order"):
                break
            before.append(node)
        return set()

    def _varying(self) -> set[Node]:
        """Return what lanes compute: what varies, and what comes from control nodes they run."""
        found = varying(self.kernel)
        results = [n for n in self.kernel.walk() if n.kind == "result"]
        while True:
            by_lanes = [
                n
                for n in results
                if n not in found
                if n.inputs[0] not in self.around and not _is_outer(n.inputs[0], found)
            ]
            if not by_lanes:
                return found
            found = varying(self.kernel, (*found, *by_lanes))

    # ---- which values need memory ----

    def _choose_slots(self) -> None:
        results: dict[Node, list[Node]] = {}
        for node in self.kernel.walk():
            if node.kind == "result":
                results.setdefault(node.inputs[0], []).append(node)
        for control in self.around:
            self._carry(control, results.get(control, []))
        stretches: dict[Node, int] = {}
        self._number(self.kernel.body, stretches, 0)
        for node, stretch in stretches.items():
            used = (*node.inputs, *(y for r in node.regions for y in r.yields))
            self._keep_unless(used, stretches, stretch)

    def _carry(self, control: Node, results: list[Node]) -> None:
        """A carried value that varies, and its result, share one slot from round to round."""
        skip = int(control.kind == "for")
        self.carried[control] = []
        for i, y in enumerate(control.regions[-1].yields):
            parameters = [r.parameters[i + skip] for r in control.regions if r.parameters]
            together = [*parameters, *(n for n in results if n.attr == i)]
            sources = parameters or [r.yields[i] for r in control.regions]
            if not self.varying.isdisjoint(sources):
                slot = self._slot(y.value_type)
                self.slots.update((n, slot) for n in together)
                self.carried[control].append((i, slot))

    def _number(self, region: Region, stretches: dict[Node, int], current: int) -> int:
        """Number the stretches between barriers; return the last number."""
        for node in region.body:
            if node.kind == "barrier":
                current += 1
            elif node in self.around:
                self._keep_unless(node.inputs, stretches, current)
                for inner in node.regions:
                    current = self._number(inner, stretches, current + 1)
                    # What is yielded is stored at the end of the region.
                    self._keep_unless(inner.yields, stretches, current)
                current += 1
            else:
                stretches.update((n, current) for r in node.regions for n in walk(r))
                stretches[node] = current
        return current

    def _keep_unless(self, nodes: Iterable[Node], stretches: dict[Node, int], current: int) -> None:
        """Keep what varies and was computed in another stretch than the present one."""
        for node in nodes:
            if node in self.varying and stretches.get(node, current) != current:
                self._keep(node)

    def _keep(self, node: Node) -> None:
        if node not in self.slots and self._cost(node) > _CHEAP:
            self.slots[node] = self._slot(node.value_type)

    def _slot(self, type: Type) -> Node:
        node = Node("alloc", type.element, (), ("private", self.lanes * type.width, "read_write"))
        self.allocations.append(node)
        return node

    def _cost(self, node: Node) -> int:
        """Operations to compute a value again from lane numbers and uniform values."""
        if node not in self.varying:
            return 0
        if node not in self.costs:
            can_repeat = node.effect == "pure" and node.kind not in ("parameter", "result")
            self.costs[node] = 1 + (sum(map(self._cost, node.inputs)) if can_repeat else _CHEAP)
        return self.costs[node]

    # ---- outside the loops over lanes ----

    def region(
        self,
        region: Region,
        parameters: Sequence[Node],
        yields: Sequence[Node],
        stores: Iterable[tuple[Node, Node]],
    ) -> Region:
        """Build a region with barriers, at whose end lanes store values into slots."""
        kept, self.outer = self.outer, []
        new = [Node("parameter", p.type, (), i) for i, p in enumerate(parameters)]
        self.uniform.update(zip(parameters, new, strict=True))
        for node in region.body:
            self.node(node)
        self.flush(stores)
        body, self.outer = self.outer, kept
        return Region(tuple(new), tuple(body), self.outside(yields))

    def node(self, node: Node) -> None:
        if node.kind == "barrier":
            self.flush()
        elif node in self.around:
            self.control(node)
        elif node.kind == "alloc":
            self.allocate(node)
        elif node.kind == "result" and node.inputs[0] in self.around:
            self.result(node)
        elif _is_outer(node, self.varying):
            self.uniform[node] = self.copy(node, self.uniform, self.outer)
        else:
            self.pending.append(node)

    def outside(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        nodes = tuple(nodes)
        if any(n not in self.uniform for n in nodes):
            raise KernelError(
                f"split_barriers of {self.kernel} requires that what decides about a barrier is "
                "computed without effects; compute it apart from stores"
            )
        return tuple(self.uniform[n] for n in nodes)

    def allocate(self, node: Node) -> None:
        space, size, access = node.attr
        if space == "private":
            size *= self.lanes
        self.uniform[node] = new = Node("alloc", node.type, (), (space, size, access))
        self.allocations.append(new)

    def control(self, node: Node) -> None:
        """Build a loop or branch around loops over lanes."""
        slots = self.carried[node]
        through_slots = {i for i, _ in slots}
        bounds = {"for": 2, "while": 0, "if": 1}[node.kind]
        initial = node.inputs[bounds:]
        self.flush((initial[i], slot) for i, slot in slots if initial)
        regions = []
        for region in node.regions:
            is_condition = node.kind == "while" and region is node.regions[0]
            skip = int(node.kind == "for")
            parameters = [
                p for i, p in enumerate(region.parameters) if i - skip not in through_slots
            ]
            yields = [
                y for i, y in enumerate(region.yields) if is_condition or i not in through_slots
            ]
            stores = [] if is_condition else [(region.yields[i], slot) for i, slot in slots]
            regions.append(self.region(region, parameters, yields, stores))
        uniform = [x for i, x in enumerate(initial) if i not in through_slots]
        inputs = self.outside((*node.inputs[:bounds], *uniform))
        self.uniform[node] = new = Node(node.kind, None, inputs, node.attr, tuple(regions))
        self.outer.append(new)

    def result(self, node: Node) -> None:
        """Results that vary are read from their slots where they are used."""
        if node in self.slots:
            return
        control = node.inputs[0]
        before = sum(1 for i, _ in self.carried[control] if i < node.attr)
        inputs = (self.uniform[control],)
        self.uniform[node] = new = Node("result", node.type, inputs, node.attr - before)
        self.outer.append(new)

    # ---- a loop over lanes ----

    def flush(self, stores: Iterable[tuple[Node, Node]] = ()) -> None:
        """Put what waits into a loop over lanes; at its end each stores values into slots."""
        nodes, self.pending = self.pending, []
        ends = [(n, self.slots[n]) for n in nodes if n in self.slots] + list(stores)
        if not ends and all(n.effect in ("pure", "read") for n in nodes):
            return
        lane = Node("parameter", self.index_type, (), 0)
        if self.lanes == 1:
            lane = Node("const", self.index_type, (), 0)
            self.outer.append(lane)
        loop = _LaneLoop(self, lane, self.outer if self.lanes == 1 else [])
        loop.build(nodes, ends)
        if self.lanes > 1:
            bounds = [Node("const", self.index_type, (), n) for n in (0, self.lanes)]
            region = Region((lane,), tuple(loop.body))
            new = Node("for", None, tuple(bounds), (1, False, False), (region,))
            self.outer.extend((*bounds, new))

    def copy(self, node: Node, new: Mapping[Node, Node], body: list[Node]) -> Node:
        """Append a copy of a node without regions of its own kind of lane."""
        regions = tuple([self._copy_region(r, new) for r in node.regions])
        made = Node(node.kind, node.type, tuple(new[i] for i in node.inputs), node.attr, regions)
        body.append(made)
        return made

    def _copy_region(self, region: Region, new: Mapping[Node, Node]) -> Region:
        inner = dict(new)
        parameters = tuple(Node("parameter", p.type, (), p.attr) for p in region.parameters)
        inner.update(zip(region.parameters, parameters, strict=True))
        body: list[Node] = []
        for node in region.body:
            inner[node] = self.copy(node, inner, body)
        return Region(parameters, tuple(body), tuple(inner[y] for y in region.yields))


class _LaneLoop:
    """The body of one loop over lanes."""

    def __init__(self, splitter: _Splitter, lane: Node, body: list[Node]) -> None:
        self.splitter = splitter
        self.lane = lane
        self.body = body
        self.new: dict[Node, Node] = {}

    def build(self, nodes: Sequence[Node], ends: Sequence[tuple[Node, Node]]) -> None:
        for node in self.missing(nodes, [value for value, _ in ends]):
            self.bring(node)
        for node in nodes:
            self.copy(node)
        for value, slot in ends:
            width = value.value_type.width
            inputs = (slot, self.at(width), self.of(value))
            self.body.append(Node("store", None, inputs, True))

    def missing(self, nodes: Sequence[Node], also: Sequence[Node]) -> list[Node]:
        """Return the varying values that other stretches computed, in their order."""
        varying, inside = self.splitter.varying, set(nodes)
        for node in nodes:
            inside.update(n for r in node.regions for n in walk(r))
        used = set(also)
        for node in inside:
            used.update(node.inputs)
            used.update(y for r in node.regions for y in r.yields)
        return sorted((used & varying) - inside, key=self.splitter.order.__getitem__)

    def bring(self, node: Node) -> None:
        """Load a value from its slot, or compute it again."""
        if node in self.new or node not in self.splitter.varying:
            return
        if (slot := self.splitter.slots.get(node)) is not None:
            type = node.value_type
            load = Node("load", type, (slot, self.at(type.width)), True)
            self.body.append(load)
            self.new[node] = load
            return
        for i in node.inputs:
            self.bring(i)
        self.copy(node)

    def of(self, node: Node) -> Node:
        return self.new.get(node) or self.splitter.uniform[node]

    def at(self, width: int) -> Node:
        """Return where in a slot the values of this lane begin."""
        return self.lane if width == 1 else self.alu("mul", self.lane, self.index(width))

    def index(self, value: int) -> Node:
        node = Node("const", self.splitter.index_type, (), value)
        self.body.append(node)
        return node

    def alu(self, name: str, *inputs: Node) -> Node:
        node = Node("alu", inputs[0].type, inputs, name)
        self.body.append(node)
        return node

    def copy(self, node: Node) -> None:
        if node.kind == "builtin" and node in self.splitter.varying:
            self.new[node] = self.position(*node.attr)
            return
        inputs = tuple(self.of(i) for i in node.inputs)
        attr = node.attr
        if node.kind in ("load", "store") and _is_private(node.inputs[0]):
            inputs, attr = self.in_private(node, inputs)
        regions = tuple([self.region(r) for r in node.regions])
        made = Node(node.kind, node.type, inputs, attr, regions)
        self.body.append(made)
        self.new[node] = made

    def region(self, region: Region) -> Region:
        kept, self.body = self.body, []
        parameters = tuple(Node("parameter", p.type, (), p.attr) for p in region.parameters)
        self.new.update(zip(region.parameters, parameters, strict=True))
        for node in region.body:
            self.copy(node)
        body, self.body = self.body, kept
        return Region(parameters, tuple(body), tuple(self.of(y) for y in region.yields))

    def position(self, name: str, axis: int) -> Node:
        """Return what a builtin says of this lane."""
        if name.startswith("subgroup"):
            return self.index(0)
        sizes = self.splitter.kernel.workgroup_size
        if name == "local_index" or sizes[axis] == self.splitter.lanes:
            return self.lane
        below = 1
        for size in sizes[:axis]:
            below *= size
        at = self.lane if below == 1 else self.alu("div", self.lane, self.index(below))
        is_last = below * sizes[axis] == self.splitter.lanes
        return at if is_last else self.alu("rem", at, self.index(sizes[axis]))

    def in_private(self, node: Node, inputs: tuple[Node, ...]) -> tuple[tuple[Node, ...], bool]:
        """Lanes follow each other in what was the memory of one."""
        size = node.inputs[0].attr[1]
        offset = self.alu("mul", self.lane, self.index(size))
        index = inputs[1]
        if index.value_type.width > 1:
            offset = Node("splat", index.type, (offset,))
            self.body.append(offset)
        value = node if node.kind == "load" else node.inputs[2]
        is_aligned = bool(node.attr) and size % value.value_type.width == 0
        return (inputs[0], self.alu("add", index, offset), *inputs[2:]), is_aligned


def _is_private(memory: Node) -> bool:
    return memory.kind == "alloc" and bool(memory.attr[0] == "private")
