"""Ops whose rule is a fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers_rule
from pyrite.backend.cube.skeleton.elementwise import as_tensor
from pyrite.backend.cube.skeleton.fold import KernelFold, problem_of, reduce_results
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Fold, Op, rules_key
from pyrite.op.rule.fold import axes_of


@lowers_rule(Fold)
def fold_axes(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The elements over axes, or along one, joined to one state for each result."""
    assert isinstance(op.rule, Fold)
    x = as_tensor(launcher, inputs[0])
    axes = axes_of(attrs.get("axis"), len(x.shape))
    count = math.prod(x.shape[a] for a in axes)
    rule = _suited(launcher, op.rule, x, axes)
    bound = rule.of(x.dtype.compute, [type.dtype for type in out], attrs, count)
    fold = KernelFold(op.name, bound, rules_key(op))
    return reduce_results(launcher, fold, x, axes, out)


def _suited(launcher: Launcher, rule: Fold, x: CubeTensor, axes: tuple[int, ...]) -> Fold:
    """Return the form of a fold with the larger state where there are registers to spare.

    A GPU has instructions to spare, and columns need the registers for more neighbours.
    """
    is_row = launcher.machine.kind == "cpu" and not problem_of(x, axes).is_columns
    larger = rule.larger(x.dtype.compute) if is_row and rule.larger is not None else None
    return larger or rule
