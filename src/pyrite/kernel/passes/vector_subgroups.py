"""Subgroups of as many invocations as a vector has lanes: what they ask each other for.

A workgroup of whole subgroups, all of which come by, is joined into vectors of `SUBGROUP` lanes.
Then a sum is a tree over the halves of a vector, and a scan four steps, at each of which the upper
half of a block takes the last element of the lower one (Sklansky, "Conditional-Sum Addition Logic",
1960).  So sums of floats are added two and two, and not in the order of lanes.
"""

from __future__ import annotations

import operator
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
        start, lanes = self.unchanging(name, x), range(self.width)
        if not is_inclusive:
            x = self.moved(x, [lane - 1 for lane in lanes], start)
        block = 1
        while block < self.width:
            blocks = [lane // block for lane in lanes]
            last = [n * block - 1 if n % 2 else -1 for n in blocks]
            x = self.alu(name, self.moved(x, last, start), x)
            block *= 2
        return x

    def unchanging(self, name: str, x: Node) -> Node:
        """Return what leaves any y as it is when they are combined, also a zero below zero."""
        type = x.value_type.element
        found = neutral(name, type.dtype)
        if type.dtype.is_float:
            found = -0.0 if name == "add" else float(found)
        return self.const(found, type)

    def moved(self, x: Node, lanes: Iterable[int], other: Node) -> Node:
        """Return elements of a vector, and something else for numbers below 0."""
        type = x.value_type
        found = [
            other if lane < 0 else self.make("extract", type.element, (x,), lane) for lane in lanes
        ]
        return self.make("make", type, tuple(found))

    def first(self, _: Node, x: Node) -> Node:
        return self.element(x, 0)

    def shuffled(self, node: Node, x: Node) -> Node:
        """Take each from another lane, by a number that is known; outside there is its own."""
        by, lanes = int(node.inputs[1].attr), range(self.width)
        wanted = [_SHUFFLES[str(node.attr)](lane, by) for lane in lanes]
        return self.elements(
            x, [w if w in lanes else lane for w, lane in zip(wanted, lanes, strict=True)]
        )

    def elements(self, x: Node, lanes: Iterable[int]) -> Node:
        """Return elements of a vector, as a vector or the only one."""
        found = tuple([self.make("extract", x.value_type.element, (x,), lane) for lane in lanes])
        if len(found) == 1:
            return found[0]
        return self.make("make", x.value_type.with_width(len(found)), found)


#: What is done in vectors; `pyrite.extension.lanes` has the rest in shared memory.
_COLLECTIVE: Final[dict[str, Callable[[VectorSubgroups, Node, Node], Node]]] = {
    "subgroup_reduce": VectorSubgroups.reduced, "subgroup_scan": VectorSubgroups.scanned,
    "subgroup_broadcast": VectorSubgroups.first, "subgroup_shuffle": VectorSubgroups.shuffled,
}  # fmt: skip

#: The lane that one takes from, by its own number and the one given.
_SHUFFLES: Final[dict[str, Callable[[int, int], int]]] = {
    "index": lambda _, n: n, "xor": operator.xor, "up": operator.sub, "down": operator.add,
}  # fmt: skip


def has_subgroups(kernel: Kernel) -> bool:
    """Whether invocations of a subgroup ask each other for anything."""
    return any(node.kind.startswith("subgroup") for node in kernel.walk())


def are_whole(kernel: Kernel) -> bool:
    """Whether subgroups are whole, all of them come by, and ask for what vectors have."""
    asked = [n for n in kernel.walk() if n.kind.startswith("subgroup")]
    return (
        kernel.workgroup_size[0] % SUBGROUP == 0
        and all(map(_is_known, asked))
        and not stray(kernel, {n.kind for n in asked})
    )


def _is_known(node: Node) -> bool:
    """Whether vectors have what is asked for: shuffles by constants."""
    if node.kind == "subgroup_shuffle" and node.inputs[1].kind != "const":
        return False
    return node.kind in _COLLECTIVE
