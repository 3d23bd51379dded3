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

from pyrite.kernel.bounds.interval import Interval, exactly
from pyrite.kernel.bounds.linear import linear
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


def most_rounds(kernel: Kernel) -> int | None:
    """Return the most rounds of loops that an invocation takes; None where it cannot be told.

    That a loop is left is a round too, as it is to llvmpipe.  Bounds of loops are taken not to wrap
    around.
    """
    return _rounds_of(kernel.body, kernel)


def _rounds_of(region: Region, kernel: Kernel) -> int | None:
    total = 0
    for node in region.body:
        inner = [_rounds_of(r, kernel) for r in node.regions]
        if None in inner:
            return None
        found = sum(n for n in inner if n is not None)
        if node.kind in ("for", "while"):
            is_counted = node.kind == "for"
            rounds = _counted(node, kernel) if is_counted else _conditional(node)
            if rounds is None:
                return None
            is_written_out = is_counted and node.attr[1]
            found = rounds * found if is_written_out else rounds * (found + 1) + 1
        total += found
    return total


def _counted(loop: Node, kernel: Kernel) -> int | None:
    """Return the most rounds of a counted loop: by how much its end is beyond its begin."""
    start, stop = loop.inputs[:2]
    way = linear(stop).plus(linear(start), -1)
    known = {node: _of_lane(node, kernel) for node in way.terms}
    if None in known.values():
        return None
    farthest = way.within(lambda node: known[node] or exactly(0)).high
    return len(range(0, farthest, loop.attr[0]))


def _of_lane(node: Node, kernel: Kernel) -> Interval | None:
    """Return what the number of a lane may be; None for another node."""
    if node.kind != "builtin" or node.attr[0] not in ("local_id", "local_index"):
        return None
    name, axis = node.attr
    lanes = kernel.invocations if name == "local_index" else kernel.workgroup_size[axis]
    return Interval(0, lanes - 1)


def _conditional(loop: Node) -> int | None:
    """Return the most rounds of a loop on a condition of which a part bounds a counter."""
    condition, body = loop.regions
    found = [
        rounds
        for part in _parts(condition.yields[0])
        if part.kind == "alu" and part.attr in ("lt", "le")
        if (rounds := _until(loop, condition, body, part)) is not None
    ]
    return min(found, default=None)


def _parts(condition: Node) -> list[Node]:
    if condition.kind == "alu" and condition.attr == "and":
        return [part for x in condition.inputs for part in _parts(x)]
    return [condition]


def _until(loop: Node, condition: Region, body: Region, part: Node) -> int | None:
    """Return the rounds until a counter that grows by a number is as large as another."""
    counter, end = part.inputs
    if counter not in condition.parameters or end.kind != "const":
        return None
    place = condition.parameters.index(counter)
    first = loop.inputs[place]
    if first.kind != "const" or not first.value_type.dtype.is_integer:
        return None
    grown = linear(body.yields[place])
    before = body.parameters[place]
    if {_plain(node): times for node, times in grown.terms.items()} != {before: 1}:
        return None
    step = grown.constants[0]
    if step <= 0:
        return None
    return len(range(first.attr, end.attr + (part.attr == "le"), step))


def _plain(node: Node) -> Node:
    """Return the integer of which a node has the bits."""
    while node.kind == "bitcast" and node.inputs[0].value_type.dtype.is_integer:
        node = node.inputs[0]
    return node


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
        region, step = node.regions[0], node.attr[0]
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
