"""Subgroups: what active invocations next to each other do together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyrite.kernel.arithmetic import ALU, neutral
from pyrite.kernel.interpret.control import Control
from pyrite.kernel.ir import Node, dtype_of
from pyrite.types import Array


class Subgroups(Control):
    """The part of the interpreter that is collective."""

    def subgroups(self) -> list[Array]:
        """Return the active invocations of each subgroup, by rising lane."""
        size = self.subgroup_size
        keys = self.row * -(-self.kernel.invocations // size) + self.local // size
        return [np.flatnonzero(self.active & (keys == k)) for k in np.unique(keys[self.active])]

    def collective(self, node: Node) -> None:
        x = self.spread(node.inputs[0])
        type = node.value_type
        shape = (self.lanes,) if type.width == 1 else (self.lanes, type.width)
        result = np.zeros(shape, dtype=type.dtype.numpy)
        for lanes in self.subgroups():
            result[lanes] = _COLLECTIVE[node.kind](self, node, x[lanes], lanes)
        self.values[node] = result

    def shuffled(self, node: Node, x: Array, lanes: Array) -> Array:
        lane = self.local[lanes] % self.subgroup_size
        n = self.spread(node.inputs[1])[lanes].astype(np.int64)
        wanted = {"index": n, "xor": lane ^ n, "up": lane - n, "down": lane + n}[node.attr]
        position = {int(at): i for i, at in enumerate(lane)}
        found = [position.get(int(w), i) for i, w in enumerate(wanted)]
        return np.asarray(x[found])

    def ballot(self, _: Node, x: Array, lanes: Array) -> Array:
        bits = sum(1 << int(lane % self.subgroup_size) for lane in self.local[lanes[x]])
        return np.array([bits >> 32 * i & 0xFFFFFFFF for i in range(4)], dtype=np.uint32)

    def reduced(self, node: Node, x: Array, _: Array) -> Array:
        return _accumulate(node.attr, x)[-1:]

    def scanned(self, node: Node, x: Array, _: Array) -> Array:
        name, is_inclusive = node.attr
        total = _accumulate(name, x)
        if is_inclusive:
            return total
        identity = np.full_like(x[:1], neutral(name, dtype_of(node)))
        return np.concatenate([identity, total[:-1]])

    def broadcast(self, _: Node, x: Array, __: Array) -> Array:
        return x[:1]


def _accumulate(name: str, x: Array) -> Array:
    """Combine the rows up to each one, from the first on."""
    rows = [x[:1]]
    for i in range(1, len(x)):
        rows.append(ALU[name](rows[-1], x[i : i + 1]))
    return np.concatenate(rows)


_COLLECTIVE: dict[str, Callable[[Subgroups, Node, Array, Array], Array]] = {
    "subgroup_reduce": Subgroups.reduced, "subgroup_scan": Subgroups.scanned,
    "subgroup_shuffle": Subgroups.shuffled, "subgroup_broadcast": Subgroups.broadcast,
    "subgroup_ballot": Subgroups.ballot,
}  # fmt: skip
