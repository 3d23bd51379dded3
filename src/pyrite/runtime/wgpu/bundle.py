"""Launches that are made again and again: checked once, then only bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu.executable import Executable
from pyrite.runtime.wgpu.memory import Buffer
from pyrite.runtime.wgpu.submission import Immediates

Launch = Callable[[Executable, list[Buffer], Immediates | None, Sequence[int], bool], None]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A launch: where its buffers are among the operands, and its numbers, fixed or there too.

    ``packed`` are the numbers where all of them are fixed.
    """

    executable: Executable
    buffers: tuple[int, ...]
    numbers: tuple[int | Fixed, ...]
    grid: tuple[int, ...]
    is_folded: bool
    packed: Immediates | None


class WgpuBundle:
    """Launches of one device, whose bindings fit their kernels."""

    __slots__ = ("_launch", "_steps")

    def __init__(self, launch: Launch, steps: Sequence[BundledLaunch]) -> None:
        self._launch = launch
        self._steps = tuple(_prepared(step) for step in steps if 0 not in step.grid)

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        for step in self._steps:
            executable, packed = step.executable, step.packed
            if packed is None and step.numbers:
                numbers = [n.value if isinstance(n, Fixed) else operands[n] for n in step.numbers]
                packed = executable.packed(numbers, step.grid, is_folded=step.is_folded)
            self._launch(
                executable, [operands[i] for i in step.buffers], packed, step.grid, step.is_folded
            )


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
    )
