"""Means: sums over how many there are."""

from __future__ import annotations

import math
from dataclasses import replace

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.fold.fold import sum_of
from pyrite.backend.cube.skeleton.fold.launch import reduce_axes
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.types import TensorType


def mean_over(
    launcher: Launcher, x: CubeTensor, axes: tuple[int, ...], type: TensorType
) -> CubeTensor:
    """Return the means over axes as a dense tensor of the type, which has one element for each."""
    dtype = x.dtype.compute
    count = math.prod(x.shape[a] for a in axes)
    fold = replace(
        sum_of(dtype),
        variant=f"mean of {count}",
        end=lambda k, s: s[0] / float(count),
    )
    return reduce_axes(launcher, fold, x, axes, type)
