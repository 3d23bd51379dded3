"""What passes share: walking a kernel in order and building the new one beside it.

A pass derives from `Rewriter` and overrides `visit`, which is given each node with its inputs
already replaced.  Whatever it emits stands at the place of that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Kernel, Kind, Node, Region, Type, scalar
from pyrite.types import Number


class Rewriter:
    """Copies a kernel node by node; the copy of a node that did not change is the node itself."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        #: What stands for each node of the old kernel.
        self.new: dict[Node, Node] = {p: p for p in kernel.parameters}
        self.body: list[Node] = []

    def run(self) -> Kernel:
        """Return the new kernel."""
        return replace(self.kernel, body=self.region(self.kernel.body))

    def region(self, region: Region, parameters: Sequence[Node] | None = None) -> Region:
        """Return the copy of a region, with other parameters if they are given."""
        outer, self.body = self.body, []
        new = region.parameters if parameters is None else tuple(parameters)
        self.new.update(zip(region.parameters, new, strict=True))
        self.copy(region.body)
        body, self.body = self.body, outer
        return Region(new, tuple(body), self.of(region.yields))

    def copy(self, nodes: Sequence[Node]) -> None:
        """Put the copies of nodes at the present place."""
        for node in nodes:
            self.new[node] = self.visit(node, self.of(node.inputs))

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Return what stands for the node; the pass overrides this."""
        return self.keep(node, inputs)

    def keep(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Emit the node itself, its regions copied."""
        regions = tuple([self.region(r) for r in node.regions])
        is_same = inputs == node.inputs and all(map(_is_same, regions, node.regions))
        if is_same:
            return self.emit(node)
        return self.make(node.kind, node.type, inputs, node.attr, regions)

    def of(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return what stands for the nodes."""
        return tuple([self.new[n] for n in nodes])

    def emit(self, node: Node) -> Node:
        """Put a node at the present place and return it."""
        self.body.append(node)
        return node

    def make(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Emit a new node."""
        return self.emit(Node(kind, type, inputs, attr, regions))

    def const(self, value: Number, type: Type) -> Node:
        """Emit a constant, which is exact in the type."""
        return self.make("const", type, (), value)

    def index(self, value: int) -> Node:
        """Emit a constant of the index dtype."""
        return self.const(value, scalar(self.kernel.index))

    def alu(self, name: str, *inputs: Node) -> Node:
        """Emit an operation that gives the type of its operands."""
        return self.make("alu", inputs[0].type, inputs, name)


def _is_same(x: Region, y: Region) -> bool:
    return x.parameters == y.parameters and x.body == y.body and x.yields == y.yields


class EmittingBuilder(KernelBuilder):
    """A builder that emits at the place where a rewriter is, so that passes may use operators."""

    def __init__(self, rewriter: Rewriter) -> None:
        super().__init__(rewriter.kernel.name, index=rewriter.kernel.index)
        self.rewriter = rewriter

    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Append a node to the new kernel."""
        return self.rewriter.make(kind, type, inputs, attr, regions)
