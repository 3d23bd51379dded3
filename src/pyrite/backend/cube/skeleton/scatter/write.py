"""The launches of a scatter, by the way that is chosen for its problem."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.scatter.atomic import (
    assign_last,
    atomic_dtype,
    atomic_of,
    greatest_writes,
    nobody,
    write_atomically,
)
from pyrite.backend.cube.skeleton.scatter.config import Problem, ScatterConfig, select
from pyrite.backend.cube.skeleton.scatter.identity import identity_of
from pyrite.backend.cube.skeleton.scatter.in_order import write_in_order
from pyrite.backend.cube.skeleton.scatter.in_parts import write_in_parts
from pyrite.backend.cube.skeleton.scatter.in_tiles import write_in_tiles
from pyrite.backend.cube.skeleton.scatter.segmented import write_in_segments
from pyrite.backend.cube.skeleton.scatter.shared import write_shared
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.rule import ASSIGN, Collision
from pyrite.types import DType, Shape, TensorType, element_count, float32, int32


def problem_of(
    writes: int, lines: Shape, elements: int, collision: Collision, dtype: DType | None,
    real: DType | None = None,
) -> Problem:  # fmt: skip
    """Return the problem of so many writes on lines, to elements that can meet in a dtype.

    That is one with atomics, or None; ``real`` is the dtype in which they meet if it has none.
    """
    is_atomic = dtype is not None and atomic_of(collision, dtype) is not None
    is_assigned = collision is ASSIGN
    has_identity = dtype is not None and identity_of(collision, dtype) is not None
    adds_floats = real is float32 and atomic_of(collision, float32) == "add"
    return Problem(
        writes, element_count(lines), elements, is_atomic, is_assigned, has_identity, adds_floats
    )


def write(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig | None = None
) -> None:
    """Do the writes to a target of shape (N1, ..., ND, *lines), which holds the base already.

    By atomics it is one of 32-bit integers, or they are assigned.
    """
    if config is None:
        met = target.dtype if atomic_dtype(target.dtype) is target.dtype else None
        problem = problem_of(
            writes.count, writes.lines, target.type.size, writes.collision, met, target.dtype
        )
        config = select(problem, launcher.machine)
    if config.by == "segment":
        write_in_segments(launcher, writes, target, config)
    elif config.by == "part":
        write_in_parts(launcher, writes, target, config)
    elif config.by == "tile":
        write_in_tiles(launcher, writes, target, config)
    elif config.by == "shared":
        write_shared(launcher, writes, target, config)
    elif config.by != "atomic":
        write_in_order(launcher, writes, target, config)
    elif writes.collision is ASSIGN:
        assign_last(launcher, writes, target)
    else:
        write_atomically(launcher, writes, target)


def latest_writes(launcher: Launcher, writes: Writes, sizes: Shape) -> CubeTensor:
    """Return the numbers of the last writes to places of axes of sizes, and lines, int32.

    Those of places that nobody writes to are unspecified.
    """
    type = TensorType((*sizes, *writes.lines), int32)
    problem = problem_of(writes.count, writes.lines, type.size, ASSIGN, int32)
    if select(problem, launcher.machine).by == "atomic":
        latest = nobody(launcher, type)
        greatest_writes(launcher, writes, latest)
    else:
        latest = launcher.empty(type)
        write(launcher, writes, latest)
    return latest
