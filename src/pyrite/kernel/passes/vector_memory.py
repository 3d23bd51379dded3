"""Loads, stores and atomics of several lanes: consecutive where indices are, else gathers."""

from __future__ import annotations

from pyrite.kernel.ir import Node, Type
from pyrite.kernel.passes.vector_values import VectorValues


class VectorMemory(VectorValues):
    """The part of `vectorize` that reads and writes memory."""

    def alloc(self, node: Node, _: tuple[Node, ...]) -> Node:
        space, size, access = node.attr
        if space == "shared":
            return self.emit(node)
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
        where, is_aligned = self.place(memory, index)
        new_inputs: tuple[Node, ...] = (memory, where)
        if (mask := self.both(self.mask, given)) is not None:
            other = self.widen(inputs[3]) if given is not None else self.zero(type)
            new_inputs = (*new_inputs, mask, other)
        return self.made_wide(self.make("load", type, new_inputs, is_aligned))

    def zero(self, type: Type) -> Node:
        return self.const({"bool": False, "float": 0.0}.get(type.dtype.kind, 0), type)

    def store(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, index, value = inputs[:3]
        if self.wide.isdisjoint(inputs) and not _is_private(memory):
            return self.emit(node.with_inputs(inputs))
        where, is_aligned = self.place(memory, index)
        new_inputs: tuple[Node, ...] = (memory, where, self.widen(value))
        given = inputs[3] if len(inputs) == 4 else None
        if (mask := self.both(self.mask, given)) is not None:
            new_inputs = (*new_inputs, mask)
        return self.make("store", None, new_inputs, is_aligned)

    def atomic(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """One after the other."""
        name, has_mask = node.attr
        memory, *operands = inputs[: len(inputs) - has_mask]
        mask = self.both(self.mask, inputs[-1] if has_mask else None)
        found = []
        for lane in range(self.width):
            of_lane = (memory, *(self.element(o, lane) for o in operands))
            if mask is not None:
                of_lane = (*of_lane, self.element(mask, lane))
            found.append(self.make("atomic", node.type, of_lane, (name, mask is not None)))
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


def _is_private(memory: Node) -> bool:
    return memory.kind == "alloc" and bool(memory.attr[0] == "private")
