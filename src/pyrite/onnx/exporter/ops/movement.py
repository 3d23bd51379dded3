"""Movement: the same values at other places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.onnx.exporter.call import TO_END, Call, Value
from pyrite.onnx.exporter.registry import exports
from pyrite.onnx.exporter.size import Size, Varying, values_of
from pyrite.types import int64


@exports("reshape")
def _reshape(call: Call, x: Value, *, shape: Sequence[Size]) -> Value:
    made = call.reshape(x, shape)
    return call.emit("Identity", x) if made is x else made


@exports("permute_dims")
def _permute(call: Call, x: Value, *, axes: Sequence[int]) -> Value:
    return call.emit("Transpose", x, perm=list(axes)) if axes else call.emit("Identity", x)


@exports("broadcast_to")
def _broadcast_to(call: Call, x: Value, *, shape: Sequence[Size]) -> Value:
    return call.emit("Expand", x, call.stretch(x.shape, shape))


@exports("concat")
def _concat(call: Call, *parts: Value, axis: int) -> Value:
    return call.emit("Concat", *parts, axis=axis)


@exports("slice")
def _slice(
    call: Call, x: Value, *, start: Sequence[Size], size: Sequence[Size], step: Sequence[int]
) -> Value:
    return sliced(call, x, start, size, step)


def sliced(
    call: Call, x: Value, start: Sequence[Size], size: Sequence[Size], step: Sequence[int]
) -> Value:
    """Return the elements start + i * step of each axis, 0 <= i < size."""
    axes, starts, ends, steps = [], [], [], []
    rows = zip(x.shape, start, size, step, strict=True)
    for axis, (n, first, count, stride) in enumerate(rows):
        if first == 0 and count == n and stride == 1:
            continue
        axes.append(axis)
        starts.append(_from_either_end(first, n))
        ends.append(_end(n, first, count, stride))
        steps.append(stride)
    if not axes:
        return call.emit("Identity", x)
    spelled = [call.integers(starts), call.integers(ends), call.axes(axes)]
    if any(stride != 1 for stride in steps):
        spelled.append(call.axes(steps))
    made = call.emit("Slice", x, *spelled)
    return Value(made.name, made.dtype, tuple(size))


def _from_either_end(place: Size, n: Size) -> Size:
    """Return a place on an axis, counted from its end where only that is always the same."""
    behind = place - n
    if isinstance(place, Varying) and isinstance(behind, int) and behind < 0:
        return behind
    return place


def _end(n: Size, first: Size, count: Size, stride: int) -> Size:
    if count == 0:
        return first
    if stride < 0:
        end = first + count * stride
        # Below 0 an end counts from the back: the least integer is before all.
        values = end.values if isinstance(end, Varying) else (end,)
        return -TO_END if all(v < 0 for v in values) else end
    last = first + (count - 1) * stride
    if _reaches_end(last + stride, n):
        return TO_END
    return _from_either_end(last + 1, n) if (last + 1) != n else TO_END


def _reaches_end(beyond: Size, n: Size) -> bool:
    """Whether the next element would lie beyond the axis, at each trace."""
    distance = beyond - n
    return all(d >= 0 for d in values_of(distance, 1))


@exports("slice_update")
def _slice_update(
    call: Call,
    x: Value,
    value: Value,
    *,
    shape: Sequence[Size],
    start: Sequence[Size],
    size: Sequence[Size],
    step: Sequence[int],
) -> Value:
    """Write a slice: pad zeros around it where it is written to zeros, else scatter it."""
    value = call.emit("Expand", value, call.stretch(value.shape, size))
    if x.number == 0 and all(s == 1 for s in step):
        after = [n - first - count for n, first, count in zip(shape, start, size, strict=True)]
        zero = call.number(0, x.dtype)
        return call.emit("Pad", value, call.integers([*start, *after]), zero)
    base = call.emit("Expand", x, call.stretch(x.shape, shape))
    sizes = call.static("a slice to write to", (*shape, *start, *size, *step))
    rank = len(shape)
    first, count, stride = (sizes[rank * i : rank * (i + 1)] for i in (1, 2, 3))
    grids = np.meshgrid(
        *(f + np.arange(c) * s for f, c, s in zip(first, count, stride, strict=True)),
        indexing="ij",
    )
    if not rank:
        return value
    places = call.array(np.stack(grids, -1), int64)
    return call.emit("ScatterND", base, places, value)


@exports("band")
def _band(call: Call, x: Value, *, low: Size | None, high: Size | None) -> Value:
    """Keep the elements between two diagonals."""
    found = x
    # Trilu knows floats, integers and bools, and the diagonal as an int64 operand.
    if high is not None:
        found = call.emit("Trilu", found, call.scalar(high, int64), upper=0)
    if low is not None:
        found = call.emit("Trilu", found, call.scalar(low, int64), upper=1)
    return found if found is not x else call.emit("Identity", x)


@exports("sliding_window")
def _sliding_window(call: Call, x: Value, *, axis: int, size: Size, step: Size) -> Value:
    """Gather the windows of an axis; the new axis of each window's elements is the last."""
    n, length, stride = call.static("a window", (x.shape[axis], size, step))
    starts = np.arange((n - length) // stride + 1) * stride
    places = starts[:, None] + np.arange(length)
    found = call.emit("Gather", x, call.array(places, int64), axis=axis)
    rank = x.ndim + 1
    order = [a for a in range(rank) if a != axis + 1] + [axis + 1]
    return call.emit("Transpose", found, perm=order)
