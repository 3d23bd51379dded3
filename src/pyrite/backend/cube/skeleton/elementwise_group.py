"""Elementwise kernels over tensors of different shapes as one launch.

Each workgroup belongs to one of the parts, which lie one after the other.  An optimiser's step of
many small parameters is then a few launches: each costs a GPU as much as updating some thousands.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import workgroup_of
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.elementwise import (
    ELEMENTWISE,
    Elements,
    ElementwiseConfig,
    ElementwiseKernel,
    Together,
    elementwise_bindings,
    map_together,
    problem_of,
)
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.extent import extent

#: Parts of one launch: each has its own instructions.
MOST_PARTS: Final = 16


class ElementwiseCall(NamedTuple):
    """What `map_together` is called with: a rule, what it reads, and what it writes."""

    name: str
    variant: Hashable
    rule: Together
    inputs: Sequence[Input]
    targets: Sequence[CubeTensor]

    @property
    def tensors(self) -> int:
        """How many tensors its kernel binds."""
        return sum(isinstance(i, CubeTensor) for i in self.inputs) + len(self.targets)


@dataclass(frozen=True, slots=True)
class ElementwiseGroup:
    """The problems of the parts; ``starts`` are their first workgroups, and where the last ends."""

    parts: tuple[Elements, ...]
    starts: tuple[int, ...] = extent()


#: One for each part, of equal workgroups.
GroupConfig = tuple[ElementwiseConfig, ...]


class GroupSkeleton:
    """Kernels of several elementwise problems, whose rules are one after the other in the body."""

    name = "elementwise group"

    def candidates(self, problem: ElementwiseGroup, machine: Machine) -> list[GroupConfig]:
        """Return what is selected, which is a choice for each part alone."""
        return [self.select(problem, machine)]

    def select(self, problem: ElementwiseGroup, machine: Machine) -> GroupConfig:
        """Return the config of each part."""
        return tuple([ELEMENTWISE.select(part, machine) for part in problem.parts])

    def workgroups(self, problem: ElementwiseGroup, config: GroupConfig) -> int:
        """Return how many workgroups all parts have."""
        return problem.starts[-1]

    def build(
        self, problem: ElementwiseGroup, config: GroupConfig, fused: Fused, grid: int
    ) -> Kernel:
        """Return the kernel.  Parameters: those of the parts' kernels, one after the other."""
        assert fused.body is not None
        (size,) = {c.workgroup_size for c in config}
        b = KernelBuilder(fused.body.name, workgroup_size=size, grid=grid)
        kernels = [
            ElementwiseKernel(b, part, c, f"part{n}_")
            for n, (part, c) in enumerate(zip(problem.parts, config, strict=True))
        ]
        number, starts = workgroup_of(b), problem.starts
        for n, (kernel, rule) in enumerate(zip(kernels, fused.body.of, strict=True)):
            with b.if_((number >= starts[n]) & (number < starts[n + 1])):
                inside = number - starts[n]
                vector = inside if size == 1 else inside * size + b.local_id(0)
                kernel.write(rule, vector)
        return b.build()


GROUP: Final = GroupSkeleton()


def map_apart(launcher: Launcher, calls: Sequence[ElementwiseCall]) -> None:
    """Write what several rules make of tensors of several shapes, none of which has no elements."""
    if len(calls) == 1:
        map_together(launcher, *calls[0])
        return
    found = [problem_of(call.inputs, call.targets, launcher.machine) for call in calls]
    starts = [0]
    for problem, config in found:
        starts.append(starts[-1] + ELEMENTWISE.workgroups(problem, config))
    group = ElementwiseGroup(tuple([problem for problem, _ in found]), tuple(starts))
    name = calls[0].name if len({call.name for call in calls}) == 1 else f"{calls[0].name}_and_more"
    key = tuple([(call.name, call.variant) for call in calls])
    body = Body(name, key, tuple([call.rule for call in calls]))
    bindings = [
        binding
        for (problem, _), call in zip(found, calls, strict=True)
        for binding in elementwise_bindings(launcher, problem, call.inputs, call.targets)
    ]
    launch(
        launcher, GROUP, group, bindings, config=tuple([config for _, config in found]),
        fused=Fused(body=body), writes_once=True,
    )  # fmt: skip


def grouped(calls: Sequence[ElementwiseCall], machine: Machine) -> list[list[ElementwiseCall]]:
    """Return calls by the launches that they share: as many as a kernel may have tensors for."""
    found: list[list[ElementwiseCall]] = []
    room = 0
    for call in calls:
        if not found or call.tensors > room or len(found[-1]) == MOST_PARTS:
            found.append([])
            room = machine.buffers
        found[-1].append(call)
        room -= call.tensors
    return found
