"""The ops that read by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.gather import gather
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.op.rule import Gather


@lowers_rule(Gather)
def by_rule(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run a gather as the rule of the op says."""
    assert isinstance(op.rule, Gather)
    return [gather(launcher, op.name, op.rule, inputs, attrs, out[0])]
