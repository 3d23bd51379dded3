"""A launch that is noted, not made: what it binds are slots, and numbers that a call knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrite.backend.cube.in_place import Overwriting, overwritable
from pyrite.backend.cube.launch_schedule import LaunchEffect
from pyrite.backend.cube.slot import Slot
from pyrite.kernel import Kernel
from pyrite.kernel.fact import fact
from pyrite.kernel.ir import Node


@dataclass(slots=True)
class NotedLaunch:
    """A launch that was noted: its kernel, what is bound, and its grid.

    One of an application's kernel, of which nothing is known but what it binds, is not ``ours``.
    """

    executable: Any
    bindings: Sequence[Any]
    grid: tuple[int, ...]
    #: Whether no element is written twice.
    writes_once: bool = False
    is_ours: bool = True
    #: The launch from which it differs in numbers at some positions alone, and these.
    like: NotedLaunch | None = None
    stepped: tuple[int, ...] = ()

    def step(self, numbers: Mapping[int, Any]) -> NotedLaunch:
        """Return it with other numbers at some positions."""
        bindings = [*self.bindings]
        for n, value in numbers.items():
            bindings[n] = value
        return self.binding(bindings, like=self, stepped=tuple(numbers))

    def binding(
        self, bindings: Sequence[Any], like: NotedLaunch | None, stepped: tuple[int, ...] = (),
    ) -> NotedLaunch:  # fmt: skip
        """Return it with other bindings, as `replace` does in four times as long."""
        return NotedLaunch(
            self.executable, bindings, self.grid, self.writes_once, self.is_ours, like,
            stepped or self.stepped,
        )  # fmt: skip

    def on(self, names: Mapping[int, int], slots: Mapping[int, Slot]) -> NotedLaunch:
        """Return it on other slots, by their numbers, where ``names`` has any."""
        if not names:
            return self
        bindings = [
            slots[names.get(b.number, b.number)] if isinstance(b, Slot) else b
            for b in self.bindings
        ]
        return replace(self, bindings=bindings, like=None, stepped=())

    @property
    def bound(self) -> Iterator[tuple[Node, Any]]:
        """The parameters of the kernel, each with what it is bound to."""
        return zip(self.executable.kernel.parameters, self.bindings, strict=True)

    @property
    def slots(self) -> Iterator[tuple[Slot, bool]]:
        """The slots that it touches, each with whether it may write there."""
        if not self.is_ours:  # it may be WGSL, of which there is no more to see
            yield from [(binding, True) for binding in self.bindings if isinstance(binding, Slot)]
            return
        for node, binding in self.bound:
            if binding.__class__ is Slot:
                yield binding, node.attr[2] != "read"


def overwriting(launch: NotedLaunch) -> Overwriting:
    """Return a launch by its slots, and which of them may be one."""
    slots = tuple([b.number if b.__class__ is Slot else None for b in launch.bindings])
    pairs = overwritable(launch.executable.kernel) if launch.writes_once else frozenset()
    return Overwriting(slots, pairs)


def effect_of(launch: NotedLaunch, work: int) -> LaunchEffect:
    """Return what a launch does, given how long it takes."""
    reads: set[int] = set()
    writes: set[int] = set()
    if not launch.is_ours:
        reads = writes = {slot.number for slot, _ in launch.slots}
    else:
        for node, binding in launch.bound:
            if isinstance(binding, Slot):
                reads |= {binding.number} if node.attr[2] != "write" else set()
                writes |= {binding.number} if node.attr[2] != "read" else set()
    is_repeatable = launch.is_ours and not _is_atomic(launch.executable.kernel)
    return LaunchEffect(
        overwriting(launch), frozenset(reads), frozenset(writes), work, is_repeatable
    )


@fact
def _is_atomic(kernel: Kernel) -> bool:
    """Whether the order in which invocations come to a value may change it."""
    return any(node.kind == "atomic" for node in kernel.walk())
