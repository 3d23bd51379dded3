"""Workgroups in lockstep: the values of all their invocations, and which of these are active."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn

import numpy as np

from pyrite.errors import KernelError
from pyrite.kernel.interpret.memory import Memory
from pyrite.kernel.ir import Kernel, Node, Region
from pyrite.kernel.text import line_of, name_nodes
from pyrite.types import Array

#: What nodes do to memory, as it is told.
_DOES = {"load": "read", "store": "written", "atomic": "changed at once"}


class Batch(ABC):
    """Some workgroups of a launch, in lockstep: one element of each array for each invocation."""

    def __init__(
        self,
        kernel: Kernel,
        counts: tuple[int, int, int],
        groups: Array,
        buffers: dict[Node, Memory],
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
        #: Whether all are: then nothing is masked, which is most of a kernel.
        self.is_full = True
        #: Barriers passed by the workgroup of each invocation: of shared memory, of all memory.
        self.epoch = {"shared": np.zeros(self.lanes, np.int64), "all": np.zeros(self.lanes, int)}

    @abstractmethod
    def region(self, region: Region) -> None:
        """Run the nodes of a region in those invocations that are active."""

    def activate(self, mask: Array) -> bool:
        """Let those of a mask be active, one for each invocation; return whether any is."""
        count = int(np.count_nonzero(mask))
        self.active, self.is_full = mask, count == self.lanes
        return count > 0

    def of(self, node: Node) -> Array:
        """Return the value of a node: of each invocation, or one row for all."""
        return self.values[node]

    def spread(self, node: Node) -> Array:
        """Return a value of which every invocation has its own element."""
        value = self.values[node]
        if len(value) == self.lanes:
            return value
        return np.broadcast_to(value, (self.lanes, *value.shape[1:]))

    def told(self, memory: Node) -> tuple[str, str | None]:
        """Return the name of a memory, and where the user made it, if that was noted."""
        return name_nodes(self.kernel)[memory], self.kernel.lines.get(memory)

    def fault(self, node: Node, what: str, lane: int | None = None, fix: str = "") -> NoReturn:
        """Raise KernelError for what a node does, in the invocation of a lane.

        It is told with the user's line where that is known, and else as the text of the kernel.
        """
        noted = self.kernel.lines.get(node)
        if noted is not None:
            who = (
                f" by invocation {self.local[lane]} of workgroup {self.group[lane]}"
                if lane is not None
                else ""
            )
            does = _DOES.get(node.kind, "run")
            error = KernelError(
                f"kernel {self.kernel.name!r}: {what}, {does} at {noted}{who}{fix and f'; {fix}'}"
            )
            error.location = noted
            raise error
        name, line = name_nodes(self.kernel).get(node), line_of(self.kernel, node)
        where = f"{node.kind} {name}" if name else node.kind
        if lane is not None:
            where += f" in workgroup {self.group[lane]}, invocation {self.local[lane]}"
        raise KernelError(f"kernel {self.kernel.name!r}: {what} at {where}: {line}")
