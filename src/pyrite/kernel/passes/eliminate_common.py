"""Computes equal values once.

Requires a legal kernel.  Guarantees an equal one in which no pure node, and no load from a buffer
that is only read, stands where an equal one is in scope.  Operands of commutative operations are
put in order first.  Values are not moved out of branches and loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.kernel.ir import OPCODES, Kernel, Node, Region
from pyrite.kernel.passes.rewrite import Rewriter


def eliminate_common(kernel: Kernel) -> Kernel:
    """Return the kernel with equal values merged."""
    return _Merger(kernel).run()


class _Merger(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.scopes: list[dict[object, Node]] = []
        self.order: dict[Node, int] = {p: i for i, p in enumerate(kernel.parameters)}

    def region(self, region: Region, parameters: Sequence[Node] | None = None) -> Region:
        for p in region.parameters:
            self.order.setdefault(p, len(self.order))
        self.scopes.append({})
        result = super().region(region, parameters)
        self.scopes.pop()
        return result

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind == "alu" and OPCODES[node.attr].is_commutative:
            inputs = tuple(sorted(inputs, key=self.order.__getitem__))
        if not _is_shareable(node):
            kept = self.keep(node, inputs)
        else:
            attr = repr(node.attr) if node.kind == "const" else node.attr
            key = (node.kind, node.type, attr, inputs)
            for scope in self.scopes:
                if (found := scope.get(key)) is not None:
                    return found
            kept = self.scopes[-1][key] = self.keep(node, inputs)
        self.order.setdefault(kept, len(self.order))
        return kept


def _is_shareable(node: Node) -> bool:
    if node.kind == "load":
        memory = node.inputs[0]
        return memory.kind == "buffer" and bool(memory.attr[2] == "read")
    return node.effect == "pure"
