"""Has each loop report whether the device ended it before its condition did.

Requires a kernel with an error word and an argument for its code among its parameters.  Guarantees
an equal one which raises the word where a loop's condition still held behind the loop.

Nothing else would tell: Mesa's llvmpipe counts the rounds of all loops of an invocation, and past
65535 leaves each loop after one round.  How often it counts a round depends on how invocations
share a vector, so the rounds cannot be counted here; that a loop was left early can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyrite.kernel.builder import Memory, Value
from pyrite.kernel.ir import Kernel, Node, Region, scalar
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter
from pyrite.types import uint32


def report_rounds(kernel: Kernel, word: Node, code: Node) -> Kernel:
    """Return the kernel with a report behind each loop that is not written out.

    >>> from pyrite.kernel.builder import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("turn")
    >>> x = b.buffer("x", float32, "read_write")
    >>> word = b.buffer("word", uint32, "atomic")
    >>> code = b.scalar("code", uint32)
    >>> with b.for_(0, 9) as loop:
    ...     x[loop.index] = -x[loop.index]
    >>> watched = report_rounds(b.build(), word.node, code.node)
    >>> [node.kind for node in watched.body.body[-3:]]
    ['result', 'alu', 'error']
    """
    return _Reporter(kernel, word, code).run()


def most_rounds(region: Region) -> int | None:
    """Return the most rounds of loops that a run of a region takes; None where it cannot be told.

    That a loop is left is a round too, as it is to llvmpipe.
    """
    total = 0
    for node in region.body:
        inner = [most_rounds(r) for r in node.regions]
        if node.kind == "while" or None in inner:
            return None
        found = sum(n for n in inner if n is not None)
        if node.kind == "for":
            start, stop = node.inputs[:2]
            if start.kind != "const" or stop.kind != "const":
                return None
            step, is_written_out = node.attr
            rounds = len(range(start.attr, stop.attr, step))
            found = rounds * found if is_written_out else rounds * (found + 1) + 1
        total += found
    return total


class _Reporter(Rewriter):
    def __init__(self, kernel: Kernel, word: Node, code: Node) -> None:
        super().__init__(kernel)
        self.b = EmittingBuilder(self)
        self.word, self.code = Memory(self.b, word), self.b.of(code)
        #: Memory of each invocation for the loops on a condition.
        self.flags: list[Node] = []

    def run(self) -> Kernel:
        body = self.region(self.kernel.body)
        return replace(self.kernel, body=replace(body, body=(*self.flags, *body.body)))

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind == "while":
            return self.while_(node, inputs)
        if node.kind == "for" and not node.attr[1]:
            return self.for_(node, inputs)
        return self.keep(node, inputs)

    def for_(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Carry where the counter goes on, which is short of the end where rounds are missing."""
        start, stop, *_ = inputs
        region, (step, _) = node.regions[0], node.attr
        reached = Node("parameter", start.type, (), len(region.parameters))

        def advance() -> tuple[Node, ...]:
            return ((self.b.of(self.new[region.parameters[0]]) + step).node,)

        body = self.extended(region, (reached,), advance)
        loop = self.make("for", None, (*inputs, start), node.attr, (body,))
        last = self.make("result", start.type, (loop,), len(region.yields))
        self.report(self.b.of(last) < self.b.of(stop))
        return loop

    def while_(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Keep the condition each time, of which the last is false where the loop ended itself."""
        condition, body = node.regions
        flag = Node("alloc", scalar(uint32), (), ("private", 1, "read_write"))
        self.flags.append(flag)
        memory = Memory(self.b, flag)

        def keep_condition() -> tuple[Node, ...]:
            memory.store(0, self.b.cast(self.b.of(self.new[condition.yields[0]]), uint32))
            return ()

        regions = (self.extended(condition, (), keep_condition), self.region(body))
        loop = self.make("while", None, inputs, None, regions)
        self.report(memory.load(0) != 0)
        return loop

    def extended(
        self, region: Region, parameters: tuple[Node, ...], end: Callable[[], tuple[Node, ...]]
    ) -> Region:
        """Return the copy of a region with more parameters, nodes at its end, and yields."""
        outer, self.body = self.body, []
        self.new.update(zip(region.parameters, region.parameters, strict=True))
        self.copy(region.body)
        more = end()
        body, self.body = self.body, outer
        return Region(
            (*region.parameters, *parameters), tuple(body), (*self.of(region.yields), *more)
        )

    def report(self, failed: Value) -> None:
        self.b.error(self.word, failed, self.code)
