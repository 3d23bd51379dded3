"""Cumulative ops, and what is found by counting: scans of the folds of reductions.

Only a recurrence is walked line by line: joined pairs of links could overflow where no term does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import truth
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.elementwise import contiguous, dense, map_elements
from pyrite.backend.cube.skeleton.fold import (
    State,
    accumulation,
    position_of,
    product_of,
    sum_of,
)
from pyrite.backend.cube.skeleton.scan import scan_axis, scan_results
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import OPS, Attributes, Constant, Op
from pyrite.types import DType, Shape, TensorType, int32

Place = Callable[[Value], list[Value | int]]


@lowers("cumulative_sum", "cumulative_prod")
def fold_along(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Running sums and products, maybe with the initial value, maybe from the end."""
    dtype = attrs["dtype"].compute
    fold = sum_of(dtype) if op.name == "cumulative_sum" else product_of(dtype)
    found = scan_axis(
        launcher, fold, inputs[0], attrs["axis"], out[0], has_initial=attrs["include_initial"],
        is_reverse=attrs["reverse"],
    )  # fmt: skip
    return [found]


@lowers("cumulative_logsumexp")
def log_sums(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Running logarithms of sums, by the rule of `logaddexp`."""
    dtype = inputs[0].dtype.compute
    fold = accumulation("logsumexp", dtype.lowest, dtype, _joined_logarithms)
    return [scan_axis(launcher, fold, inputs[0], attrs["axis"], out[0])]


def _joined_logarithms(k: RecordingAlgebra, x: Value, y: Value) -> Value:
    """Return log(exp(x) + exp(y)), which is y where x is the logarithm of no sum.

    That is asked by its bits: where x is known to be -inf, a driver of NVIDIA's makes log 2 of
    log1p(exp(x - y)) in float64 (seen on an H200).
    """
    rule = OPS["logaddexp"].scalar
    assert rule is not None
    joined: Value = k.where(k.isinf(x) & k.signbit(x), y, rule(k, x, y))
    return joined


@lowers("cumulative_argmax", "cumulative_argmin")
def positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Where the extreme so far is: the first that is not beaten, or the first NaN."""
    (x,) = inputs
    fold = position_of(op.name.removeprefix("cumulative_"), x.dtype.compute)
    return [scan_axis(launcher, fold, x, attrs["axis"], out[0])]


@lowers("cummax_with_indices", "cummin_with_indices")
def extrema_with_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The extreme so far and where it is: one scan, whose state has both."""
    (x,) = inputs
    fold = position_of("arg" + op.name[3:6], x.dtype.compute)
    results = [(_value_of(x.dtype), x.type), (fold.end, TensorType(x.shape, int32))]
    fold = replace(fold, variant="with the value")
    return scan_results(launcher, fold, results, x, attrs["axis"])


@lowers("cummax", "cummin")
def extrema(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The extreme so far: an element takes its place by beating it, or by being the first NaN."""
    (x,) = inputs
    of_positions = position_of("arg" + op.name[3:], x.dtype.compute)
    (lowest, dtype), is_max = of_positions.start[0], op.name == "cummax"

    def later(k: RecordingAlgebra, x: Value, y: Value) -> Value:
        wins = y > x if is_max else y < x
        if dtype.is_float:
            wins = (wins | k.isnan(y)) & ~k.isnan(x)
        return k.builder.select(wins, y, x)

    fold = replace(accumulation(op.name, lowest, dtype, later), end=_value_of(x.dtype))
    return [scan_axis(launcher, fold, x, attrs["axis"], x.type)]


def _value_of(dtype: DType) -> Callable[[RecordingAlgebra, State], Value]:
    """Return what makes an element of a dtype of a state, which begins with it."""
    return lambda k, state: truth(k.builder, state[0]) if dtype.is_bool else state[0]


def _lines(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _along(each: Each, axis: int) -> Place:
    """Return the coordinates of a position on the invocation's line."""

    def place(position: Value) -> list[Value | int]:
        return [*each.at[:axis], position, *each.at[axis + 1 :]]

    return place


@lowers("linear_recurrence")
def recurrence(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """h_i = x_i + links_{i-1} h_{i-1}, or from the end."""
    x, _ = inputs
    axis, is_reverse = attrs["axis"], attrs["reverse"]
    size = x.shape[axis]
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        b = each.b
        terms, links, result = each.operands
        place = _along(each, axis)
        first = b.index(size - 1 if is_reverse else 0)
        result[place(first)] = terms[place(first)]
        with b.for_(1, size, carried=[terms[place(first)]]) as loop:
            position = (size - 1) - loop.index if is_reverse else loop.index
            link = position if is_reverse else position - 1
            value = terms[place(position)] + links[place(link)] * loop.carried[0]
            result[place(position)] = value
            loop.yield_(value)

    if target.type.size:
        variant = content_of((axis, size, is_reverse))
        for_each(launcher, op.name, variant, _lines(x.shape, axis), inputs, target, body)
    return [target]


# ---- positions of what is not zero ----


@lowers("argwhere")
def all_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """As many positions as there are: the host waits for their number."""
    (x,) = inputs
    before = _counts_before(launcher, x)
    count = contiguous(launcher, before.sliced((x.type.size,), (1,), (1,)), always=True)
    look = launcher.faults.look([x.doubt])
    found = launcher.runtime.read_all([(count.buffer, int32, (1,)), *look.wanted])
    size = int(look.take(found)[0][0])
    target = launcher.empty(TensorType((size, len(x.shape)), int32))
    _write_positions(launcher, x, before, target)
    return [target]


@lowers("argwhere_within")
def first_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The positions of what is not zero, in row-major order, and the filling behind them."""
    (x,) = inputs
    fill = Constant(attrs["fill_value"], TensorType((), int32))
    target = dense(launcher, fill, out[0])
    _write_positions(launcher, x, _counts_before(launcher, x), target)
    return [target]


def _counts_before(launcher: Launcher, x: CubeTensor) -> CubeTensor:
    """Return how many elements before each, in row-major order, are not zero, and in all."""
    ones = launcher.empty(TensorType((x.type.size,), int32))
    shaped = ones.reshaped(x.shape)
    assert shaped is not None, "a dense tensor takes any shape"
    map_elements(
        launcher, "is_nonzero", "", lambda k, v: k.cast(truth(k.builder, v), int32), [x], shaped
    )
    total = TensorType((x.type.size + 1,), int32)
    return scan_axis(launcher, sum_of(int32), ones, 0, total, has_initial=True)


def _write_positions(
    launcher: Launcher, x: CubeTensor, before: CubeTensor, target: CubeTensor
) -> None:
    """Write the coordinates of each element that is not zero to its row, if there is one."""
    size, ndim = target.shape

    def body(each: Each) -> None:
        b = each.b
        source, counts, result = each.operands
        row = b.index(counts[[each.index]])
        with b.if_(truth(b, source[each.at]) & (row < size)):
            for axis in range(ndim):
                result[row, axis] = b.cast(b.index(each.at[axis]), int32)

    if target.type.size:
        for_each(launcher, "argwhere", f"{size}", x.shape, [x, before], target, body)
