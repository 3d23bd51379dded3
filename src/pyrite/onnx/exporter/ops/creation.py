"""Tensors from nothing: one value everywhere, and ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import exports
from pyrite.onnx.exporter.size import Size, is_static
from pyrite.types import DType, element_count, int64


@exports("full")
def _full(call: Call, value: Value, *, shape: Sequence[Size], dtype: DType) -> Value:
    if value.number is not None and is_static(shape):
        sizes = call.static("a shape", shape)
        if element_count(sizes) <= 1:
            return call.emit("Identity", call.array(np.full(sizes, value.number), dtype))
    return call.emit("Expand", call.cast(value, dtype), call.integers(shape))


@exports("arange")
def _arange(call: Call, start: Value, step: Value, *, size: Size, dtype: DType) -> Value:
    zero, one = (call.number(n, int64) for n in (0, 1))
    index = call.emit("Range", zero, call.scalar(size, int64), one)
    wide = dtype.compute
    steps = call.cast(index, wide)
    if step.number != 1:
        steps = call.emit("Mul", steps, call.cast(step, wide))
    if start.number != 0:
        steps = call.emit("Add", call.cast(start, wide), steps)
    return call.cast(steps, dtype)
