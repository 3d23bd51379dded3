"""Uniformity: the values that are the same in all invocations of a workgroup.

A conservative data-flow analysis: what is not shown to be uniform varies.  Sources of variation are
the builtins that tell invocations apart, loads of memory that a kernel writes, atomics, subgroup
operations, and all that is computed or carried where only some invocations come by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyrite.kernel.ir import Kernel, Node, Region, walk

_VARYING_BUILTINS = ("local_id", "local_index", "subgroup_lane")


def varying(kernel: Kernel, also: Iterable[Node] = ()) -> set[Node]:
    """Return the nodes whose value may differ between invocations of one workgroup.

    ``also`` are nodes to be taken for such, with all that depends on them.  A control node is in
    the set when not all invocations take the same way through it: its regions are then run by some
    invocations only.
    """
    analysis = _Analysis(also)
    analysis.region(kernel.body)
    return analysis.varying


def stray_barriers(kernel: Kernel) -> list[Node]:
    """Return the barriers that only some invocations of a workgroup may come by, and so hang."""
    return stray(kernel, ("barrier",))


def stray(kernel: Kernel, kinds: Collection[str]) -> list[Node]:
    """Return the nodes of these kinds that only some invocations of a workgroup may come by."""
    apart = varying(kernel)
    return [
        node
        for control in kernel.walk()
        if control in apart
        for region in control.regions
        for node in walk(region)
        if node.kind in kinds
    ]


class _Analysis:
    def __init__(self, also: Iterable[Node]) -> None:
        self.varying: set[Node] = set(also)

    def any(self, nodes: tuple[Node, ...]) -> bool:
        return not self.varying.isdisjoint(nodes)

    def region(self, region: Region) -> None:
        for node in region.body:
            if node.kind == "if":
                self.branch(node)
            elif node.regions:
                self.loop(node)
            elif self.varies(node):
                self.varying.add(node)

    def varies(self, node: Node) -> bool:
        kind = node.kind
        if kind == "builtin":
            return node.attr[0] in _VARYING_BUILTINS
        if kind == "load":
            memory = node.inputs[0]
            is_constant = memory.kind == "buffer" and memory.attr[2] == "read"
            return not is_constant or self.any(node.inputs)
        if kind == "result":
            return node.inputs[0] in self.varying or self.any(_sources(node.inputs[0], node.attr))
        if kind == "atomic" or kind.startswith("subgroup"):
            return True
        return self.any(node.inputs)

    def branch(self, node: Node) -> None:
        if node.inputs[0] in self.varying:
            self.varying.add(node)
        for region in node.regions:
            self.region(region)

    def loop(self, node: Node) -> None:
        """Repeat until nothing new varies: a round may carry what varies into the next."""
        is_counted = node.kind == "for"
        bounds, initial = (node.inputs[:2], node.inputs[2:]) if is_counted else ((), node.inputs)
        if self.any(bounds):
            self.varying.update((node, node.regions[0].parameters[0]))
        carried = [r.parameters[1:] if is_counted else r.parameters for r in node.regions]
        incoming = [initial, *(r.yields for r in _yielding(node))]
        known = -1
        while known != len(self.varying):
            known = len(self.varying)
            for i in range(len(initial)):
                if self.any(tuple(values[i] for values in incoming)):
                    self.varying.update(parameters[i] for parameters in carried)
            for region in node.regions:
                self.region(region)
            if not is_counted and node.regions[0].yields[0] in self.varying:
                self.varying.add(node)
            if node in self.varying:
                # Who leaves early keeps the value of an earlier round.
                self.varying.update(p for region in node.regions for p in region.parameters)


def _sources(control: Node, i: int) -> tuple[Node, ...]:
    """Return what becomes result i: what an if yields or a loop carries, which may run no round."""
    if control.kind == "if":
        return tuple(region.yields[i] for region in control.regions)
    return (control.regions[0].parameters[i + (control.kind == "for")],)


def _yielding(control: Node) -> tuple[Region, ...]:
    """The regions whose yields become results: all but the condition of a while."""
    return control.regions[1:] if control.kind == "while" else control.regions
