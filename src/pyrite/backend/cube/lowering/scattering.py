"""The ops that write by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.scatter import last_write, scatter
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.op.rule import LastWrite, Scatter


@lowers_rule(Scatter)
def by_rule(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run a scatter as the rule of the op says."""
    assert isinstance(op.rule, Scatter)
    return [scatter(launcher, op.rule, inputs, attrs, out[0])]


@lowers_rule(LastWrite)
def last_by_rule(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Say which writes are last, as the rule of the op says."""
    assert isinstance(op.rule, LastWrite)
    return [last_write(launcher, op.name, op.rule, inputs, attrs, out[0])]
