"""The ops that are reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.fold.fold import (
    extremum_of,
    extremum_of_bits,
    position_of,
    product_of,
    sum_of,
    truth_of,
)
from pyrite.backend.cube.skeleton.fold.launch import problem_of, reduce_axes
from pyrite.backend.cube.skeleton.fold.mean import mean_over
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op


@lowers("sum", "prod")
def accumulate(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Sums and products, in the dtype that the op states."""
    dtype = attrs["dtype"].compute
    fold = sum_of(dtype) if op.name == "sum" else product_of(dtype)
    return [reduce_axes(launcher, fold, inputs[0], attrs["axis"], out[0])]


@lowers("mean")
def mean(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The sum over how many there are; NaN over none."""
    return [mean_over(launcher, inputs[0], attrs["axis"], out[0])]


@lowers("max", "min")
def extremum(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Folds of maximum and minimum."""
    (x,) = inputs
    axes, dtype = attrs["axis"], x.dtype.compute
    # A GPU has instructions to spare, and columns need the registers for more neighbours.
    is_row = launcher.machine.kind == "cpu" and not problem_of(x, axes).is_columns
    of = extremum_of_bits if is_row and dtype.is_float else extremum_of
    return [reduce_axes(launcher, of(op.name, dtype), x, axes, out[0])]


@lowers("any", "all")
def truth_value(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Whether any, or every, element is not zero."""
    return [reduce_axes(launcher, truth_of(op.name), inputs[0], attrs["axis"], out[0])]


@lowers("argmax", "argmin")
def position(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Where the extreme is, along one axis or among all elements in row-major order."""
    (x,) = inputs
    axis = attrs["axis"]
    axes = tuple(range(len(x.shape))) if axis is None else (axis,)
    fold = position_of(op.name, x.dtype.compute)
    return [reduce_axes(launcher, fold, x, axes, out[0])]
