"""Subgroups where the device has none, as a CPU: lanes of a vector, or of a loop.

A vector has the lanes of a subgroup, so reductions, scans, broadcasts and shuffles by constants of
whole subgroups are shuffles of it (`pyrite.kernel.passes.vector_subgroups`).  What is left meets in
shared memory: each operation is a write of every invocation, a barrier, and reads of its subgroup.
Either way all invocations of a workgroup have to come by, as by a barrier; where only some do, the
device lacks subgroups as before, and the next of an op's kernels is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, NoReturn

from pyrite.errors import KernelError, UnsupportedKernelError
from pyrite.extension.mistake import shown
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Memory, Value
from pyrite.kernel.arithmetic import neutral
from pyrite.kernel.builder import Operand
from pyrite.kernel.passes import SUBGROUP, joins_subgroups
from pyrite.op import user_location
from pyrite.types import uint32

#: Invocations of a subgroup.
LANES: Final = SUBGROUP


class Subgroup(NamedTuple):
    """What so many gave, ``width`` from ``first`` on; this one is ``lane``."""

    memory: Memory
    first: Value
    width: Value
    lane: Value

    def of(self, lane: Operand) -> Value:
        """Return what a lane gave."""
        return self.memory.load(self.first + lane)


class LaneScope(KernelScope):
    """A scope for a device without subgroups."""

    #: There lanes are what a vector has: a row for each would be gathered.
    has_vectors = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._collective: set[str] = set()
        self._invocations = math.prod(self.workgroup_size)

    def subgroup_size(self) -> Value:
        """Return the number of invocations of a subgroup."""
        return self.index(LANES)

    def subgroup_lane(self) -> Value:
        """Return the number of the invocation in its subgroup."""
        return self._noted(self.local_index() & (LANES - 1), (0, LANES - 1))

    def subgroup_reduce(self, name: str, x: Value) -> Value:
        """Combine x of the subgroup's invocations; all get the result."""
        with self._given(x) as group:
            found = self._combined(name, group, group.of(0), 1, group.width)
        return self._as(x, found)

    def subgroup_scan(self, name: str, x: Value, *, is_inclusive: bool = True) -> Value:
        """Combine x of the lanes up to this one."""
        with self._given(x) as group:
            if is_inclusive:
                found = self._combined(name, group, group.of(0), 1, group.lane + 1)
            else:
                start = self.plain.const(neutral(name, x.dtype), self.plain.of(x.node).type)
                found = self._combined(name, group, start, 0, group.lane)
        return self._as(x, found)

    def subgroup_shuffle(self, x: Value, n: Operand, how: str = "index") -> Value:
        """Return x of another lane: "index" n, lane "xor" n, "up" by n or "down" by n."""
        with self._given(x) as group:
            lane, by = group.lane, self.plain.of(self.index(n).node)
            ways = {"index": by, "xor": lane ^ by, "up": lane - by, "down": lane + by}
            if how not in ways:
                raise KernelError(f"shuffle requires one of {', '.join(ways)}, got {shown(how)}")
            wanted = ways[how]
            inside = (wanted >= 0) & (wanted < group.width)
            found = group.of(self.plain.select(inside, wanted, lane))
        return self._as(x, found)

    def subgroup_broadcast(self, x: Value) -> Value:
        """Return x of the first lane."""
        with self._given(x) as group:
            found = group.of(0)
        return self._as(x, found)

    def subgroup_ballot(self, x: Value) -> Value:
        """Return the bools of all lanes as 128 bits in four uint32."""
        plain, none = self.plain, self.const(0, uint32)
        with self._given(x) as group:
            with plain.for_(0, group.width, carried=[plain.of(none.node)]) as loop:
                bit = group.of(loop.index) << plain.cast(loop.index, uint32)
                loop.yield_(loop.carried[0] | bit)
        return self.make([self.of(loop.results[0].node), none, none, none])

    @contextmanager
    def _given(self, x: Value) -> Iterator[Subgroup]:
        """Show x to the subgroup, within a block that reads it."""
        if x.width != 1:
            raise KernelError(f"a subgroup requires scalars on this device, got {x.type}")
        if self._is_by_element:
            self._refuse_subgroup()
        plain, dtype = self.plain, uint32 if x.dtype.is_bool else x.dtype
        self._collective.add(user_location())
        memory = Memory(plain, super().shared(dtype, self._invocations).node)
        index = plain.of(self.local_index().node)
        lane = index & (LANES - 1)
        first = index - lane
        memory.store(index, plain.cast(plain.of(x.node), dtype))
        self.barrier()
        yield Subgroup(memory, first, plain.min(self._invocations - first, LANES), lane)
        self.barrier()

    def _combined(
        self, name: str, group: Subgroup, start: Value, begin: Operand, end: Value
    ) -> Value:
        with self.plain.for_(begin, end, carried=[start]) as loop:
            loop.yield_(self.plain.alu(name, loop.carried[0], group.of(loop.index)))
        return loop.results[0]

    def _as(self, x: Value, found: Value) -> Value:
        made = found != 0 if x.dtype.is_bool else found
        return self.of(made.node)

    def _refuse_barrier(self, line: str) -> NoReturn:
        if line in self._collective:
            self._refuse_subgroup()
        super()._refuse_barrier(line)

    def _refuse_subgroup(self) -> NoReturn:
        raise UnsupportedKernelError(
            f"kernel {self.name} requires subgroups of several invocations, got a device without, "
            "where all invocations of a grid would have to come by; reduce in shared memory"
        )


class VectorLaneScope(LaneScope):
    """A scope for a device of which vectors are as long as a subgroup."""

    @property
    def instead(self) -> type[KernelScope] | None:
        """The scope in which the kernel is to be recorded, where vectors do not have it all."""
        return None if joins_subgroups(self.build()) else LaneScope

    def subgroup_reduce(self, name: str, x: Value) -> Value:
        """Combine x of the subgroup's invocations; all get the result."""
        return KernelScope.subgroup_reduce(self, name, x)

    def subgroup_scan(self, name: str, x: Value, *, is_inclusive: bool = True) -> Value:
        """Combine x of the lanes up to this one."""
        return KernelScope.subgroup_scan(self, name, x, is_inclusive=is_inclusive)

    def subgroup_broadcast(self, x: Value) -> Value:
        """Return x of the first lane."""
        return KernelScope.subgroup_broadcast(self, x)

    def subgroup_shuffle(self, x: Value, n: Operand, how: str = "index") -> Value:
        """Return x of another lane: "index" n, lane "xor" n, "up" by n or "down" by n."""
        is_known = x.width == 1 and how in ("index", "xor", "up", "down")
        if is_known and self.index(n).node.kind == "const":
            return KernelScope.subgroup_shuffle(self, x, n, how)
        return super().subgroup_shuffle(x, n, how)
