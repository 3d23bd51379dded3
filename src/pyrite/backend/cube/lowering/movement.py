"""Movement: views are arithmetic on strides, the rest is copies to where the elements belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import added
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.elementwise import (
    as_tensor,
    contiguous,
    copy,
    dense,
    elementwise,
    zeros,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op

# ---- views: no kernel ----


@lowers("reshape")
def reshape(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The same memory where the strides allow it, else a copy."""
    (x,) = inputs
    view = x.reshaped(attrs["shape"])
    if view is None:
        view = contiguous(launcher, x).reshaped(attrs["shape"])
    assert view is not None, "a dense tensor takes any shape"
    return [view]


@lowers("permute_dims")
def permute(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The strides in another order."""
    return [inputs[0].permuted(attrs["axes"])]


@lowers("broadcast_to")
def broadcast_to(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Strides of 0 where it is stretched."""
    return [inputs[0].broadcast_to(attrs["shape"])]


@lowers("slice")
def slice_(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Another offset, and strides times the steps."""
    return [inputs[0].sliced(attrs["start"], attrs["size"], attrs["step"])]


@lowers("sliding_window")
def sliding_window(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """One more axis, over the same elements again."""
    return [inputs[0].windowed(attrs["axis"], attrs["size"], attrs["step"])]


@lowers("astype")
def astype(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The same memory where the dtype is that already, else a new tensor by the scalar rule."""
    (x,) = inputs
    return [x] if x.dtype is out[0].dtype else elementwise(launcher, op, inputs, attrs, out)


# ---- copies ----


@lowers("slice_update")
def slice_update(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """x everywhere, then the value over its slice."""
    x, value = inputs
    assert x is not None
    assert value is not None
    start, size, step = attrs["start"], attrs["size"], attrs["step"]
    (type,) = out
    is_all = size == type.shape
    target = launcher.empty(type) if is_all else dense(launcher, x, type)
    part = target.sliced(start, size, step)
    copy(launcher, as_tensor(launcher, value), part)
    return [target]


@lowers("concat")
def concat(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Each tensor to its slice of the result."""
    axis = attrs["axis"]
    target = launcher.empty(out[0])
    ones = (1,) * target.type.ndim
    begin = 0
    for x in inputs:
        assert isinstance(x, CubeTensor)
        start = tuple(begin if a == axis else 0 for a in range(target.type.ndim))
        copy(launcher, x, target.sliced(start, x.shape, ones))
        begin += x.shape[axis]
    return [target]


# ---- elements chosen by their position ----


@lowers("band")
def band(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The diagonals low <= column - row <= high, zeros elsewhere."""
    low, high = attrs["low"], attrs["high"]
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        x, result = each.operands
        row, column = (each.b.index(i) for i in each.at[-2:])
        value = x[each.at]
        zero = x.const(0)
        if low is not None:
            value = each.b.select(column - row >= low, value, zero)
        if high is not None:
            value = each.b.select(column - row <= high, value, zero)
        result[each.at] = value

    for_each(launcher, op.name, f"{low} {high}", target.shape, inputs, target, body)
    return [target]


@lowers("overlap_add")
def overlap_add(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Each element of the result sums what the windows over it hold, by their position in it."""
    (windows,) = inputs
    axis, step = attrs["axis"], attrs["step"]
    count, size = windows.shape[axis], windows.shape[-1]
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        b = each.b
        x, result = each.operands
        position = b.index(each.at[axis])
        with b.for_(0, size, carried=[x.const(0)]) as loop:
            # Element `position` is number i of window (position - i) / step.
            distance = position - loop.index
            window = distance // step
            inside = (distance >= 0) & (window * step == distance) & (window < count)
            number = b.select(inside, window, 0)
            place = x.at([*each.at[:axis], number, *each.at[axis + 1 :], loop.index])
            loop.yield_(added(loop.carried[0], x.load(place, mask=inside)))
        result[each.at] = loop.results[0]

    if windows.type.size == 0:
        return [zeros(launcher, out[0])]
    variant = f"{axis} {step} {count} {size}"
    for_each(launcher, op.name, variant, target.shape, inputs, target, body)
    return [target]


def no_class(classes: int) -> str:
    """Return the error of an index that is no class."""
    return (
        f"cross_entropy requires targets 0 <= index < {classes}, the number of classes, got one "
        "outside; mark samples without a target by ignore_index"
    )


@lowers("class_mask")
def class_mask(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Whether the index names the class, which is the position on one axis."""
    axis, classes = attrs["axis"], attrs["classes"]
    target = launcher.empty(out[0])

    def body(each: Each) -> None:
        x, result = each.operands
        index = x[[*each.at[:axis], *each.at[axis + 1 :]]]
        inside, number = each.as_index(index, classes, from_end=False)
        each.fail(~inside)
        result[each.at] = (number == each.b.index(each.at[axis])) & inside

    variant = f"{axis} {classes}"
    fault = no_class(classes)
    for_each(launcher, op.name, variant, target.shape, inputs, target, body, fault=fault)
    return [target]
