"""What one launch of a fold does."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.skeleton.fold.config import Problem
from pyrite.kernel.extent import extent
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class Reduction:
    """A launch of a fold: both sides of its input, and what it reads and writes.

    A state has so many ``values``.  Elements are taken in, or states without ``takes``; results are
    written, or states without ``ends``.  ``count`` is what the fold's end is told.
    """

    problem: Problem
    values: int
    sources: tuple[Layout, ...] = ()
    targets: tuple[DType, ...] = ()
    takes: bool = True
    ends: bool = True
    count: int = extent(default=0)
