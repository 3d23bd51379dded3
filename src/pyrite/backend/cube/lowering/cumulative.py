"""Cumulative ops: one invocation walks each line along the axis, carrying a state.

Lines are independent, so there are as many invocations as the other axes have elements.  The order
of the arithmetic is that of the reference, so results have its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.each import Each, for_each
from pyrite.backend.cube.lowering.elementwise import map_elements
from pyrite.backend.cube.lowering.reduction import reduce_axes, sum_of
from pyrite.backend.cube.lowering.registry import lowers
from pyrite.backend.cube.operand import truth
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import scalar
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import OPS, Attributes, Op
from pyrite.types import Shape, TensorType, bool_, int32, uint32

State = Sequence[Value]
Place = Callable[[Value], list[Value | int]]


def _lines(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _along(each: Each, axis: int) -> Place:
    """Return the coordinates of a position on the invocation's line."""

    def place(position: Value) -> list[Value | int]:
        return [*each.at[:axis], position, *each.at[axis + 1 :]]

    return place


@lowers("cumulative_sum", "cumulative_prod")
def fold_along(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Running sums and products, maybe with the initial value, maybe from the end."""
    (x,) = inputs
    axis, dtype = attrs["axis"], attrs["dtype"].compute
    has_initial, is_reverse = attrs["include_initial"], attrs["reverse"]
    size, extra = x.shape[axis], int(has_initial)
    is_sum = op.name == "cumulative_sum"
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        b = each.b
        source, result = each.operands
        place = _along(each, axis)
        start = b.const(0 if is_sum else 1, scalar(dtype))
        if has_initial:
            result[place(b.index(size if is_reverse else 0))] = start
        with b.for_(0, size, carried=[start]) as loop:
            position = (size - 1) - loop.index if is_reverse else loop.index
            value = b.cast(source[place(position)], dtype)
            total = loop.carried[0] + value if is_sum else loop.carried[0] * value
            shifted = position + extra if has_initial and not is_reverse else position
            result[place(shifted)] = total
            loop.yield_(total)

    variant = repr((axis, size, dtype.name, has_initial, is_reverse))
    for_each(launcher, op.name, variant, _lines(x.shape, axis), inputs, target, body)
    return [target]


@lowers("cumulative_logsumexp")
def log_sums(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Running logarithms of sums, by the rule of `logaddexp`."""
    (x,) = inputs
    axis, size = attrs["axis"], x.shape[attrs["axis"]]
    target = launcher.empty(out[0])
    join = OPS["logaddexp"].scalar
    assert join is not None

    def body(each: Each) -> None:
        b = each.b
        source, result = each.operands
        place = _along(each, axis)
        first = source[place(b.index(0))]
        result[place(b.index(0))] = first
        with b.for_(1, size, carried=[first]) as loop:
            total = join(each.k, loop.carried[0], source[place(loop.index)])
            result[place(loop.index)] = total
            loop.yield_(total)

    if target.type.size:
        variant = f"{axis} {size}"
        for_each(launcher, op.name, variant, _lines(x.shape, axis), inputs, target, body)
    return [target]


@lowers("cumulative_argmax", "cumulative_argmin")
def positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Where the extreme so far is: the first that is not beaten, or the first NaN."""
    (x,) = inputs
    axis, size = attrs["axis"], x.shape[attrs["axis"]]
    is_max = op.name == "cumulative_argmax"
    target = launcher.empty(out[0])

    def beats(k: RecordingAlgebra, value: Value, best: Value) -> Value:
        wins = value > best if is_max else value < best
        if not value.dtype.is_float:
            return wins
        return (wins | k.isnan(value)) & ~k.isnan(best)

    def body(each: Each) -> None:
        b = each.b
        source, result = each.operands
        place = _along(each, axis)

        def number(position: Value) -> Value:
            value = source[place(position)]
            return b.cast(value, uint32) if value.dtype is bool_ else value

        zero = b.index(0)
        result[place(zero)] = b.cast(zero, int32)
        with b.for_(1, size, carried=[number(zero), zero]) as loop:
            best, found = loop.carried
            value = number(loop.index)
            wins = beats(each.k, value, best)
            found = b.select(wins, loop.index, found)
            result[place(loop.index)] = b.cast(found, int32)
            loop.yield_(b.select(wins, value, best), found)

    if target.type.size:
        variant = f"{axis} {size}"
        for_each(launcher, op.name, variant, _lines(x.shape, axis), inputs, target, body)
    return [target]


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
        variant = repr((axis, size, is_reverse))
        for_each(launcher, op.name, variant, _lines(x.shape, axis), inputs, target, body)
    return [target]


@lowers("argwhere")
def all_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """As many positions as there are: the host waits for their number."""
    (x,) = inputs
    total = TensorType((), int32)
    ones = launcher.empty(TensorType(x.shape, int32))
    map_elements(launcher, op.name, "", lambda k, v: k.cast(truth(k.builder, v), int32), [x], ones)
    axes = tuple(range(len(x.shape)))
    count = reduce_axes(launcher, sum_of(int32), ones, axes, total)
    size = int(launcher.runtime.read(count.buffer, int32, ()))
    attributes = {"size": size, "fill_value": 0}
    return first_positions(
        launcher, op, inputs, attributes, [TensorType((size, len(x.shape)), int32)]
    )


@lowers("argwhere_within")
def first_positions(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The positions of what is not zero, in row-major order; one invocation counts them."""
    (x,) = inputs
    size, fill = attrs["size"], attrs["fill_value"]
    target = launcher.empty(out[0])
    count, ndim = x.type.size, len(x.shape)

    def body(each: Each) -> None:
        b = each.b
        source, result = each.operands
        with b.for_(0, count, carried=[b.index(0)]) as loop:
            (found,) = loop.carried
            coordinates = each.coordinates(loop.index, x.shape)
            is_found = truth(b, source[coordinates])
            with b.if_(is_found & (found < size)):
                for axis in range(ndim):
                    result[found, axis] = b.cast(b.index(coordinates[axis]), int32)
            loop.yield_(found + b.select(is_found, b.index(1), 0))
        with b.for_(b.min(loop.results[0], size), size) as rest:
            for axis in range(ndim):
                result[rest.index, axis] = b.const(fill, int32)

    if target.type.size:
        for_each(launcher, op.name, repr((x.shape, size, fill)), (1,), inputs, target, body)
    return [target]
