"""Drops what nobody sees: values without a use, control nodes without effects, unused allocations.

Requires a legal kernel.  Guarantees an equal one in which every value is used by something that
writes or fetches, or decides whether it does.  A load outside its memory is dropped with its value.
"""

from __future__ import annotations

from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.kernel.passes.rewrite import Rewriter

_SEEN = frozenset(("store", "atomic", "prefetch", "error", "barrier"))


def eliminate_dead(kernel: Kernel) -> Kernel:
    """Return the kernel without dead nodes."""
    live: set[Node] = set()
    _mark_effects(kernel.body, live)
    return _Sweeper(kernel, live).run()


def _mark_effects(region: Region, live: set[Node]) -> bool:
    """Mark what the effects in a region need; return whether there are any."""
    found = False
    for node in region.body:
        if node.kind in _SEEN:
            _mark(node, live)
            found = True
        elif node.regions:
            inside = [_mark_effects(r, live) for r in node.regions]
            # A while may run for ever: that is not an effect here.
            if any(inside):
                _mark(node, live)
                found = True
    return found


def _mark(node: Node, live: set[Node]) -> None:
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node in live:
            continue
        live.add(node)
        waiting.extend(node.inputs)
        for region in node.regions:
            waiting.extend(region.yields)


class _Sweeper(Rewriter):
    def __init__(self, kernel: Kernel, live: set[Node]) -> None:
        super().__init__(kernel)
        self.live = live

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        return self.keep(node, inputs) if node in self.live else node

    def of(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:  # type: ignore[override]
        """Inputs of dead nodes are dead too and stand for themselves."""
        return tuple([self.new.get(n, n) for n in nodes])
