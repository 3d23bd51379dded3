"""Ops of windows: pools, whose rule is a fold through a map, and what is faster than its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input, lowers, lowers_rule
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.window import fold_windows
from pyrite.backend.cube.skeleton.window.axis import sliding
from pyrite.backend.cube.skeleton.window.maximum_gradient import by_element, by_window, select
from pyrite.backend.cube.skeleton.window.resampling import lines_of, resample
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import OPS, Attributes, Fold, Op, rules_key
from pyrite.op.rule import WindowFold
from pyrite.op.rule.folds import MAX


@lowers_rule(WindowFold)
def pool(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the folds of windows."""
    assert isinstance(op.rule, WindowFold)
    return by_rule(launcher, op, op.rule, inputs, attrs, out)


#: The greatest element alone: of elements that come in order the one above what was before.
_GREATEST = Fold(
    start=lambda dtype: ((dtype.lowest, dtype),),
    join=lambda k, s, t: (
        k.where(k.exceeds(t[0], s[0]), t[0], s[0]),
    ),
)  # fmt: skip


@lowers("max_pool")
def max_pool(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the maxima without their positions, which its body computes and drops."""
    whole = OPS["max_pool_with_indices"].rule
    assert isinstance(whole, WindowFold)
    rule = WindowFold(MAX, whole.windows, _GREATEST, whole.neutral)
    return by_rule(launcher, op, rule, inputs, attrs, out)


def by_rule(
    launcher: Launcher, op: Op, rule: WindowFold, inputs: Sequence[Input], attrs: Attributes,
    out: Any,
) -> Sequence[CubeTensor]:  # fmt: skip
    """Return the results of an op by a rule."""
    given = inputs[0]
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


@lowers("max_pool_backward")
def max_pool_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the sum of g of the windows whose maximum each element is.

    By its rule it is a scatter, which cannot know that indices lie in windows: where they are
    known, each element looks for its own, and nobody waits for who wrote before.
    """
    g, indices = inputs
    windows = attrs["windows"]
    axes = None if windows is None else sliding(attrs["sizes"], g.shape[2:], *windows)
    if axes is None or select(axes, launcher.machine).by == "window":
        return [by_window(launcher, g, indices, out[0])]
    return [by_element(launcher, g, indices, out[0], axes)]


@lowers("resample")
def resampled(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Run one kernel for all axes, where the body gathers and sums axis by axis."""
    x, places, weights = inputs
    target, lines = launcher.empty(out[0]), lines_of(attrs)
    resample(launcher, x, places, weights, lines, target, skips=attrs["skips"])
    return [target]
