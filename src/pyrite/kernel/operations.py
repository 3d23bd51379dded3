"""How much a kernel computes: its operations on floats, in one of its invocations.

Indices are computed as far as they do not depend on data, so loops count as often as they run and
of a branch the side that is taken.  What data decides is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyrite.kernel.arithmetic import ALU, cast
from pyrite.kernel.ir import RARE, Kernel, Node, Region

#: What an operation counts for each element; what is not here counts nothing.
_COUNTS: Final = {"add": 1, "sub": 1, "mul": 1, "div": 1, "sqrt": 1, "fma": 2}
#: Rounds of a loop that ends by data.
_GUESSED_ROUNDS: Final = 64


def operations(
    kernel: Kernel, bindings: Sequence[Any], grid: Sequence[int], workgroup: Sequence[int]
) -> float:
    """Return the operations on floats of the middle invocation of a workgroup.

    An addition, a product, a quotient and a root count one, of each element of a vector, and of
    float64 two.  ``bindings`` are those of a launch, by the kernel's parameters; of them numbers
    matter.  Where data decides, the longer side of a branch counts, the other one of a branch that
    is rare, and 64 rounds of a loop.
    """
    with np.errstate(all="ignore"):
        return _Invocation(kernel, bindings, grid, workgroup).region(kernel.body)


class _Invocation:
    """One invocation: the numbers that are known, by node."""

    def __init__(
        self, kernel: Kernel, bindings: Sequence[Any], grid: Sequence[int], workgroup: Sequence[int]
    ) -> None:
        size = kernel.workgroup_size
        self._builtins = {
            "workgroup_id": (*workgroup, 0, 0), "num_workgroups": (*grid, 1, 1),
            "local_id": tuple(n // 2 for n in size), "local_index": (kernel.invocations // 2,),
        }  # fmt: skip
        self._known: dict[Node, Any] = {
            p: p.value_type.dtype.numpy.type(bindings[p.attr[0]])
            for p in kernel.parameters
            if p.kind == "argument"
        }

    def region(self, region: Region) -> float:
        """Return what a region counts, run once."""
        return sum([self._node(node) for node in region.body])

    def _node(self, node: Node) -> float:
        if node.kind == "for":
            return self._for(node)
        if node.kind == "while":
            return _GUESSED_ROUNDS * sum([self.region(r) for r in node.regions])
        if node.kind == "if":
            known = self._known.get(node.inputs[0])
            if known is not None:
                return self.region(node.regions[0 if known else 1])
            if node.attr == RARE:
                return self.region(node.regions[1])
            return max([self.region(r) for r in node.regions])
        if node.type is None:
            return 0.0
        if node.type.dtype.is_float:
            count = _COUNTS.get(node.attr, 0) if node.kind == "alu" else 0
            return float(count * node.type.width * max(1, node.type.dtype.itemsize // 4))
        if node.type.width == 1 and (number := self._number(node)) is not None:
            self._known[node] = number
        return 0.0

    def _for(self, node: Node) -> float:
        (body,) = node.regions
        start, stop = (self._known.get(i) for i in node.inputs[:2])
        if start is None or stop is None:
            return _GUESSED_ROUNDS * self.region(body)
        step: int = node.attr[0]
        rounds = max(0, -(-(int(stop) - int(start)) // step))
        make = node.inputs[0].value_type.dtype.numpy.type
        found = []
        # A round in the middle stands for all; of two, of which the last may be short, each.
        for n in range(rounds) if rounds <= 2 else (rounds // 2,):
            self._known[body.parameters[0]] = make(start + n * step)
            found.append(self.region(body))
        return sum(found) * rounds / len(found) if found else 0.0

    def _number(self, node: Node) -> Any:
        """Return an index, or whether something holds, as a number; None if data decides."""
        make = node.value_type.dtype.numpy.type
        if node.kind == "const":
            return make(node.attr)
        if node.kind == "builtin":
            of_axis = self._builtins.get(node.attr[0])
            return None if of_axis is None else make(of_axis[node.attr[1]])
        known = [self._known.get(i) for i in node.inputs]
        if node.kind == "select" and known[0] is not None:
            return known[1] if known[0] else known[2]
        if any(x is None for x in known):
            return None
        if node.kind == "cast":
            return cast(np.asarray(known[0]), node.value_type.dtype)[()]
        if node.kind != "alu" or (node.attr in ("div", "rem") and not known[1]):
            return None
        return ALU[node.attr](*known)
