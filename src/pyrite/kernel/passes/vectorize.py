"""Makes one invocation do the work of ``width`` neighbours on axis 0, in vectors.

Requires a legal kernel whose workgroup is a multiple of the width on axis 0, without subgroup
operations but those of whole subgroups of as many (`vector_subgroups`); where a value that varies
is a vector already, or these do not hold, the kernel is returned as it is.  Guarantees an equal one
whose workgroup is so many times shorter on axis 0, without subgroup operations.

What varies between the neighbours becomes a vector, what does not stays a scalar.  Indices known as
a scalar plus a multiple of the lane make consecutive loads and stores; others gather and scatter.
Where neighbours part ways both ways are gone under masks, each only if a lane takes it; a counted
loop that begins at the lane and ends together runs without masks up to the last round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.passes.vector_control import VectorControl
from pyrite.kernel.passes.vector_memory import VectorMemory
from pyrite.kernel.passes.vector_subgroups import (
    SUBGROUP,
    VectorSubgroups,
    are_whole,
    has_subgroups,
)
from pyrite.kernel.uniformity import varying


def vectorize(kernel: Kernel, width: int) -> Kernel:
    """Return the kernel with neighbours joined, or the kernel itself where that cannot be."""
    varies = varying(kernel)
    if width == 1 or kernel.workgroup_size[0] % width or not _can_widen(kernel, varies, width):
        return kernel
    x, y, z = kernel.workgroup_size
    new = _Vectorizer(kernel, width, varies).run()
    return replace(new, workgroup_size=(x // width, y, z))


def joins_subgroups(kernel: Kernel) -> bool:
    """Whether subgroups can be vectors: see `vector_subgroups`."""
    return _can_widen(kernel, varying(kernel), SUBGROUP)


def _can_widen(kernel: Kernel, varies: set[Node], width: int) -> bool:
    if has_subgroups(kernel) and not (width == SUBGROUP and are_whole(kernel)):
        return False
    for node in kernel.walk():
        value = node.inputs[2] if node.kind == "store" else node
        if value.type is not None and value.type.width > 1 and (node in varies or value in varies):
            return False
    return True


class _Vectorizer(VectorMemory, VectorControl, VectorSubgroups):
    """Joins neighbours: by kind of node, a rule of its parts, else the operation in all lanes."""

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind == "result":
            return self.results[node.inputs[0]][int(node.attr)]
        if (rule := _RULES.get(node.kind)) is not None:
            return rule(self, node, inputs)
        if self.wide.isdisjoint(inputs):
            return self.keep(node, inputs)
        return self.alike(node, inputs) or self.widened(node, inputs)

    def builtin(self, node: Node, _: tuple[Node, ...]) -> Node:
        name, axis = node.attr
        node = self.emit(node)
        if name == "local_index" or (name == "local_id" and axis == 0):
            return self.from_lanes(self.alu("mul", node, self.index(self.width)), 1)
        return node


_RULES: dict[str, Callable[[_Vectorizer, Node, tuple[Node, ...]], Node]] = {
    "builtin": _Vectorizer.builtin, "alloc": _Vectorizer.alloc, "load": _Vectorizer.load,
    "store": _Vectorizer.store, "atomic": _Vectorizer.atomic, "prefetch": _Vectorizer.prefetch,
    "error": _Vectorizer.error, "if": _Vectorizer.branch, "for": _Vectorizer.counted,
    "while": _Vectorizer.parting_loop, "subgroup_reduce": _Vectorizer.collective,
    "subgroup_scan": _Vectorizer.collective, "subgroup_broadcast": _Vectorizer.collective,
    "subgroup_shuffle": _Vectorizer.collective,
}  # fmt: skip
