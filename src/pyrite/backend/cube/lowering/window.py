"""Ops of windows: pools, whose rule is a fold through a map, and what is faster than its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input, lowers, lowers_rule
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.window import fold_windows
from pyrite.backend.cube.skeleton.window.resampling import lines_of, resample
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Fold, Op, rules_key
from pyrite.op.rule import WindowFold


@lowers_rule(WindowFold)
def pool(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the folds of windows."""
    rule, given = op.rule, inputs[0]
    assert isinstance(rule, WindowFold)
    assert given is not None
    x = as_tensor(launcher, given)
    dtype = x.dtype.compute

    def bound(fold: Fold) -> KernelFold:
        results = [type.dtype for type in out]
        return KernelFold(op.name, fold.of(dtype, results, {**attrs, "first": 0}, 0), rules_key(op))

    windows = rule.windows(x.shape, **attrs)
    neutral = None if rule.neutral is None else rule.neutral(dtype)
    folds = bound(rule.fold), bound(rule.in_order or rule.fold)
    return fold_windows(launcher, op.name, *folds, windows, neutral, x, out)


@lowers("resample", why="all axes in one kernel; its body gathers axis by axis")
def resampled(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run one kernel for all axes, where the body gathers and sums axis by axis."""
    x, places, weights = inputs
    target, lines = launcher.empty(out[0]), lines_of(attrs)
    resample(launcher, x, places, weights, lines, target, skips=attrs["skips"])
    return [target]
