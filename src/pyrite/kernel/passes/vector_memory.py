"""Loads, stores and atomics of several lanes: consecutive where indices are, else gathers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyrite.kernel.ir import Node, Region, Type
from pyrite.kernel.passes.vector_near import Near, NearLanes

#: Makes an access at an index, which may be aligned.
Access = Callable[[Node, bool], Node]


class VectorMemory(NearLanes):
    """The part of `vectorize` that reads and writes memory."""

    def alloc(self, node: Node, _: tuple[Node, ...]) -> Node:
        space, size, access = node.attr
        if space == "shared":
            # One element more, that lanes change which are not active.
            return self.make("alloc", node.type, (), (space, size + (access == "atomic"), access))
        # Lanes follow each other for each element, so that equal indices are consecutive.
        return self.make("alloc", node.type, (), (space, size * self.width, access))

    def in_private(self, index: Node) -> tuple[Node, bool]:
        if index in self.wide:
            size = self.widen(self.index(self.width))
            return self.alu("add", self.alu("mul", index, size), self.iota()), False
        return self.alu("mul", index, self.index(self.width)), True

    def iota(self) -> Node:
        type = self.index_type.with_width(self.width)
        return self.make("const", type, (), tuple(range(self.width)))

    def place(self, memory: Node, index: Node) -> tuple[Node, bool]:
        """Return where ``width`` elements are: a scalar if consecutive; and if it is aligned."""
        if _is_private(memory):
            return self.in_private(index)
        lanes = self.lanes.get(index)
        if lanes is not None and lanes.stride == 1:
            return lanes.first, False
        return self.widen(index), False

    def load(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, index = inputs[:2]
        given = inputs[2] if len(inputs) == 4 else None
        is_alike = index not in self.wide and given not in self.wide
        if is_alike and not _is_private(memory):
            return self.emit(node.with_inputs(inputs))
        type = node.value_type.with_width(self.width)
        masked: tuple[Node, ...] = ()
        if (mask := self.both(self.mask, given)) is not None:
            other = self.widen(inputs[3]) if given is not None else self.zero(type)
            masked = (mask, other)

        def loaded(where: Node, is_aligned: bool) -> Node:
            return self.make("load", type, (memory, where, *masked), is_aligned)

        def repeated(where: Node, _: bool) -> Node:
            # Some lane is active, and it reads this element as all others do.
            one = self.make("load", node.type, (memory, where), False)
            return self.make("splat", type, (one,))

        near = None if _is_private(memory) else self.near.get(index)
        if near is None or near.stride not in (0, 1) or (near.stride == 0 and given is not None):
            return self.made_wide(loaded(*self.place(memory, index)))
        control = self.either(near, index, loaded if near.stride else repeated, loaded)
        return self.made_wide(self.make("result", type, (control,), 0))

    def either(self, near: Near, index: Node, one: Access, each: Access) -> Node:
        """Emit an access at a scalar index where it stands for all lanes, else at that of each."""
        assert near.exact is not None
        regions = []
        for where, access in ((near.first, one), (index, each)):
            outer, self.body = self.body, []
            made = access(where, False)
            yields = () if made.type is None else (made,)
            regions.append(Region((), tuple(self.body), yields))
            self.body = outer
        return self.emit(Node("if", None, (near.exact,), None, tuple(regions)))

    def zero(self, type: Type) -> Node:
        return self.const({"bool": False, "float": 0.0}.get(type.dtype.kind, 0), type)

    def store(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, index, value = inputs[:3]
        if self.wide.isdisjoint(inputs) and not _is_private(memory):
            return self.emit(node.with_inputs(inputs))
        value = self.widen(value)
        given = inputs[3] if len(inputs) == 4 else None
        mask = self.both(self.mask, given)
        masked = () if mask is None else (mask,)

        def stored(where: Node, is_aligned: bool) -> Node:
            return self.make("store", None, (memory, where, value, *masked), is_aligned)

        near = None if _is_private(memory) else self.near.get(index)
        if near is None or near.stride != 1:
            return stored(*self.place(memory, index))
        return self.either(near, index, stored, stored)

    def atomic(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The lanes' atomics, one after the other."""
        has_mask = node.attr[1]
        memory, *operands = inputs[: len(inputs) - has_mask]
        type = node.value_type.with_width(self.width)
        mask = self.both(self.mask, inputs[-1] if has_mask else None)
        if mask is None and self.is_in_one_place(node, operands[0]):
            return self.at_once(node, memory, *operands)
        if mask is None or memory.kind == "buffer":
            return self.in_turn(node, memory, operands, mask)
        # Two vector operations spare each lane a choice.
        mask, spare = self.widen(mask), self.widen(self.index(memory.attr[1] - 1))
        at = (mask, self.widen(operands[0]), spare)
        operands[0] = self.made_wide(self.make("select", spare.type, at))
        found = self.in_turn(node, memory, operands, None)
        return self.made_wide(self.make("select", type, (mask, found, self.zero(type))))

    def is_in_one_place(self, node: Node, index: Node) -> bool:
        """Whether all lanes change one element, in any order, and none asks what it was."""
        return index not in self.wide and node not in self.used and node.attr[0] in _JOINED

    def at_once(self, node: Node, memory: Node, index: Node, value: Node) -> Node:
        """Emit one atomic for all lanes: what they give is joined before, two and two."""
        name = node.attr[0]
        value = self.widen(value)
        found = [self.element(value, lane) for lane in range(self.width)]
        while len(found) > 1:
            found = [
                self.make("alu", node.type, (x, y), name)
                for x, y in zip(found[::2], found[1::2], strict=True)
            ]
        return self.make("atomic", node.type, (memory, index, *found), (name, False))

    def in_turn(
        self, node: Node, memory: Node, operands: Sequence[Node], mask: Node | None
    ) -> Node:
        """Emit an atomic for each lane; return what was there before."""
        found = []
        for lane in range(self.width):
            of_lane = (memory, *(self.element(o, lane) for o in operands))
            if mask is not None:
                of_lane = (*of_lane, self.element(mask, lane))
            attr = (node.attr[0], mask is not None)
            found.append(self.make("atomic", node.type, of_lane, attr))
        type = node.value_type.with_width(self.width)
        return self.made_wide(self.make("make", type, tuple(found)))

    def prefetch(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Keep the prefetch of an index that all lanes share; drop others."""
        return node if inputs[1] in self.wide else self.keep(node, inputs)

    def error(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, failed, code = inputs
        failed = self.both(self.mask, failed) or failed
        if code not in self.wide:
            return self.make("error", None, (memory, failed, code))
        lanes = range(self.width)
        each = [(memory, self.element(failed, i), self.element(code, i)) for i in lanes]
        return [self.make("error", None, inputs) for inputs in each][-1]


#: Atomics of which several on one element are one, of what an operation of the name makes of them.
_JOINED: Final = frozenset(("add", "min", "max", "and", "or", "xor"))


def _is_private(memory: Node) -> bool:
    return memory.kind == "alloc" and bool(memory.attr[0] == "private")
