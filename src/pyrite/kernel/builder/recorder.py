"""The nodes of a kernel that is being written: regions inside regions, equal pure nodes once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyrite.kernel.ir import Kind, Node, Region, Type

#: Kinds of which an equal node in scope is the same value.
_SHARED = frozenset(
    ("const", "builtin", "alu", "cast", "bitcast", "select", "splat", "make", "extract", "result")
)


class RegionScope:
    """A region that is being written."""

    __slots__ = ("body", "made", "parameters")

    def __init__(self, parameters: Iterable[Node] = ()) -> None:
        self.parameters = tuple(parameters)
        self.body: list[Node] = []
        self.made: dict[object, Node] = {}

    def region(self, yields: Iterable[Node] = ()) -> Region:
        return Region(self.parameters, tuple(self.body), tuple(yields))


class NodeRecorder:
    """Where nodes are recorded: the outermost region, and those that are open in it."""

    def __init__(self) -> None:
        self._scopes = [RegionScope()]

    @property
    def body(self) -> tuple[Node, ...]:
        """The nodes of the outermost region."""
        return tuple(self._scopes[0].body)

    @property
    def is_closed(self) -> bool:
        """Whether every region but the outermost is."""
        return len(self._scopes) == 1

    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Append a node, or return the equal pure node that is in scope already."""
        if kind not in _SHARED:
            node = Node(kind, type, inputs, attr, regions)
            self._scopes[-1].body.append(node)
            return node
        # repr tells -0.0 from 0.0, and NaN equals itself.
        key = (kind, type, repr(attr) if kind == "const" else attr, inputs)
        for scope in self._scopes:
            if (found := scope.made.get(key)) is not None:
                return found
        scope = self._scopes[-1]
        node = scope.made[key] = Node(kind, type, inputs, attr)
        scope.body.append(node)
        return node

    def open(self, parameters: Iterable[Node] = ()) -> None:
        """Begin a region."""
        self._scopes.append(RegionScope(parameters))

    def close(self, yields: Iterable[Node] = ()) -> Region:
        """End the region begun last and return it."""
        return self._scopes.pop().region(yields)

    def discard(self) -> None:
        """Drop the region begun last, of which an exception broke the writing."""
        self._scopes.pop()

    def suspend(self) -> RegionScope:
        """Leave the region begun last as it is, to be gone on with by `resume`."""
        return self._scopes.pop()

    def resume(self, scope: RegionScope) -> None:
        """Go on with a region."""
        self._scopes.append(scope)

    def recorded(self) -> tuple[Node, ...]:
        """Return the nodes of the region that is being written."""
        return tuple(self._scopes[-1].body)

    def position(self) -> int:
        """Return the number of nodes in the region that is being written."""
        return len(self._scopes[-1].body)

    def replace_last(self, node: Node) -> None:
        """Put a node in the place of the last one: a branch that got an ``else_``."""
        self._scopes[-1].body[-1] = node
