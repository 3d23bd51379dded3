"""What follows an op elementwise, and is computed by its kernel before the result is stored.

Of the nodes behind the result that are over the same space, those are taken of which something is
wanted in memory: a result, or what goes to kernels of another kind.  A fold makes what it needs
itself, as do kernels over another space.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import attrgetter
from typing import Any, Final

from pyrite.backend.cube.body.atoms import Atom, Axes
from pyrite.backend.cube.body.evaluate import evaluate
from pyrite.backend.cube.body.points import key_of, over
from pyrite.backend.cube.body.region import CutError, Region, ancestors, is_fold, is_view
from pyrite.backend.cube.body.remaining import Remaining
from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import row_major
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.contraction.windows import windows_of_products
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.graph import Graph, Node, Part
from pyrite.kernel import Value
from pyrite.kernel.machine import Machine
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Constant
from pyrite.op.rule import Contract
from pyrite.types import DType, Shape, TensorType

#: Nodes behind a result that are looked at: compilers take long for more in one kernel.
MOST_NODES = 64
_FIRST: Final = attrgetter("first")


#: What a contraction reads itself: two factors and a bias.
MOST_OPERANDS = 3

#: A processor's product goes over what follows it by short pieces of rows.  With more tensors than
#: that, of more bytes than that, it waits for memory: an update of Adam behind a product of 1.0 ms
#: took 1.3 ms, alone 0.5.
MOST_STREAMS = 4
#: Behind a product of matrices no long tensor is read, and so many results are written: a residual
#: took 1.06 of two kernels' time there, behind a convolution 0.97.
MOST_WRITTEN = 2
CACHED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Tail:
    """Nodes that follow a result in its kernel, and the values of them that are written."""

    value: int
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


class TailSearch:
    """The search for what follows a result, in what is left of a graph."""

    def __init__(
        self, graph: Graph, real: Mapping[int, Input], inside: Set[Node], remaining: Remaining
    ) -> None:
        self._graph = graph
        self._real = real
        self._inside = inside
        self._remaining = remaining

    def of(self, node: Node, machine: Machine) -> Tail | None:
        """Return what follows a node in its kernel on a machine, if anything."""
        if len(node.types) != 1 or not node.types[0].size or node.types[0].dtype.is_bool:
            return None
        value = node.first
        members = self._aligned(value, self._members(value))
        made = {v for n in members for v in n.results}
        wanted = self._wanted(value, members, made)
        while wanted:
            nodes = ancestors(self._graph, wanted, self._real.keys() | {value})
            outputs = self._outputs(node, nodes, wanted)
            read = {v for n in nodes for v in n.values if isinstance(self._real.get(v), CubeTensor)}
            if len(read) + len(outputs) <= machine.buffers - MOST_OPERANDS:
                is_better = machine.kind == "gpu" or self._is_streamed(node, read, outputs)
                return Tail(value, tuple(nodes), tuple(outputs)) if is_better else None
            wanted = wanted[:-1]
        return None

    def _is_streamed(self, node: Node, read: Set[int], outputs: Sequence[int]) -> bool:
        """Whether a processor reads and writes so few long tensors that it goes on foreseeing."""
        types, size = self._graph.types, node.types[0].size
        long_read, long_written = [
            [types[v].nbytes for v in of if types[v].size == size] for of in (read, outputs)
        ]
        if sum(long_read) + sum(long_written) <= CACHED_BYTES:
            return True
        if self._is_product(node):
            return not long_read and len(long_written) <= MOST_WRITTEN
        return len(long_read) + len(long_written) <= MOST_STREAMS

    def _is_product(self, node: Node) -> bool:
        """Whether a node is a product of matrices, and not one of windows."""
        rule = node.op.rule
        if not isinstance(rule, Contract):
            return False
        shapes = [self._graph.types[v].shape for v in node.values[:2]]
        products = rule.products_of(shapes, node.attrs)
        return windows_of_products(products, node.attrs.get("stride")) is None

    # ---- which nodes may follow ----

    def _members(self, value: int) -> list[Node]:
        """Return nodes made of a value, and of what is at hand, element by element."""
        size = self._graph.types[value].size
        made = {value}
        found: list[Node] = []
        ready: dict[int, bool] = {}
        # What is made of a value stands behind it.
        begin = bisect_left(self._remaining.nodes, value, key=_FIRST)
        for node in islice(self._remaining.nodes, begin, None):
            if made.isdisjoint(node.values) or len(found) == MOST_NODES:
                continue
            is_of_size = node in self._inside and not is_fold(node) and node.types[0].size == size
            others = [v for v in node.values if v not in made]
            if is_of_size and all(self._is_ready(v, size, ready) for v in others):
                made.update(node.results)
                found.append(node)
        return found

    def _is_ready(self, value: int, size: int, ready: dict[int, bool]) -> bool:
        """Whether a value is in memory, or made of such element by element.

        What is smaller is not made anew for each element of the result.
        """
        x = self._real.get(value)
        if x is not None:
            return isinstance(x, CubeTensor) or not x.type.dtype.is_bool
        found = ready.get(value)
        if found is None:
            node = self._graph.makers[value]
            assert node is not None, "an input is in memory"
            is_made = node in self._inside and not is_fold(node)
            is_made = is_made and (is_view(node) or node.types[0].size == size)
            found = is_made and all(self._is_ready(v, size, ready) for v in node.values)
            ready[value] = found
        return found

    def _aligned(self, value: int, members: Sequence[Node]) -> list[Node]:
        """Return the nodes of which all tensors lie by the axes of the value."""
        left = list(members)
        while left:
            nodes = ancestors(self._graph, [n.first for n in left], self._real.keys() | {value})
            misfit = self._misfit(value, nodes, set(left))
            if misfit is None:
                return left
            gone = {misfit}
            for node in left:
                if any(self._graph.makers[v] in gone for v in node.values):
                    gone.add(node)
            left = [n for n in left if n not in gone and misfit not in self._before(n, value)]
        return []

    def _before(self, node: Node, value: int) -> list[Node]:
        return ancestors(self._graph, [node.first], self._real.keys() | {value})

    def _misfit(self, value: int, nodes: Sequence[Node], members: Set[Node]) -> Node | None:
        """Return a node that cannot be of a kernel over a value's axes, if one cannot."""
        part = Part.of(self._graph, nodes)
        try:
            region = Region(part.graph, part.graph.nodes, tuple(range(len(part.leaves))))
        except CutError as error:
            return nodes[part.graph.nodes.index(error.node)]
        of, numbers = part.numbers[value], part.numbers
        shape = self._graph.types[value].shape
        for node in nodes:
            for v in node.values:
                x = self._real.get(v)
                if isinstance(x, CubeTensor) and _seen(region, numbers[v], x, of, shape) is None:
                    return node
            if node in members and _strides(region, of, numbers[node.first]) is None:
                return node
        return None

    # ---- what is written ----

    def _wanted(self, value: int, members: Sequence[Node], made: Set[int]) -> list[int]:
        """Return the values among those made that are wanted in memory, in order."""
        own = set(members)
        found = {
            self._base(v, made) for node in members for v in node.results
            if self._is_demanded(v, own)
        }  # fmt: skip
        return sorted(found - {value})

    def _is_demanded(self, value: int, own: Set[Node]) -> bool:
        """Whether a result of the graph, or a kernel of another kind, needs a value in memory."""
        if value in self._graph.results:
            return True
        for user in self._remaining.users(value):
            if user not in self._inside:
                return True
            if user not in own and is_view(user) and self._is_demanded(user.first, own):
                return True
        return False

    def _base(self, value: int, made: Set[int]) -> int:
        """Return the value of which one is a view."""
        node = self._graph.makers[value]
        while value in made and node is not None and is_view(node):
            (value,) = node.values
            node = self._graph.makers[value]
        return value

    def _outputs(self, node: Node, nodes: Sequence[Node], wanted: Sequence[int]) -> list[int]:
        """Return all values to write, so that what is left needs nothing else of the node."""
        own, outputs = set(nodes), list(wanted)
        if not self._needs(node, outputs):
            return outputs
        made = {node.first, *(v for n in nodes for v in n.results)}
        used = [
            self._base(v, made) for v in sorted(made)
            if v not in outputs and any(u not in own for u in self._remaining.users(v))
        ]  # fmt: skip
        used = [v for v in dict.fromkeys(used) if v not in outputs]
        if len(used) == 1 and not self._needs(node, [*outputs, *used]):
            return [*outputs, *used]
        return [*outputs, node.first]

    def _needs(self, node: Node, outputs: Sequence[int]) -> bool:
        """Whether something that is left is made of a node, with some values in memory."""
        return self._remaining.needs(node, outputs)


