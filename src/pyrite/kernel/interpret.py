"""What a kernel means, in NumPy: the judge of every target.

All invocations of many workgroups run in lockstep, one array element each; control flow is a mask
of the invocations that are active.  Since lockstep would hide a missing barrier, memory remembers
who wrote and who last read each element, and what two invocations touch without a barrier between
is reported; so are accesses outside a memory, false claims of alignment, integer division by zero,
and barriers that not all invocations of a workgroup reach.  Memory that was never written holds NaN
or a pattern, never a convenient zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pyrite.errors import KernelError
from pyrite.kernel.arithmetic import ALU, cast
from pyrite.kernel.ir import Kernel, Node, Region, Type, dtype_of
from pyrite.kernel.text import name_nodes
from pyrite.types import Array, DType, Number

#: Invocations that run at once, so that temporaries stay small.
BATCH = 1 << 15


def interpret(
    kernel: Kernel,
    workgroups: int | tuple[int, ...],
    *values: Array | Number,
    subgroup_size: int = 32,
) -> None:
    """Run the kernel on ``workgroups`` of each axis; buffers are written in place.

    ``values`` are arrays for buffers and numbers for arguments, in the order of the parameters.
    Raises KernelError for a fault: see the head of this file.

    >>> import pyrite
    >>> from pyrite.kernel.build import KernelBuilder
    >>> b = KernelBuilder("double", workgroup_size=2)
    >>> x = b.buffer("x", pyrite.float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> x = np.arange(4, dtype=np.float32)
    >>> interpret(b.build(), 2, x)
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    counts = (workgroups,) if isinstance(workgroups, int) else workgroups
    x, y, z = (*counts, 1, 1)[:3]
    if len(values) != len(kernel.parameters):
        raise KernelError(f"{kernel} requires {len(kernel.parameters)} values, got {len(values)}")
    buffers: dict[Node, _Memory] = {}
    arguments: dict[Node, Array] = {}
    for parameter, value in zip(kernel.parameters, values, strict=True):
        if parameter.kind == "argument":
            arguments[parameter] = np.array([value], dtype=dtype_of(parameter).numpy)
        else:
            buffers[parameter] = _buffer(parameter, value)
    total = x * y * z
    at_once = max(1, BATCH // kernel.invocations)
    with np.errstate(all="ignore"):
        for first in range(0, total, at_once):
            groups = np.arange(first, min(first + at_once, total))
            _Batch(kernel, (x, y, z), groups, buffers, arguments, subgroup_size).run()


def _buffer(parameter: Node, value: Any) -> _Memory:
    if not isinstance(value, np.ndarray) or value.dtype != dtype_of(parameter).numpy:
        raise KernelError(
            f"buffer {parameter.attr[1]!r} requires an array of {dtype_of(parameter).name}, got "
            f"{getattr(value, 'dtype', value)!s}"
        )
    if value.ndim != 1 or not value.flags.c_contiguous:
        raise KernelError(f"buffer {parameter.attr[1]!r} requires a flat array")
    return _Memory(value, len(value), is_tracked=parameter.attr[2] != "read")


class _Memory:
    """The elements of a memory, and who touched each last."""

    def __init__(
        self, data: Array, size: int, base: Array | None = None, *, is_tracked: bool
    ) -> None:
        self.data = data
        self.size = size
        #: Where the memory of each invocation begins in ``data``.
        self.base = base
        self.is_tracked = is_tracked
        if is_tracked:
            # Of each element: who wrote and who read it, in which epoch of their workgroup.
            self.touched = {
                how: (np.full(len(data), -1), np.zeros(len(data), np.int64))
                for how in ("written", "read")
            }


class _Batch:
    """Some workgroups of a launch."""

    def __init__(
        self,
        kernel: Kernel,
        counts: tuple[int, int, int],
        groups: Array,
        buffers: dict[Node, _Memory],
        arguments: dict[Node, Array],
        subgroup_size: int,
    ) -> None:
        self.kernel = kernel
        self.counts = counts
        self.subgroup_size = subgroup_size
        size = kernel.invocations
        self.lanes = len(groups) * size
        self.group = np.repeat(groups, size)
        self.row = np.repeat(np.arange(len(groups)), size)
        self.local = np.tile(np.arange(size), len(groups))
        self.invocation = self.group * size + self.local
        self.memories = dict(buffers)
        self.values: dict[Node, Array] = dict(arguments)
        #: What the regions of each control node yielded at the end.
        self.finished: dict[Node, list[Array]] = {}
        self.active = np.ones(self.lanes, dtype=bool)
        #: Barriers passed by the workgroup of each invocation: of shared memory, of all memory.
        self.epoch = {"shared": np.zeros(self.lanes, np.int64), "all": np.zeros(self.lanes, int)}

    def run(self) -> None:
        self.region(self.kernel.body)

    def region(self, region: Region) -> None:
        for node in region.body:
            _RUN[node.kind](self, node)

    def of(self, node: Node) -> Array:
        return self.values[node]

    def spread(self, node: Node) -> Array:
        """A value of which every invocation has its own element."""
        value = self.values[node]
        return np.broadcast_to(value, (self.lanes, *value.shape[1:]))

    def fault(self, node: Node, what: str, lane: int | None = None) -> NoReturn:
        name = name_nodes(self.kernel).get(node)
        where = f"{node.kind} {name}" if name else node.kind
        if lane is not None:
            where += f" in workgroup {self.group[lane]}, invocation {self.local[lane]}"
        raise KernelError(f"kernel {self.kernel.name!r}: {what} at {where}")

    # ---- values ----

    def const(self, node: Node) -> None:
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
        if wrong.any():
            active = (wrong.T & self.active).T
            if active.any():
                self.fault(node, f"integer {node.attr} by 0, or overflow", _first(active))
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
        self.values[node] = np.repeat(x[:, None], node.value_type.width, axis=1)

    def make(self, node: Node) -> None:
        columns = np.broadcast_arrays(*(self.of(i) for i in node.inputs))
        self.values[node] = np.stack(columns, axis=1)

    def extract(self, node: Node) -> None:
        self.values[node] = self.of(node.inputs[0])[:, node.attr]

    # ---- memory ----

    def alloc(self, node: Node) -> None:
        space, size, _ = node.attr
        where = self.row if space == "shared" else np.arange(self.lanes)
        count = (int(where[-1]) + 1) * size
        data = _undefined(dtype_of(node), count)
        self.memories[node] = _Memory(data, size, where * size, is_tracked=space == "shared")

    def load(self, node: Node) -> None:
        memory = self.memories[node.inputs[0]]
        where, mask = self.elements(node, node.value_type, node.inputs[2:3])
        shape = where.shape
        if len(node.inputs) == 4:
            other = np.broadcast_to(self.of(node.inputs[3]), shape)
        else:
            other = np.zeros(shape, dtype=memory.data.dtype)
        result = np.array(other)
        self.track(node, memory, "read", where, mask)
        result[mask] = memory.data[where[mask]]
        self.values[node] = result

    def store(self, node: Node) -> None:
        memory, value = self.memories[node.inputs[0]], node.inputs[2]
        where, mask = self.elements(node, value.value_type, node.inputs[3:])
        self.track(node, memory, "written", where, mask)
        memory.data[where[mask]] = np.broadcast_to(self.of(value), where.shape)[mask]

    def elements(self, node: Node, type: Type, masks: Sequence[Node]) -> tuple[Array, Array]:
        """Return where in the data each invocation's elements are, and which are touched."""
        memory = self.memories[node.inputs[0]]
        index = self.spread(node.inputs[1]).astype(np.int64)
        mask = self.active
        if type.width > 1:
            if index.ndim == 1:
                if node.attr and (wrong := mask & (index % type.width != 0)).any():
                    lane = _first(wrong)
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

    def check_bounds(self, node: Node, memory: _Memory, index: Array, mask: Array) -> None:
        outside = mask & ((index < 0) | (index >= memory.size))
        if outside.any():
            at = np.argwhere(outside)[0]
            name = name_nodes(self.kernel)[node.inputs[0]]
            what = f"{name}[{index[tuple(at)]}] is outside of {memory.size} elements"
            self.fault(node, what, int(at[0]))

    def track(self, node: Node, memory: _Memory, how: str, where: Array, mask: Array) -> None:
        """Report what another invocation touched since the last barrier, then remember."""
        if not memory.is_tracked or not mask.any():
            return
        lane = np.broadcast_to(np.arange(self.lanes).reshape(-1, *[1] * (where.ndim - 1)),
                               where.shape)[mask]  # fmt: skip
        elements = where[mask]
        epochs = self.epoch["all" if memory.base is None else "shared"][lane]
        me = self.invocation[lane]
        for before in ("written", "read") if how == "written" else ("written",):
            who, when = memory.touched[before]
            other = who[elements]
            same_group = other // self.kernel.invocations == me // self.kernel.invocations
            is_ordered = same_group & (when[elements] < epochs)
            race = (other >= 0) & (other != me) & ~is_ordered
            if race.any():
                i = _first(race)
                name = name_nodes(self.kernel)[node.inputs[0]]
                at = int(elements[i]) % memory.size
                self.fault(node, f"{name}[{at}] was {before} by invocation "
                           f"{other[i] % self.kernel.invocations} with no barrier between",
                           int(lane[i]))  # fmt: skip
        who, when = memory.touched[how]
        who[elements] = me
        when[elements] = epochs
        if how == "written" and (who[elements] != me).any():
            i = _first(who[elements] != me)
            self.fault(node, f"two invocations write element {elements[i]}", int(lane[i]))

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

    def error(self, node: Node) -> None:
        memory = self.memories[node.inputs[0]]
        failed = self.spread(node.inputs[1]).reshape(self.lanes, -1).any(axis=1) & self.active
        if failed.any():
            codes = self.spread(node.inputs[2])[failed]
            memory.data[0] = max(memory.data[0], codes.max())

    # ---- control ----

    def result(self, node: Node) -> None:
        self.values[node] = self.finished[node.inputs[0]][node.attr]

    def branch(self, node: Node) -> None:
        before = self.active
        condition = self.spread(node.inputs[0])
        sides = []
        for region, mask in zip(node.regions, (condition, ~condition), strict=True):
            self.active = before & mask
            if self.active.any():
                self.region(region)
                sides.append([self.of(y) for y in region.yields])
            else:
                sides.append([_zero(y) for y in region.yields])
        self.active = before
        self.finished[node] = [_merge(condition, x, y) for x, y in zip(*sides, strict=True)]

    def counted(self, node: Node) -> None:
        before, step = self.active, node.attr[0]
        (region,) = node.regions
        counter, *parameters = region.parameters
        start, stop, *carried = (self.spread(i) for i in node.inputs)
        count = np.array(start)
        while True:
            self.active = before & (count < stop)
            if not self.active.any():
                break
            self.values[counter] = count
            self.values.update(zip(parameters, carried, strict=True))
            self.region(region)
            carried = [
                _merge(self.active, self.of(y), old)
                for y, old in zip(region.yields, carried, strict=True)
            ]
            count = np.where(self.active, count + count.dtype.type(step), count)
        self.active = before
        self.finished[node] = carried

    def conditional(self, node: Node) -> None:
        before = self.active
        condition, body = node.regions
        carried = [self.spread(i) for i in node.inputs]
        while True:
            self.values.update(zip(condition.parameters, carried, strict=True))
            self.region(condition)
            self.active = self.active & self.spread(condition.yields[0])
            if not self.active.any():
                break
            self.values.update(zip(body.parameters, carried, strict=True))
            self.region(body)
            carried = [
                _merge(self.active, self.of(y), old)
                for y, old in zip(body.yields, carried, strict=True)
            ]
        self.active = before
        self.finished[node] = carried

    def barrier(self, node: Node) -> None:
        active = self.active.reshape(-1, self.kernel.invocations)
        missing = active.any(axis=1) != active.all(axis=1)
        if missing.any():
            self.fault(node, f"only part of workgroup {self.group[0] + _first(missing)} arrives")
        scopes = ("shared", "all") if node.attr == "storage" else ("shared",)
        for scope in scopes:
            self.epoch[scope] += self.active

    # ---- subgroups ----

    def subgroups(self) -> list[Array]:
        """The active invocations of each subgroup, by rising lane."""
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
        identity = np.full_like(x[:1], _identity(name, dtype_of(node)))
        return np.concatenate([identity, total[:-1]])

    def broadcast(self, _: Node, x: Array, __: Array) -> Array:
        return x[:1]


def _axis(linear: Array, sizes: tuple[int, ...], axis: int) -> Array:
    """Return one coordinate of positions in a box, axis 0 fastest."""
    below = int(np.prod(sizes[:axis]))
    return linear // below % sizes[axis]


def _first(mask: Array) -> int:
    """The first row in which the mask is true."""
    return int(np.argwhere(mask)[0][0])


def _undefined(dtype: DType, count: int) -> Array:
    if dtype.is_float:
        return np.full(count, np.nan).astype(dtype.numpy)
    if dtype.is_bool:
        return np.ones(count, dtype=bool)
    return np.full(count, 0x5A, dtype=np.uint8).repeat(dtype.itemsize).view(dtype.numpy)


def _zero(node: Node) -> Array:
    type = node.value_type
    return np.zeros((1,) if type.width == 1 else (1, type.width), dtype=type.dtype.numpy)


def _merge(mask: Array, x: Array, y: Array) -> Array:
    return np.where(mask[:, None] if max(x.ndim, y.ndim) > 1 else mask, x, y)


def _accumulate(name: str, x: Array) -> Array:
    """Combine the rows up to each one, from the first on."""
    rows = [x[:1]]
    for i in range(1, len(x)):
        rows.append(ALU[name](rows[-1], x[i : i + 1]))
    return np.concatenate(rows)


def _identity(name: str, dtype: DType) -> Number:
    """Return what an exclusive scan begins with."""
    if name == "min":
        return dtype.highest
    if name == "max":
        return dtype.lowest
    if name == "and":
        return True if dtype.is_bool else -1 if dtype.kind == "int" else dtype.highest
    return 1 if name == "mul" else 0


_RUN: dict[str, Callable[[_Batch, Node], None]] = {
    "const": _Batch.const, "builtin": _Batch.builtin, "alu": _Batch.alu, "cast": _Batch.cast,
    "bitcast": _Batch.bitcast, "select": _Batch.select, "splat": _Batch.splat,
    "make": _Batch.make, "extract": _Batch.extract, "result": _Batch.result,
    "alloc": _Batch.alloc, "load": _Batch.load, "store": _Batch.store, "atomic": _Batch.atomic,
    "error": _Batch.error, "for": _Batch.counted, "while": _Batch.conditional,
    "if": _Batch.branch, "barrier": _Batch.barrier, "subgroup_reduce": _Batch.collective,
    "subgroup_scan": _Batch.collective, "subgroup_shuffle": _Batch.collective,
    "subgroup_broadcast": _Batch.collective, "subgroup_ballot": _Batch.collective,
}  # fmt: skip

_COLLECTIVE: dict[str, Callable[[_Batch, Node, Array, Array], Array]] = {
    "subgroup_reduce": _Batch.reduced, "subgroup_scan": _Batch.scanned,
    "subgroup_shuffle": _Batch.shuffled, "subgroup_broadcast": _Batch.broadcast,
    "subgroup_ballot": _Batch.ballot,
}  # fmt: skip

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
