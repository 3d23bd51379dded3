"""Makes of loops that begin at the lane loops that all lanes of a workgroup run together.

``for i in range(first + lane, stop, step)``, as kernels for GPUs go through memory, becomes a loop
over the rounds, in which lane ``l`` has ``i = first + round + l``, and one for the rounds in which
some lanes are past the end.  So a round of a whole workgroup touches neighbours, and
`split_barriers` may have its lanes run round by round.

Requires a legal kernel; guarantees an equal one.  Loops that carry values stay as they are.
"""

from __future__ import annotations

from pyrite.kernel.ir import BOOL, Kernel, Node, Region
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.kernel.uniformity import varying


def align_rounds(kernel: Kernel) -> Kernel:
    """Return the kernel with loops that begin at the lane run by all lanes together."""
    if kernel.workgroup_size[0] != kernel.invocations or kernel.index.kind != "int":
        return kernel
    return _Aligner(kernel).run()


class _Aligner(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.varies = varying(kernel)
        #: Whether nodes are copied a second time: then none of them is itself.
        self.is_again = False

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind != "for" or not self.is_meant(node):
            return self.keep(node, inputs)
        others = [self.new[n] for n in self.beside_lane(node.inputs[0]) or ()]
        lane = self.make("builtin", inputs[0].type, (), ("local_index", 0))
        first = self.index(0)
        for other in others:
            first = self.alu("add", first, other)
        stop = inputs[1]
        everyone = self.alu("sub", stop, self.index(self.kernel.invocations - 1))
        after = self.rounds(node, (first, everyone), lane, None)
        before, self.is_again = self.is_again, True
        end = self.rounds(node, (after, stop), lane, stop)
        self.is_again = before
        return end

    def keep(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Emit the node itself, or a copy if that stands elsewhere."""
        if not self.is_again:
            return super().keep(node, inputs)
        regions = []
        for region in node.regions:
            parameters = [Node("parameter", p.type, (), p.attr) for p in region.parameters]
            regions.append(self.region(region, parameters))
        return self.make(node.kind, node.type, inputs, node.attr, tuple(regions))

    def is_meant(self, node: Node) -> bool:
        """Whether lanes begin a loop side by side, step over each other, and only write in it."""
        start, stop, *carried = node.inputs
        step, *_ = node.attr
        return (
            not carried
            and step >= self.kernel.invocations
            and stop not in self.varies
            and self.beside_lane(start) is not None
        )

    def beside_lane(self, node: Node) -> list[Node] | None:
        """Return what is added to the number of a lane; None for what is no such sum."""
        if node.kind == "builtin":
            name, axis = node.attr
            is_lane = name == "local_index" or (name == "local_id" and axis == 0)
            return [] if is_lane else None
        if node.kind != "alu" or node.attr != "add":
            return None
        for x, y in (node.inputs, node.inputs[::-1]):
            if y not in self.varies and (found := self.beside_lane(x)) is not None:
                return [*found, y]
        return None

    def rounds(self, node: Node, bounds: tuple[Node, Node], lane: Node, limit: Node | None) -> Node:
        """Emit a loop of lane 0's counter, with a limit for those who are below; return its end."""
        step = node.attr[0]
        counter, after = (Node("parameter", lane.type, (), n) for n in range(2))
        outer, self.body = self.body, []
        own = self.alu("add", counter, lane)
        if limit is None:
            self.inside(node, own)
        else:
            below = self.make("alu", BOOL, (own, limit), "lt")
            kept, self.body = self.body, []
            self.inside(node, own)
            inside, self.body = self.body, kept
            self.make("if", None, (below,), None, (Region((), tuple(inside)), Region((), ())))
        following = self.alu("add", counter, self.index(step))
        region = Region((counter, after), tuple(self.body), (following,))
        self.body = outer
        loop = self.make("for", None, (*bounds, bounds[0]), (step, False, False), (region,))
        return self.make("result", lane.type, (loop,), 0)

    def inside(self, node: Node, counter: Node) -> None:
        """Emit a round, with that counter."""
        (region,) = node.regions
        self.new[region.parameters[0]] = counter
        self.copy(region.body)