# ---- what a kernel gets ----


class TailRule:
    """The rule of an epilogue: nodes on an element, of which some values are written.

    The element is rounded to its dtype first, and each node rounds as it does alone.
    """

    def __init__(
        self, nodes: Sequence[Node], leaves: Sequence[int], value: int, dtype: DType,
        outputs: Sequence[int],
    ) -> None:  # fmt: skip
        self._nodes, self._leaves, self._outputs = nodes, leaves, outputs
        self._value, self._dtype = value, dtype
        self._key: Hashable = (key_of(nodes, leaves, outputs), value, dtype)

    def __eq__(self, other: object) -> bool:
        return type(other) is TailRule and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def written_content(self) -> Hashable:
        """Return all that it depends on, for digests."""
        return self._key

    def __call__(self, k: RecordingAlgebra, element: Value, *sources: Value) -> list[Value]:
        """Return the values that are written."""
        b, dtype = k.builder, self._dtype
        known = dict(zip(self._leaves, sources, strict=True))
        known[self._value] = b.cast(b.cast(element, dtype), dtype.compute)
        for node in self._nodes:
            is_same = is_view(node)
            known[node.first] = (
                known[node.values[0]] if is_same else evaluate(b, node, known.__getitem__)
            )
        return [known[v] for v in self._outputs]


