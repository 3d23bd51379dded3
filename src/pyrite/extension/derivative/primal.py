"""Values of the kernel itself, where its derivative needs them.

What stands at the top of the body is there.  What a loop or a branch computed ended with it, and is
computed again from what it is made of: nothing in such a kernel changes what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyrite.extension.derivative.tape import DerivedScope
from pyrite.kernel import Value
from pyrite.kernel.ir import Node, Region


class CarriedWanted(Exception):
    """A derivative needs what a loop carried, in each round."""

    def __init__(self, parameter: Node) -> None:
        super().__init__(parameter)
        self.parameter = parameter


class Primal:
    """Gives the values of nodes, inside of regions of a derivative that are opened and closed."""

    def __init__(self, scope: DerivedScope, hidden: frozenset[Node]) -> None:
        self._scope = scope
        self._hidden = hidden
        #: For each open region, what stands for nodes in it.
        self._frames: list[dict[Node, Node]] = [{}]

    @contextmanager
    def frame(self, known: Mapping[Node, Node]) -> Iterator[None]:
        """Within a region that is open, have nodes stand for some."""
        self._frames.append(dict(known))
        try:
            yield
        finally:
            self._frames.pop()

    @contextmanager
    def region(
        self, parameters: Sequence[Node] = (), known: Mapping[Node, Node] | None = None
    ) -> Iterator[None]:
        """Open a region, which the caller closes; an error drops it."""
        self._scope.open(parameters)
        with self.frame(known or {}):
            try:
                yield
            except BaseException:
                self._scope.discard()
                raise

    def know(self, nodes: Iterable[Node], found: Iterable[Node]) -> None:
        """Have nodes stand for some in the region begun last."""
        self._frames[-1].update(zip(nodes, found, strict=True))

    def value(self, node: Node) -> Value:
        """Return the value of a node."""
        return self._scope.plain.of(self.node(node))

    def node(self, node: Node) -> Node:
        """Return what stands for a node here."""
        found = self._found(node)
        if found is not None:
            return found
        waiting = [node]
        while waiting:
            top = waiting[-1]
            missing = [i for i in top.inputs if self._found(i) is None]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                if self._found(top) is None:
                    self._frames[-1][top] = self._made(top)
        found = self._found(node)
        assert found is not None
        return found

    def _found(self, node: Node) -> Node | None:
        if node not in self._hidden:
            return node
        for frame in reversed(self._frames):
            if node in frame:
                return frame[node]
        return None

    def _made(self, node: Node) -> Node:
        if node.kind == "parameter":
            raise CarriedWanted(node)
        inputs = tuple(map(self.node, node.inputs))
        regions = tuple(self._region(r) for r in node.regions)
        return self._scope.emit(node.kind, node.type, inputs, node.attr, regions)

    def _region(self, region: Region) -> Region:
        """Return a region once more, without what it writes."""
        parameters, known = _again(region)
        with self.region(parameters, known):
            self._body(region)
            yields = [self.node(y) for y in region.yields]
        return self._scope.close(yields)

    def _body(self, region: Region) -> None:
        for node in region.body:
            if node.kind not in ("prefetch", "error"):
                self.node(node)

    def rounds(
        self,
        loop: Node,
        stop: Value,
        at_each: Callable[[Node, Sequence[Node]], None] | None = None,
    ) -> list[Node]:
        """Run the rounds of a loop before a stop; return what it carries then.

        ``at_each`` is called in each round, with the counter and what is carried into it.
        """
        (region,) = loop.regions
        scope = self._scope
        start, initial = self.node(loop.inputs[0]), [self.node(i) for i in loop.inputs[2:]]
        parameters, known = _again(region)
        with self.region(parameters, known):
            if at_each is not None:
                at_each(parameters[0], parameters[1:])
            self._body(region)
            yields = [self.node(y) for y in region.yields]
        made = scope.close(yields)
        node = scope.emit("for", None, (start, stop.node, *initial), loop.attr, (made,))
        return [
            scope.emit("result", p.type, (node,), i) for i, p in enumerate(region.parameters[1:])
        ]


def _again(region: Region) -> tuple[tuple[Node, ...], dict[Node, Node]]:
    """Return parameters like those of a region, and what they stand for."""
    parameters = tuple(Node("parameter", p.type, (), p.attr) for p in region.parameters)
    return parameters, dict(zip(region.parameters, parameters, strict=True))
