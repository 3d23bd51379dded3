"""Constants, builtins and arithmetic: what a node computes of values alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.kernel.arithmetic import ALU, cast
from pyrite.kernel.interpret.batch import Batch
from pyrite.kernel.interpret.memory import first
from pyrite.kernel.ir import Node, dtype_of
from pyrite.types import Array


class Arithmetic(Batch):
    """The part of the interpreter that computes."""

    def const(self, node: Node) -> None:
        if node in self.values:  # of an earlier round
            return
        type = node.value_type
        shape = (1,) if type.width == 1 else (1, type.width)
        numbers = np.asarray(node.attr, dtype=type.dtype.numpy)
        self.values[node] = np.broadcast_to(numbers, shape)

    def builtin(self, node: Node) -> None:
        name, axis = node.attr
        if name == "num_workgroups":
            value: Any = [self.counts[axis]]
        elif name == "workgroup_id":
            value = _axis(self.group, self.counts, axis)
        elif name == "local_id":
            value = _axis(self.local, self.kernel.workgroup_size, axis)
        elif name == "local_index":
            value = self.local
        elif name == "subgroup_lane":
            value = self.local % self.subgroup_size
        else:
            value = [self.subgroup_size]
        self.values[node] = np.asarray(value, dtype=self.kernel.index.numpy)

    def alu(self, node: Node) -> None:
        inputs = [self.values[i] for i in node.inputs]
        if node.attr in ("div", "rem") and inputs[0].dtype.kind in "iu":
            inputs[1] = self.divisor(node, *inputs)
        self.values[node] = ALU[node.attr](*inputs)

    def divisor(self, node: Node, x: Array, y: Array) -> Array:
        """Return y with 1 where the quotient does not exist; a fault where that is active."""
        wrong = y == 0
        if x.dtype.kind == "i":
            wrong = wrong | ((y == -1) & (x == np.iinfo(x.dtype).min))
        if not np.count_nonzero(wrong):
            return y
        active = (wrong.T & self.active).T
        if active.any():
            self.fault(node, f"integer {node.attr} by 0, or overflow", first(active))
        return np.where(wrong, y.dtype.type(1), y)

    def cast(self, node: Node) -> None:
        self.values[node] = cast(self.of(node.inputs[0]), dtype_of(node))

    def bitcast(self, node: Node) -> None:
        x = np.ascontiguousarray(self.of(node.inputs[0]))
        self.values[node] = x.view(dtype_of(node).numpy)

    def select(self, node: Node) -> None:
        condition, x, y = (self.of(i) for i in node.inputs)
        if condition.ndim < x.ndim:
            condition = condition[:, None]
        self.values[node] = np.where(condition, x, y)

    def splat(self, node: Node) -> None:
        x = self.of(node.inputs[0])
        width = node.value_type.width
        self.values[node] = x.repeat(width).reshape(len(x), width)

    def make(self, node: Node) -> None:
        columns = np.broadcast_arrays(*(self.of(i) for i in node.inputs))
        self.values[node] = np.stack(columns, axis=1)

    def extract(self, node: Node) -> None:
        self.values[node] = self.of(node.inputs[0])[:, node.attr]


def _axis(linear: Array, sizes: tuple[int, ...], axis: int) -> Array:
    """Return one coordinate of positions in a box, axis 0 fastest."""
    below = int(np.prod(sizes[:axis]))
    return linear // below % sizes[axis]
