"""Launches that are made again and again: checked once, then only bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.executable import Executable, Variant
from pyrite.runtime.wgpu.memory import Buffer
from pyrite.runtime.wgpu.queue import Queue
from pyrite.runtime.wgpu.submission import Immediates, Launch

#: Appends a launch of any kind: what a runtime does for one alone.
LaunchOne = Callable[[Executable, list[Buffer], Immediates | None, Sequence[int], bool], None]
#: The counters of a runtime.
Counts = dict[str, int]


class Parts(NamedTuple):
    """The parts of a runtime that a bundle works with."""

    life: Life
    queue: Queue
    groups: BindGroups
    counts: Counts


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A launch: where its buffers are among the operands, and its numbers, fixed or there too.

    ``packed`` are the numbers where all of them are fixed, ``variant`` and ``counts`` what runs on
    how many workgroups if each of its buffers is of a storage of its own, and small enough.
    """

    executable: Executable
    buffers: tuple[int, ...]
    numbers: tuple[int | Fixed, ...]
    grid: tuple[int, ...]
    is_folded: bool
    packed: Immediates | None
    variant: Variant
    counts: tuple[int, int, int]

    def arguments(self, operands: Sequence[Any]) -> Immediates | None:
        """Return the numbers of a run as the kernel reads them."""
        if self.packed is not None or not self.numbers:
            return self.packed
        numbers = [n.value if isinstance(n, Fixed) else operands[n] for n in self.numbers]
        return self.executable.packed(numbers, self.grid, is_folded=self.is_folded)


class WgpuBundle:
    """Launches of one device, whose bindings fit their kernels."""

    __slots__ = ("_is_plain", "_largest", "_launch", "_parts", "_steps")

    def __init__(self, parts: Parts, launch: LaunchOne, steps: Sequence[BundledLaunch]) -> None:
        self._parts = parts
        self._launch = launch
        self._steps = tuple(_prepared(step) for step in steps if 0 not in step.grid)
        self._largest = parts.life.device.max_binding
        self._is_plain = not any(step.variant.layout.uniform_size for step in self._steps)

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        if not self._is_plain:
            for step in self._steps:
                self._launch_one(step, operands)
            return
        life = self._parts.life
        keys: list[Any] = [x.key if isinstance(x, Buffer) else None for x in operands]
        serials = [key[0] for key in keys if key is not None]
        is_apart = len(set(serials)) == len(serials)
        is_small = all([key is None or key[2] <= self._largest for key in keys])
        with life.lock:
            life.check()
            for step in self._steps:
                own = tuple([keys[i] for i in step.buffers])
                # A storage that is bound twice, or in parts, has another variant.
                if is_small and (is_apart or len({key[0] for key in own}) == len(own)):
                    self._append(step, own, operands)
                else:
                    self._launch_one(step, operands)

    def _launch_one(self, step: _Prepared, operands: Sequence[Any]) -> None:
        self._launch(
            step.executable, [operands[i] for i in step.buffers], step.arguments(operands),
            step.grid, step.is_folded,
        )  # fmt: skip

    def _append(self, step: _Prepared, keys: tuple[Any, ...], operands: Sequence[Any]) -> None:
        """Append a launch in its plain variant."""
        _, queue, groups, counts = self._parts
        variant = step.variant
        buffers = [operands[i] for i in step.buffers]
        group = groups.known((variant.layout, keys))
        if group is None:
            group = groups.get(variant.layout, buffers, None, variant.name)
        counts["launches"] += 1
        queue.append(
            Launch(
                variant.name, variant.pipeline, group, step.counts, step.arguments(operands), None,
                [x.contents for x in buffers], step.executable.results,
            )
        )  # fmt: skip


def _prepared(step: BundledLaunch) -> _Prepared:
    executable: Executable = step.executable
    parameters = list(zip(executable.signature.parameters, step.bindings, strict=True))
    buffers = [b for dtype, b in parameters if dtype is None]
    assert not any(isinstance(b, Fixed) for b in buffers), "a buffer is an operand"
    numbers = tuple(b for dtype, b in parameters if dtype is not None)
    fixed = [n.value for n in numbers if isinstance(n, Fixed)]
    is_folded = executable.check_grid(step.grid)
    packed = None
    if len(fixed) == len(numbers):
        packed = executable.packed(fixed, step.grid, is_folded=is_folded)
    return _Prepared(
        executable,
        tuple(b for b in buffers if not isinstance(b, Fixed)),
        numbers,
        step.grid,
        is_folded,
        packed,
        executable.variant(all_writable=False, is_folded=is_folded),
        executable.counts(step.grid, is_folded=is_folded),
    )
