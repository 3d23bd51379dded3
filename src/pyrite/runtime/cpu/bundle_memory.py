"""The memory of bundles: buffers that are lent for a run, and parts of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyrite.columns import Maker, chooser
from pyrite.runtime.cpu.memory import Allocator, Block, CpuBuffer, CpuView, Lease, SizeClass
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import Slot, machine_code

#: Makes many parts of buffers.
VIEWS: Final = Maker(CpuView, "base", "offset", "nbytes")

#: So many buffers are lent together.
MANY: Final = 4

#: What is known of a buffer that is wanted: the leases of its size that ended, how one of them is
#: taken, and put there, its bytes, and its size class.
Lent = tuple[deque[Lease], Callable[[], Lease], Callable[[Lease], None], int, SizeClass]
Lend = Callable[[SizeClass, int], CpuBuffer]
Take = Callable[[Lend, Sequence[Lent]], list[Any]]


def lent(lend: Lend, wanted: Sequence[Lent]) -> list[CpuBuffer]:
    """Return buffers by `Allocator.lend`."""
    return [lend(of, nbytes) for *_, nbytes, of in wanted]


#: What does so: machine code, once there is some.
lenders: Final[list[Callable[[Lend, Sequence[Lent]], list[CpuBuffer]]]] = [lent]
#: What does so in two steps, where there is machine code: the first returns a list of leases that
#: ended, whose blocks the buffers will have, the second puts the buffers in the place of these.
takers: Final[list[tuple[Take, Callable[[list[Any], Sequence[Lent]], None]]]] = []


def lend_natively(compiler: Compiler) -> None:
    """Have many buffers lent by machine code, from now on."""
    if lenders[0] is lent:
        buffer = CpuBuffer.__new__(CpuBuffer)
        slots: list[Slot] = [
            *[(CpuBuffer, s, None) for s in ("block", "address", "nbytes", "origin")],
            (Lease, "block", Lease(buffer)),
            *[(Block, s, None) for s in ("address", "lease")],
        ]
        held = (None, CpuBuffer, Lease)
        lenders[0] = machine_code(compiler, "lending", held, slots) or lent
        take = machine_code(compiler, "lending", held, slots, "take")
        lease = machine_code(compiler, "lending", held, slots, "lease")
        if take is not None and lease is not None:
            takers[:] = [(take, lease)]


class LentBuffers:
    """The memory of a bundle whose buffers are new in each run, of classes that are known."""

    __slots__ = ("_chosen", "_lend", "_wanted", "wanted")

    def __init__(self, allocator: Allocator, sizes: Sequence[int]) -> None:
        self._lend = allocator.lend
        #: Of which buffers the last parts were, and what takes these out of all.
        self._chosen: tuple[Sequence[int], Callable[[Any], Sequence[Any]]] = (), chooser(())
        #: The class of each, and its bytes.
        self.wanted = tuple([(allocator.size_class(nbytes), nbytes) for nbytes in sizes])
        #: The same for machine code, once it was asked for.
        self._wanted: tuple[Lent, ...] = ()

    def needed(self, *, are_new: bool = False) -> int:
        """Return how many bytes `buffers` takes."""
        return sum([of.capacity for of, _ in self.wanted])

    def buffers(self, *, are_new: bool = False) -> list[Any]:
        """Return a buffer of each size; see `pyrite.runtime.protocol.BundleMemory`."""
        lend = self._lend
        if len(self.wanted) == 1:
            ((of, nbytes),) = self.wanted
            return [lend(of, nbytes)]
        if len(self.wanted) >= MANY:
            return lenders[0](lend, self._wanted or self._note_wanted())
        # A comprehension is a call more, which shows in small ops.
        made = []
        for of, nbytes in self.wanted:
            made.append(lend(of, nbytes))
        return made

    def _note_wanted(self) -> tuple[Lent, ...]:
        self._wanted = tuple([
            (of.ended, of.ended.pop, of.end, nbytes, of) for of, nbytes in self.wanted
        ])  # fmt: skip
        return self._wanted

    def take(self) -> list[Any]:
        """Return what `buffers` does, but leases that ended, of which `lease` makes buffers.

        Launches need no more than that, and who computes them waits.  By machine code alone.
        """
        take, _ = takers[0]
        return take(self._lend, self._wanted or self._note_wanted())

    def lease(self, taken: list[Any]) -> None:
        """Put buffers in the place of leases into a list by `take`."""
        _, lease = takers[0]
        lease(taken, self._wanted)

    def parts(
        self, buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int],
        sizes: Sequence[int],
    ) -> list[CpuView]:  # fmt: skip
        """Return parts of buffers; see `pyrite.runtime.protocol.BundleMemory`."""
        # Looked at as one: another thread may be here too.
        known, choose = self._chosen
        if known is not which:
            choose = chooser(which)
            self._chosen = which, choose
        return VIEWS.many(len(which), choose(buffers), offsets, sizes)
