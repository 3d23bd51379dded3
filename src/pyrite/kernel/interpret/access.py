"""Loads, stores and atomics, each checked: bounds, alignment, and who else touches the element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.kernel.interpret.arithmetic import Arithmetic
from pyrite.kernel.interpret.memory import How, Memory, first, undefined
from pyrite.kernel.ir import Node, Type, dtype_of
from pyrite.types import Array


class Access(Arithmetic):
    """The part of the interpreter that reads and writes memory."""

    def alloc(self, node: Node) -> None:
        space, size, _ = node.attr
        where = self.row if space == "shared" else np.arange(self.lanes)
        count = (int(where[-1]) + 1) * size
        data = undefined(dtype_of(node), count)
        self.memories[node] = Memory(data, size, where * size, is_tracked=space == "shared")

    def load(self, node: Node) -> None:
        memory = self.memories[node.inputs[0]]
        where, mask = self.elements(node, node.value_type, node.inputs[2:3])
        shape = where.shape
        if len(node.inputs) == 4:
            other = np.broadcast_to(self.of(node.inputs[3]), shape)
        else:
            other = np.zeros(shape, dtype=memory.data.dtype)
        result = np.array(other)
        self.touch(node, memory, "read", where, mask)
        result[mask] = memory.data[where[mask]]
        self.values[node] = result

    def store(self, node: Node) -> None:
        memory, value = self.memories[node.inputs[0]], node.inputs[2]
        where, mask = self.elements(node, value.value_type, node.inputs[3:])
        self.touch(node, memory, "written", where, mask)
        memory.data[where[mask]] = np.broadcast_to(self.of(value), where.shape)[mask]

    def elements(self, node: Node, type: Type, masks: Sequence[Node]) -> tuple[Array, Array]:
        """Return where in the data each invocation's elements are, and which are touched."""
        memory = self.memories[node.inputs[0]]
        index = self.spread(node.inputs[1]).astype(np.int64)
        mask = self.active
        if type.width > 1:
            if index.ndim == 1:
                if node.attr and (wrong := mask & (index % type.width != 0)).any():
                    lane = first(wrong)
                    self.fault(node, f"index {index[lane]} is not aligned to {type.width}", lane)
                index = index[:, None] + np.arange(type.width)
            mask = np.broadcast_to(mask[:, None], index.shape)
        if masks:
            given = self.of(masks[0])
            mask = mask & (given[:, None] if given.ndim < index.ndim else given)
        self.check_bounds(node, memory, index, mask)
        if memory.base is not None:
            index = index + (memory.base if index.ndim == 1 else memory.base[:, None])
        return index, mask

    def check_bounds(self, node: Node, memory: Memory, index: Array, mask: Array) -> None:
        self.refuse(node, index, mask & ((index < 0) | (index >= memory.size)),
                    f"outside of {memory.size} elements")  # fmt: skip
        if memory.own is not None:
            is_own = memory.own[np.clip(index, 0, len(memory.own) - 1)]
            outside = mask & ~(is_own & (index < len(memory.own)))
            self.refuse(node, index, outside, "outside of the layout of its operand")

    def refuse(self, node: Node, index: Array, wrong: Array, why: str) -> None:
        """Raise KernelError if an element that is touched is wrong."""
        if wrong.any():
            at = np.argwhere(wrong)[0]
            self.fault(node, f"{self._element(node, index[tuple(at)])} is {why}", int(at[0]))

    def _element(self, node: Node, index: int) -> str:
        """Return what an element that a node touches is called."""
        name, line = self.told(node.inputs[0])
        return f"element {index} of the memory of {line}" if line else f"{name}[{index}]"

    def touch(self, node: Node, memory: Memory, how: How, where: Array, mask: Array) -> None:
        """Note what is read or written; a fault where nothing orders it with another touch."""
        if not memory.is_tracked or not mask.any():
            return
        rows = np.arange(self.lanes).reshape(-1, *[1] * (where.ndim - 1))
        lane = np.broadcast_to(rows, where.shape)[mask]
        elements = where[mask]
        epochs = self.epoch["all" if memory.base is None else "shared"][lane]
        size = self.kernel.invocations
        race = memory.touch(how, elements, self.invocation[lane], epochs, size)
        if race is None:
            return
        element = int(elements[race.position])
        at = int(lane[race.position])
        if race.before is None:
            name, line = self.told(node.inputs[0])
            of = f"the memory of {line}" if line else name
            self.fault(
                node, f"two invocations write element {element % memory.size} of {of}", at,
                "let one of them, or change it by an atomic",
            )  # fmt: skip
        other, before = race.before
        what = (
            f"{self._element(node, element % memory.size)} was {before} by invocation "
            f"{other % size}"
        )
        if other // size == self.group[at]:
            self.fault(node, f"{what} with no barrier between", at, "put one between")
        self.fault(
            node,
            f"{what} of workgroup {other // size} with nothing between that orders workgroups", at,
            "read what others write in a stage, or an op, after it",
        )  # fmt: skip

    def atomic(self, node: Node) -> None:
        name, has_mask = node.attr
        memory = self.memories[node.inputs[0]]
        masks = node.inputs[-1:] if has_mask else ()
        where, mask = self.elements(node, node.value_type, masks)
        operands = [self.spread(i) for i in node.inputs[2 : len(node.inputs) - has_mask]]
        old = np.zeros(self.lanes, dtype=memory.data.dtype)
        for lane in np.flatnonzero(mask):
            at = where[lane]
            old[lane] = memory.data[at]
            memory.data[at] = _ATOMIC[name](memory.data[at], *(o[lane] for o in operands))
        self.values[node] = old

    def prefetch(self, node: Node) -> None:
        """Nothing: it takes no part in what a kernel computes."""

    def error(self, node: Node) -> None:
        memory = self.memories[node.inputs[0]]
        failed = self.spread(node.inputs[1]).reshape(self.lanes, -1).any(axis=1) & self.active
        if failed.any():
            codes = self.spread(node.inputs[2])[failed]
            memory.data[0] = max(memory.data[0], codes.max())


_ATOMIC: dict[str, Callable[..., Any]] = {
    "load": lambda old, value: old,
    "store": lambda old, value: value,
    "exchange": lambda old, value: value,
    "exchange_equal": lambda old, value, expected: value if old == expected else old,
    "add": lambda old, value: old + value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
}
