"""The ops that sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.sort import argsort_axis, argtopk_axis
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op


@lowers("argsort", why="an order of values has no class")
def argsort(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Positions in order."""
    (x,) = inputs
    return [argsort_axis(launcher, x, attrs["axis"], descending=attrs["descending"])]


@lowers("argtopk", why="its body sorts the whole row")
def argtopk(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the first k positions in order."""
    (x,) = inputs
    is_descending = attrs["largest"]
    return [argtopk_axis(launcher, x, attrs["axis"], attrs["k"], descending=is_descending)]
