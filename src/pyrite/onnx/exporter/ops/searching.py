"""Places of values, and counts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import exports
from pyrite.onnx.exporter.size import Size
from pyrite.types import DType, bool_, int32, int64, uint8


@exports("searchsorted")
def _searchsorted(call: Call, x: Value, values: Value, *, side: Literal["left", "right"]) -> Value:
    """Count for each value the sorted ones before it: products of both in memory."""
    kind: DType = uint8 if x.dtype is bool_ else x.dtype
    ordered = call.cast(x, kind)
    wanted = call.emit("Unsqueeze", call.cast(values, kind), call.axes([-1]))
    pair = (ordered, wanted) if side == "left" else (wanted, ordered)
    is_before = _is_below(call, *pair)
    if side == "right":
        is_before = call.emit("Not", is_before)
    counted = call.cast(is_before, int32)
    return call.emit("ReduceSum", counted, call.axes([-1]), keepdims=0)


def _is_below(call: Call, x: Value, y: Value) -> Value:
    """Return whether x comes before y, NaN being above infinity."""
    found = call.emit("Less", x, y, dtype=bool_)
    if not x.dtype.is_float:
        return found
    is_last = call.emit("IsNaN", y, dtype=bool_)
    is_number = call.emit("Not", call.emit("IsNaN", x, dtype=bool_))
    return call.emit("Or", found, call.emit("And", is_last, is_number))


@exports("bincount_within")
def _bincount_within(call: Call, x: Value, weights: Value | None, *, size: Size) -> Value:
    """Add to a bin each; what has none goes to one more, which is cut off."""
    kind = call.out[0].dtype
    places = call.cast(x, int64)
    is_inside = call.emit(
        "And",
        call.emit("GreaterOrEqual", places, call.number(0, int64), dtype=bool_),
        call.emit("Less", places, call.scalar(size, int64), dtype=bool_),
    )
    places = call.emit("Where", is_inside, places, call.scalar(size, int64), dtype=int64)
    one = weights or call.emit("Expand", call.number(1, kind), call.integers(x.shape))
    bins = call.emit("Expand", call.number(0, kind), call.integers((size + 1,)))
    found = call.emit("ScatterElements", bins, places, one, axis=0, reduction="add")
    return call.emit("Slice", found, call.axes([0]), call.integers((size,)), call.axes([0]))


@exports("argwhere_within")
def _argwhere_within(call: Call, x: Value, *, size: int, fill_value: int) -> Value:
    """Fill the rows of NonZero up behind, and cut them."""
    if x.ndim == 0:
        return call.emit("Identity", call.array(np.zeros((size, 0)), call.out[0].dtype))
    places = call.emit("NonZero", call.cast(x, bool_), dtype=int64)
    rows = call.emit("Transpose", places, perm=[1, 0])
    filling = call.array(np.full((size, x.ndim), fill_value), int64)
    whole = call.emit("Concat", rows, filling, axis=0)
    found = call.emit("Slice", whole, call.axes([0]), call.axes([size]), call.axes([0]))
    return call.cast(found, call.out[0].dtype)


@exports("overlap_add")
def _overlap_add(call: Call, x: Value, *, axis: int, length: int, step: int) -> Value:
    """Add windows at their places along the last axis, which is then moved to where it was."""
    count, size = call.static("windows", (x.shape[axis], x.shape[-1]))
    others = [a for a in range(x.ndim - 1) if a != axis]
    windows = call.transpose(x, (*others, axis, x.ndim - 1))
    sizes: Sequence[Size] = [x.shape[a] for a in others]
    flat = call.emit("Reshape", windows, call.integers((*sizes, count * size)), allowzero=1)
    places = (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1)
    index = call.emit("Expand", call.array(places, int64), call.integers((*sizes, count * size)))
    wide = call.cast(flat, x.dtype.compute)
    base = call.emit("Expand", call.number(0, wide.dtype), call.integers((*sizes, length)))
    added = call.emit("ScatterElements", base, index, wide, axis=-1, reduction="add")
    back = list(range(len(others)))
    back.insert(axis, len(others))
    return call.cast(call.transpose(added, back), x.dtype)
