"""Means: sums over how many there are."""

from __future__ import annotations

import math

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.fold.fold import KernelFold
from pyrite.backend.cube.skeleton.fold.launch import reduce_axes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.rule.folds import MEAN
from pyrite.types import TensorType


def mean_over(
    launcher: Launcher, x: CubeTensor, axes: tuple[int, ...], type: TensorType
) -> CubeTensor:
    """Return the means over axes as a dense tensor of the type, which has one element for each."""
    count = math.prod(x.shape[a] for a in axes)
    fold = KernelFold("mean", MEAN.of(x.dtype.compute, (type.dtype,), {}, count))
    return reduce_axes(launcher, fold, x, axes, type)
