"""Which way the writes of a problem are done."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.scatter.config import ScatterConfig, select
from pyrite.backend.cube.skeleton.scatter.in_order import write_in_order
from pyrite.backend.cube.skeleton.scatter.segmented import write_in_segments
from pyrite.backend.cube.skeleton.scatter.writes import Writes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.types import element_count


def write(
    launcher: Launcher, writes: Writes, target: CubeTensor, config: ScatterConfig | None = None
) -> None:
    """Do the writes to a target of shape (N1, ..., ND, *lines), which holds the base already."""
    lines, elements = element_count(writes.lines), target.type.size
    config = config or select(writes.count, lines, elements, launcher.machine)
    if config.by == "segment":
        write_in_segments(launcher, writes, target, config)
    else:
        write_in_order(launcher, writes, target, config)
