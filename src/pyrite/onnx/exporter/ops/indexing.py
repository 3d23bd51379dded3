"""Reads and writes by index tensors, and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import exports
from pyrite.onnx.exporter.size import Size
from pyrite.types import bool_, int32, int64, uint8


def _index(call: Call, indices: Value) -> Value:
    """Return indices in one of the two dtypes that ONNX has for them."""
    return indices if indices.dtype in (int32, int64) else call.cast(indices, int64)


@exports("embedding")
def _embedding(call: Call, weight: Value, indices: Value) -> Value:
    return call.emit("Gather", weight, _index(call, indices), axis=0)


@exports("take")
def _take(call: Call, x: Value, indices: Value, *, axis: int) -> Value:
    return call.emit("Gather", x, _index(call, indices), axis=axis)


@exports("take_along_axis")
def _take_along_axis(call: Call, x: Value, indices: Value, *, axis: int) -> Value:
    shape = call.out[0].shape
    source = [*shape]
    source[axis] = x.shape[axis]
    stretched = call.emit("Expand", x, call.stretch(x.shape, source))
    places = call.emit("Expand", _index(call, indices), call.stretch(indices.shape, shape))
    return call.emit("GatherElements", stretched, places, axis=axis)


@exports("gather_nd")
def _gather_nd(call: Call, x: Value, indices: Value) -> Value:
    return call.emit("GatherND", x, call.cast(indices, int64))


#: What ONNX calls the ways to join what is written to one place.
_REDUCTIONS = {"assign": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@exports("scatter", "scatter_reduce")
def _scatter(
    call: Call, base: Value, indices: Value, updates: Value, *,
    shape: Sequence[Size], axis: int, reduction: str, **_: Any,
) -> Value:  # fmt: skip
    target = call.emit("Expand", base, call.stretch(base.shape, shape))
    sizes = [*shape]
    sizes[axis] = indices.shape[axis]
    places = call.emit("Expand", _index(call, indices), call.stretch(indices.shape, sizes))
    values = call.emit("Expand", updates, call.stretch(updates.shape, sizes))
    return call.emit(
        "ScatterElements", target, places, values, axis=axis, reduction=_REDUCTIONS[reduction]
    )


@exports("scatter_nd", "scatter_nd_reduce")
def _scatter_nd(
    call: Call, base: Value, indices: Value, updates: Value, *,
    shape: Sequence[Size], reduction: str,
) -> Value:  # fmt: skip
    target = call.emit("Expand", base, call.stretch(base.shape, shape))
    (depth,) = call.static("a number of axes", indices.shape[-1:])
    values = call.emit(
        "Expand", updates, call.stretch(updates.shape, (*indices.shape[:-1], *shape[depth:]))
    )
    places = call.cast(indices, int64)
    return call.emit("ScatterND", target, places, values, reduction=_REDUCTIONS[reduction])


@exports("is_last_scattered")
def _is_last_scattered(call: Call, indices: Value, *, shape: Sequence[Size], axis: int) -> Value:
    """Write the number of each index to its place, where the greatest stays, and read them back."""
    sizes = [*shape]
    sizes[axis] = indices.shape[axis]
    places = call.emit("Expand", _index(call, indices), call.stretch(indices.shape, sizes))
    number = _numbered(call, sizes)
    none = call.emit("Expand", call.number(-1, int64), call.integers(shape))
    last = call.emit("ScatterElements", none, places, number, axis=axis, reduction="max")
    return call.emit("Equal", call.emit("GatherElements", last, places, axis=axis), number,
                     dtype=bool_)  # fmt: skip


@exports("is_last_scattered_nd")
def _is_last_scattered_nd(call: Call, indices: Value, *, shape: Sequence[Size]) -> Value:
    """Write the number of each vector of indices to its place, and read the greatest back."""
    (depth,) = call.static("a number of axes", indices.shape[-1:])
    places, number = call.cast(indices, int64), _numbered(call, indices.shape[:-1])
    none = call.emit("Expand", call.number(-1, int64), call.integers(shape[:depth]))
    last = call.emit("ScatterND", none, places, number, reduction="max")
    return call.emit("Equal", call.emit("GatherND", last, places), number, dtype=bool_)


def _numbered(call: Call, shape: Sequence[Size]) -> Value:
    """Return int64 numbers 0, 1, ... of places of a shape, in row-major order."""
    zero, one = (call.number(n, int64) for n in (0, 1))
    count = call.emit("ReduceProd", call.integers(shape), keepdims=0)
    return call.emit("Reshape", call.emit("Range", zero, count, one), call.integers(shape),
                     allowzero=1)  # fmt: skip


@exports("class_mask")
def _class_mask(call: Call, indices: Value, *, classes: Size, axis: int) -> Value:
    """Compare indices with each class, along an axis of their own."""
    shape = [1] * len(call.out[0].shape)
    shape[axis] = -1
    if isinstance(classes, int):
        every = call.array(np.arange(classes).reshape(shape), int64)
    else:
        zero, one = (call.number(n, int64) for n in (0, 1))
        counted = call.emit("Range", zero, call.scalar(classes, int64), one)
        every = call.emit("Reshape", counted, call.axes(shape))
    there = call.emit("Unsqueeze", call.cast(indices, int64), call.axes([axis]))
    return call.emit("Equal", there, every, dtype=bool_)


# ---- order ----


@exports("argsort")
def _argsort(call: Call, x: Value, *, axis: int, descending: bool, **_: Any) -> Value:
    """Sort by TopK of all, whose equal elements stay in order."""
    places = _largest(call, x, x.shape[axis], axis, descending)[1]
    return call.cast(places, int32)


@exports("topk")
def _topk(
    call: Call, x: Value, *, k: int, axis: int, largest: bool, **_: Any
) -> tuple[Value, Value]:
    values, places = _largest(call, x, k, axis, largest)
    return call.cast(values, x.dtype), call.cast(places, int32)


def _largest(call: Call, x: Value, k: Size, axis: int, largest: bool) -> tuple[Value, ...]:
    key = call.cast(x, uint8) if x.dtype is bool_ else x
    return call.emit_many(
        "TopK", (key, call.integers([k])), (key.dtype, int64),
        axis=axis, largest=int(largest), sorted=1,
    )  # fmt: skip
