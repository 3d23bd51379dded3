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


@exports("scatter")
def _scatter(
    call: Call, base: Value, indices: Value, updates: Value, *,
    shape: Sequence[Size], axis: int, reduction: str, asked: str,
) -> Value:  # fmt: skip
    target = call.emit("Expand", base, call.stretch(base.shape, shape))
    sizes = [*shape]
    sizes[axis] = indices.shape[axis]
    places = call.emit("Expand", _index(call, indices), call.stretch(indices.shape, sizes))
    values = call.emit("Expand", updates, call.stretch(updates.shape, sizes))
    return call.emit(
        "ScatterElements", target, places, values, axis=axis, reduction=_REDUCTIONS[reduction]
    )


@exports("scatter_nd")
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
