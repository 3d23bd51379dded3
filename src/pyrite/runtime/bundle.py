"""A bundle for runtimes where a launch is cheap beside what it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.runtime.protocol import BundledLaunch


class LaunchList:
    """Launches one by one, by the runtime's own method."""

    __slots__ = ("_launch", "_steps")

    def __init__(self, launch: Callable[[Any, Sequence[Any], Sequence[int]], None],
                 steps: Sequence[BundledLaunch]) -> None:  # fmt: skip
        self._launch = launch
        self._steps = tuple(steps)

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        for step in self._steps:
            self._launch(step.executable, step.bound(operands), step.grid)
