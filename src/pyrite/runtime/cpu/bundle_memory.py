"""The memory of bundles: buffers that are lent for a run, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.columns import Maker, chooser
from pyrite.runtime.cpu.memory import Allocator, CpuView

_views = Maker(CpuView, "base", "offset", "nbytes")


class LentBuffers:
    """The memory of a bundle whose buffers are new in each run, of classes that are known."""

    __slots__ = ("_choose", "_lend", "_which", "wanted")

    def __init__(self, allocator: Allocator, sizes: Sequence[int]) -> None:
        self._lend = allocator.lend
        #: Of which buffers the last parts were, and what takes these out of all.
        self._which: Sequence[int] = ()
        self._choose = chooser(())
        #: The class of each, and its bytes.
        self.wanted = tuple([(allocator.size_class(nbytes), nbytes) for nbytes in sizes])

    def needed(self, *, are_new: bool = False) -> int:
        """Return how many bytes `buffers` takes."""
        return sum([of.capacity for of, _ in self.wanted])

    def buffers(self, *, are_new: bool = False) -> list[Any]:
        """Return a buffer of each size; see `pyrite.runtime.protocol.BundleMemory`."""
        lend = self._lend
        if len(self.wanted) == 1:
            ((of, nbytes),) = self.wanted
            return [lend(of, nbytes)]
        # A comprehension is a call more, which shows in small ops.
        made = []
        for of, nbytes in self.wanted:
            made.append(lend(of, nbytes))
        return made

    def parts(
        self, buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int],
        sizes: Sequence[int],
    ) -> list[CpuView]:  # fmt: skip
        """Return parts of buffers; see `pyrite.runtime.protocol.BundleMemory`."""
        if self._which is not which:
            self._which, self._choose = which, chooser(which)
        return _views.many(len(which), self._choose(buffers), offsets, sizes)
