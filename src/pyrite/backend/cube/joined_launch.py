"""Several launches as one, of the kernel that runs theirs side by side."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import Any, Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.slot import FaultOperand, NumberOperand, Slot
from pyrite.kernel.fact import fact
from pyrite.kernel.ir import Kernel, Node
from pyrite.kernel.machine import Machine
from pyrite.kernel.passes import join_kernels
from pyrite.types import int32

#: Nodes of a joined kernel, for which compilers take longer than for its parts.  A processor's
#: launch costs so little that it is not worth a long one.
MOST_NODES: Final = {"cpu": 1 << 8, "gpu": 1 << 12}


#: What allocations have in common that lie in one place: space, access, type.
_Kind = tuple[str, str, str]


def is_joinable(launch: NotedLaunch, machine: Machine) -> bool:
    """Whether a launch may be one of several: it is small, and raises nothing."""
    if not launch.is_ours or len(launch.grid) != 1 or 0 in launch.grid:
        return False
    if launch.writes_once and machine.kind == "cpu":
        # It may write over an operand (`in_place`), which saves more than a launch.
        return False
    if any(isinstance(b, FaultOperand) for b in launch.bindings):
        return False
    return Room(machine).takes(launch)


def joined_launch(launcher: Launcher, launches: Sequence[NotedLaunch]) -> NotedLaunch:
    """Return one launch that does what several do, of which `Room` takes all."""
    if len(launches) == 1:
        return launches[0]
    bindings: list[Any] = []
    known: dict[Hashable, int] = {}
    places: list[list[int]] = []
    for launch in launches:
        own: list[int] = []
        for node, binding in launch.bound:
            key = _shared(node, binding)
            place = len(bindings) if key is None else known.setdefault(key, len(bindings))
            if place == len(bindings):
                bindings.append(binding)
            own.append(place)
        places.append(own)
    kernels: list[Kernel] = [launch.executable.kernel for launch in launches]
    begins: list[int] = []
    for launch in launches[:-1]:
        begins.append(launch.grid[0] + (begins[-1] if begins else 0))
    key = ("joined", tuple(k.digest for k in kernels), tuple(map(tuple, places)))
    name = kernels[0].name if len({k.name for k in kernels}) == 1 else f"{kernels[0].name}_and_more"
    executable = launcher.executable(key, lambda _: join_kernels(kernels, places, name), 1)
    grid = (sum(launch.grid[0] for launch in launches),)
    return NotedLaunch(executable, [*bindings, *begins], grid)


def _shared(node: Node, binding: Any) -> Hashable | None:
    """Return what parameters of several kernels have in common that are one parameter.

    None for what is written, and for numbers that differ by more than what ``==`` sees.
    """
    if isinstance(binding, Slot):
        return ("slot", binding.number, node.type) if node.attr[2] == "read" else None
    is_same = isinstance(binding, NumberOperand) or node.value_type.dtype.is_integer
    return ("number", binding, node.type) if is_same else None


class Room:
    """What is left of a device for the kernel of a group, to which launches are added."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._form: tuple[object, ...] | None = None
        self._launches = self._workgroups = self._nodes = 0
        self._bound: dict[Hashable, Node] = {}
        self._memory: dict[_Kind, list[int]] = {}

    def takes(self, launch: NotedLaunch) -> bool:
        """Add a launch if there is room for it, and return whether there was."""
        kernel: Kernel = launch.executable.kernel
        form = (kernel.workgroup_size, kernel.index)
        if self._form not in (None, form) or self._launches == self._machine.most_joined:
            return False
        machine, nodes = self._machine, self._nodes + _node_count(kernel)
        workgroups = self._workgroups + launch.grid[0]
        if nodes > MOST_NODES[machine.kind] or workgroups > machine.most_workgroups:
            return False
        if machine.kind == "gpu" and workgroups * kernel.invocations > machine.busy:
            # It fills the device by itself.
            return False
        bound, memory = self._bound_with(launch), self._memory_with(kernel)
        if not self._fits(bound, memory):
            return False
        self._form, self._bound, self._memory = form, bound, memory
        self._launches, self._workgroups, self._nodes = self._launches + 1, workgroups, nodes
        return True

    def _bound_with(self, launch: NotedLaunch) -> dict[Hashable, Node]:
        found = dict(self._bound)
        for n, (node, binding) in enumerate(launch.bound):
            found[_shared(node, binding) or (self._launches, n, None)] = node
        return found

    def _memory_with(self, kernel: Kernel) -> dict[_Kind, list[int]]:
        found = dict(self._memory)
        for kind, sizes in _allocated(kernel):
            found[kind] = list(map(max, zip_longest(found.get(kind, ()), sizes, fillvalue=0)))
        return found

    def _fits(self, bound: dict[Hashable, Node], memory: dict[_Kind, list[int]]) -> bool:
        machine = self._machine
        numbers = [n.value_type.dtype for n in bound.values() if n.kind == "argument"]
        nbytes = sum(max(4, dtype.itemsize) for dtype in (*numbers, *[int32] * self._launches))
        used = {"shared": 0, "private": 0}
        for (space, _, _), sizes in memory.items():
            used[space] += sum(sizes)
        return (
            len(bound) - len(numbers) <= machine.buffers
            and nbytes <= machine.argument_bytes
            and used["shared"] <= machine.shared_bytes
            and used["private"] <= machine.private_bytes
        )


@fact
def _node_count(kernel: Kernel) -> int:
    return sum(1 for _ in kernel.walk())


@fact
def _allocated(kernel: Kernel) -> tuple[tuple[_Kind, tuple[int, ...]], ...]:
    """Return the bytes of allocations, by what those have in common that lie in one place."""
    found: dict[_Kind, tuple[int, ...]] = {}
    for node in kernel.body.body:
        if node.kind == "alloc":
            space, size, access = node.attr
            kind = (space, access, str(node.value_type))
            found[kind] = (*found.get(kind, ()), size * node.value_type.dtype.itemsize)
    return tuple(found.items())
