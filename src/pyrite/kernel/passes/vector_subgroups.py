"""Subgroups of as many invocations as a vector has lanes: what they ask each other for.

A workgroup of whole subgroups, all of which come by, is joined into vectors of `SUBGROUP` lanes.
Then a sum is a tree over the halves of a vector, and a scan four steps, at each of which the upper
half of a block takes the last element of the lower one (Sklansky, "Conditional-Sum Addition Logic",
1960).  So sums of floats are added two and two, and not in the order of lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyrite.kernel.arithmetic import neutral
from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes.vector_values import VectorValues
from pyrite.kernel.uniformity import stray
from pyrite.types import bool_, uint32

#: Invocations of a subgroup where vectors are.
SUBGROUP: Final = 16


class VectorSubgroups(VectorValues):
    """The part of `vectorize` in which lanes meet."""

    def collective(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        assert self.mask is None, "all lanes come by"
        is_bool = inputs[0].value_type.dtype.is_bool
        x = self.widen(inputs[0])
        if is_bool:
            type = x.value_type.with_dtype(uint32)
            x = self.made_wide(self.make("cast", type, (x,)))
        found = _COLLECTIVE[node.kind](self, node, x)
        if is_bool:
            none = self.const(0, found.value_type)
            type = found.value_type.with_dtype(bool_)
            found = self.make("alu", type, (found, none), "ne")
        return self.made_wide(found) if found.value_type.width > 1 else found

    def reduced(self, node: Node, x: Node) -> Node:
        """Combine the halves of a vector until there is one element."""
        while (half := x.value_type.width // 2) > 0:
            lower, upper = self.elements(x, range(half)), self.elements(x, range(half, 2 * half))
            x = self.alu(str(node.attr), lower, upper)
        return x

    def scanned(self, node: Node, x: Node) -> Node:
        """Combine each element with those before it, block by block of two, four, eight."""
        name, is_inclusive = node.attr
        type, lanes = x.value_type, range(self.width)
        if not is_inclusive:
            moved = self.elements(x, [max(lane - 1, 0) for lane in lanes])
            start = neutral(name, type.dtype)
            none = self.const(float(start) if type.dtype.is_float else start, type)
            x = self.where([lane > 0 for lane in lanes], moved, none)
        block = 1
        while block < self.width:
            last = [lane // (2 * block) * 2 * block + block - 1 for lane in lanes]
            both = self.alu(name, self.elements(x, last), x)
            x = self.where([lane % (2 * block) >= block for lane in lanes], both, x)
            block *= 2
        return x

    def first(self, _: Node, x: Node) -> Node:
        return self.element(x, 0)

    def elements(self, x: Node, lanes: Iterable[int]) -> Node:
        """Return elements of a vector, as a vector or the only one."""
        found = tuple([self.make("extract", x.value_type.element, (x,), lane) for lane in lanes])
        if len(found) == 1:
            return found[0]
        return self.make("make", x.value_type.with_width(len(found)), found)

    def where(self, lanes: list[bool], x: Node, y: Node) -> Node:
        """Return x in these lanes, and y in the others."""
        mask = self.make("const", x.value_type.with_dtype(bool_), (), tuple(lanes))
        return self.make("select", x.type, (mask, x, y))


#: What is done in vectors; `pyrite.extension.lanes` has the rest in shared memory.
_COLLECTIVE: Final[dict[str, Callable[[VectorSubgroups, Node, Node], Node]]] = {
    "subgroup_reduce": VectorSubgroups.reduced, "subgroup_scan": VectorSubgroups.scanned,
    "subgroup_broadcast": VectorSubgroups.first,
}  # fmt: skip


def has_subgroups(kernel: Kernel) -> bool:
    """Whether invocations of a subgroup ask each other for anything."""
    return any(node.kind.startswith("subgroup") for node in kernel.walk())


def are_whole(kernel: Kernel) -> bool:
    """Whether subgroups are whole, all of them come by, and ask for what vectors have."""
    asked = {n.kind for n in kernel.walk() if n.kind.startswith("subgroup")}
    return (
        kernel.workgroup_size[0] % SUBGROUP == 0
        and asked <= _COLLECTIVE.keys()
        and not stray(kernel, asked)
    )