def epilogue_of(
    launcher: Launcher, graph: Graph, tail: Tail, real: Mapping[int, Any]
) -> tuple[Epilogue, dict[int, CubeTensor]]:
    """Return an epilogue, and the tensors that it will have written by their values."""
    part = Part.of(graph, tail.nodes)
    region = Region(part.graph, part.graph.nodes, tuple(range(len(part.leaves))))
    of, type = part.numbers[tail.value], graph.types[tail.value]
    leaves = [v for v in part.leaves if v != tail.value]
    sources: list[CubeTensor | Constant] = []
    for v in leaves:
        x = real[v]
        seen = _seen(region, part.numbers[v], x, of, type.shape) if isinstance(x, CubeTensor) else x
        assert seen is not None, "what follows lies by the axes of the result"
        sources.append(seen)
    made: dict[int, CubeTensor] = {}
    targets: list[CubeTensor] = []
    for v in tail.outputs:
        whole = launcher.empty(TensorType(type.shape, graph.types[v].dtype))
        strides = _strides(region, of, part.numbers[v])
        assert strides is not None, "what follows lies by the axes of the result"
        targets.append(whole)
        made[v] = whole.strided(graph.types[v].shape, strides)
    rule = TailRule(
        part.graph.nodes, [part.numbers[v] for v in leaves], of, type.dtype,
        [part.numbers[v] for v in tail.outputs],
    )  # fmt: skip
    return Epilogue(rule, tuple(sources), tuple(targets)), made


def _seen(
    region: Region, leaf: int, tensor: CubeTensor, value: int, shape: Shape
) -> CubeTensor | None:
    """Return a tensor with the axes of a value, None where they are no axes of it."""
    space = region.space(value)
    if not region.support(leaf) <= set(space):
        return None
    return over(region, leaf, tensor, space).reshaped(shape)


def _strides(region: Region, value: int, made: int) -> tuple[int, ...] | None:
    """Return the strides of what lies as a dense value of the same elements, if it has some."""
    space = region.space(value)
    if set(region.space(made)) != set(space):
        return None
    steps = dict(zip(space, row_major(region.atoms.sizes(space)), strict=True))
    if region.space(made) == space:
        return row_major(region.graph.types[made].shape)
    return _merged_strides(region, region.axes(made), steps)


def _merged_strides(
    region: Region, axes: Axes, steps: Mapping[Atom, int]
) -> tuple[int, ...] | None:
    found: list[int] = []
    for axis in axes:
        for first, second in pairwise(axis):
            if steps[first] != steps[second] * region.atoms.size(second):
                return None
        found.append(steps[axis[-1]] if axis else 1)
    return tuple(found)
