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
        if mask is None:
            self.touch(node, memory, "read", where, mask)
            self.values[node] = memory.data.take(where)
            return
        if len(node.inputs) == 4:
            result = np.array(np.broadcast_to(self.of(node.inputs[3]), where.shape))
        else:
            result = np.zeros(where.shape, dtype=memory.data.dtype)
        self.touch(node, memory, "read", where, mask)
        result[mask] = memory.data[where[mask]]
        self.values[node] = result

    def store(self, node: Node) -> None:
        memory, value = self.memories[node.inputs[0]], node.inputs[2]
        where, mask = self.elements(node, value.value_type, node.inputs[3:])
        self.touch(node, memory, "written", where, mask)
        if mask is None:
            memory.data[where] = self.of(value)
        else:
            memory.data[where[mask]] = np.broadcast_to(self.of(value), where.shape)[mask]

    def elements(self, node: Node, type: Type, masks: Sequence[Node]) -> tuple[Array, Array | None]:
        """Return where in the data the elements of each invocation are, and which are touched.

        None for all.  Of a memory in which nobody writes it may be one row, for all invocations.
        """
        memory = self.memories[node.inputs[0]]
        read = self.of if self.is_full and not memory.is_tracked else self.spread
        index = read(node.inputs[1]).astype(np.int64)
        if type.width > 1 and index.ndim == 1:
            if node.attr and np.count_nonzero(wrong := index % type.width != 0):
                self._require_aligned(node, index, wrong, type.width)
            index = index[:, None] + np.arange(type.width)
        mask = self._touched(index, self.of(masks[0]) if masks else None)
        if mask is not None:
            index = np.broadcast_to(index, mask.shape)
        self.check_bounds(node, memory, index, mask)
        if memory.base is not None:
            index = index + (memory.base if index.ndim == 1 else memory.base[:, None])
        return index, mask

    def _touched(self, index: Array, given: Array | None) -> Array | None:
        """Return which elements are, of invocations that are active; None for all."""
        mask = None if self.is_full else self.active
        if mask is not None and index.ndim > 1:
            mask = mask[:, None]
        if given is not None and np.count_nonzero(given) < given.size:
            given = given[:, None] if given.ndim < index.ndim else given
            mask = given if mask is None else mask & given
        return None if mask is None else np.broadcast_to(mask, (self.lanes, *index.shape[1:]))

    def _require_aligned(self, node: Node, index: Array, wrong: Array, width: int) -> None:
        wrong = wrong & self.active
        if wrong.any():
            lane = first(wrong)
            at = index[lane if len(index) > 1 else 0]
            self.fault(node, f"index {at} is not aligned to {width}", lane)

    def check_bounds(self, node: Node, memory: Memory, index: Array, mask: Array | None) -> None:
        # A negative number is a large one without its sign.
        wrong = index.view(np.uint64) >= memory.size
        if np.count_nonzero(wrong):
            self.refuse(node, index, wrong, mask, f"outside of {memory.size} elements")
        if memory.own is not None:
            is_own = memory.own[np.clip(index, 0, len(memory.own) - 1)]
            outside = ~(is_own & (index < len(memory.own)))
            if np.count_nonzero(outside):
                self.refuse(node, index, outside, mask, "outside of the layout of its operand")

    def refuse(self, node: Node, index: Array, wrong: Array, mask: Array | None, why: str) -> None:
        """Raise KernelError if an element that is touched is wrong."""
        touched = wrong if mask is None else wrong & mask
        if touched.any():
            at = np.argwhere(touched)[0]
            self.fault(node, f"{self._element(node, index[tuple(at)])} is {why}", int(at[0]))

    def _element(self, node: Node, index: int) -> str:
        """Return what an element that a node touches is called."""
        name, line = self.told(node.inputs[0])
        return f"element {index} of the memory of {line}" if line else f"{name}[{index}]"

    def touch(self, node: Node, memory: Memory, how: How, where: Array, mask: Array | None) -> None:
        """Note what is read or written; a fault where nothing orders it with another touch."""
        if not memory.is_tracked or (mask is not None and not np.count_nonzero(mask)):
            return
        lane: Array = np.arange(self.lanes)
        if where.ndim > 1:
            lane = lane.repeat(where.shape[1]).reshape(where.shape)
        if mask is None:
            lane, elements = lane.reshape(-1), where.reshape(-1)
        else:
            lane, elements = lane[mask], where[mask]
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
        where = np.broadcast_to(where, self.lanes)
        for lane in range(self.lanes) if mask is None else np.flatnonzero(mask):
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
