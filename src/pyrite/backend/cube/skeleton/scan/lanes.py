"""A scan of one state for each lane of a workgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.backend.cube.skeleton.fold import State
from pyrite.kernel import KernelBuilder, Memory


def scanned_lanes(
    b: KernelBuilder,
    memories: Sequence[Memory],
    state: State,
    join: Callable[[State, State], State],
) -> None:
    """Write to memories of the workgroup, at each lane, the join of the states up to its own.

    By doubling: Hillis & Steele 1986, "Data parallel algorithms".  Begins without and ends with a
    barrier.
    """
    lanes, lane = b.workgroup_size[0], b.local_id(0)
    for memory, value in zip(memories, state, strict=True):
        memory[lane] = value
    distance = 1
    while distance < lanes:
        b.barrier()
        reaches = lane >= distance
        before = tuple(m.load(lane - distance, mask=reaches) for m in memories)
        joined = join(before, state)
        state = tuple(b.select(reaches, x, y) for x, y in zip(joined, state, strict=True))
        b.barrier()
        for memory, value in zip(memories, state, strict=True):
            memory[lane] = value
        distance *= 2
    b.barrier()
