"""Writes by atomics to few places: each workgroup has a copy of them in memory that it shares.

Where many writes meet at few places, as those of a histogram do, a GPU does them one after the
other.  So each workgroup does its part of the writes to a copy of its own, and then what came of
it, one write for each place.  The result is that of `atomic.write_atomically`: integers are the
same in every order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of, layout_of
from pyrite.backend.cube.skeleton.each import Each, EachConfig, Points
from pyrite.backend.cube.skeleton.protocol import Body, Fused, launch
from pyrite.backend.cube.skeleton.scatter.atomic import atomic_of
from pyrite.backend.cube.skeleton.scatter.config import THREADS, ScatterConfig
from pyrite.backend.cube.skeleton.scatter.identity import identity_of
from pyrite.backend.cube.skeleton.scatter.writes import Writes, number_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Kernel, Value
from pyrite.kernel.extent import extent
from pyrite.types import Number, element_count

#: Writes that an invocation reads before it does the first.
_AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class SharedConfig:
    """So many ``workgroups``, each with a copy of the places."""

    workgroups: int = extent()


class SharedSkeleton:
    """Kernels whose workgroups do parts of some writes; the body is `_write`."""

    name = "scatter shared"

    def candidates(self, problem: Points, machine: Machine) -> list[SharedConfig]:
        """Return one config."""
        return [SharedConfig(machine.workgroups)]

    def select(self, problem: Points, machine: Machine) -> SharedConfig:
        """Return it."""
        return SharedConfig(machine.workgroups)

    def workgroups(self, problem: Points, config: SharedConfig) -> int:
        """Return how many workgroups run the kernel."""
        return config.workgroups

    def build(self, problem: Points, config: SharedConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: operands, and an error word."""
        assert fused.body is not None
        each = Each(fused.body.name, problem, EachConfig(THREADS), grid)
        fused.body.of(each)
        return each.b.build()


_SHARED: Final = SharedSkeleton()


def write_shared(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig
) -> None:
    """Do the writes, on one line, to a target of 32-bit integers that holds the base already."""
    name = atomic_of(writes.collision, target.dtype)
    identity = identity_of(writes.collision, target.dtype)
    assert name is not None, "the config is one for such a collision"
    assert identity is not None, "the config is one for such a collision"
    operands = [*writes.sources, target]
    sizes = target.shape[: len(writes.reads)]
    points = Points(
        tuple(layout_of(t) for t in operands), "atomic", (), writes.fault is not None,
        (writes.count,), sizes,
    )  # fmt: skip
    variant = content_of((name, writes.variant, identity, config.chunk, len(writes.lines)))

    def body(each: Each) -> None:
        _write(each, writes, name, identity, config.chunk)

    launch(
        launcher, _SHARED, points, [b for t in operands for b in bindings_of(t)],
        config=SharedConfig(config.parts), fault=writes.fault,
        fused=Fused(body=Body("scatter_shared", ("scatter_shared", variant), body)),
    )  # fmt: skip


def _write(each: Each, writes: Writes, name: str, identity: Number, capacity: int) -> None:
    b, result, line = each.b, each.operands[-1], [0] * len(writes.lines)
    copy = b.shared(result.layout.dtype, capacity, access="atomic")
    count, places = each.shape[0], element_count(each.extents)
    with b.for_(b.local_index(), places, step=THREADS) as loop:
        copy.atomic("store", loop.index, identity)
        loop.yield_()
    b.barrier()
    every = _workgroups(each) * THREADS
    rounds = (every * _AHEAD + (count - 1)) // (every * _AHEAD)
    with b.for_(0, rounds) as loop:
        found = []
        for n in range(_AHEAD):
            number = (loop.index * _AHEAD + n) * every + each.index
            kept = b.min(number, count - 1)
            inside, index = writes.place(each, kept, line, each.extents)
            value = writes.update(each, writes.position, kept, line)
            found.append((number_of(index, each.extents), value, inside & (number < count)))
        for place, value, mask in found:
            copy.atomic(name, place, value, mask=mask)
        loop.yield_()
    b.barrier()
    with b.for_(b.local_index(), places, step=THREADS) as loop:
        value = copy.atomic("load", loop.index)
        place = result.at([*each.coordinates(loop.index, each.extents), *line])
        result.memory.atomic(name, place, value, mask=b.alu("ne", value, identity))
        loop.yield_()


def _workgroups(each: Each) -> Value:
    b = each.b
    found = b.num_workgroups(0)
    return found if b.grid == 1 else found * b.num_workgroups(1)
