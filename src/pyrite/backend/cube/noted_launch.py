"""A launch that is noted, not made: what it binds are slots, and numbers that a call knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.slot import Slot
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

    @property
    def bound(self) -> Iterator[tuple[Node, Any]]:
        """The parameters of the kernel, each with what it is bound to."""
        return zip(self.executable.kernel.parameters, self.bindings, strict=True)

    @property
    def slots(self) -> Iterator[tuple[Slot, bool]]:
        """The slots that it touches, each with whether it may write there."""
        for node, binding in self.bound:
            if isinstance(binding, Slot):
                yield binding, not self.is_ours or node.attr[2] != "read"
