"""Pools to a given size, whose windows cover the input and may differ in size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes
from pyrite.tensor.window import adaptive_windows
from pyrite.types import Array, int32, int64


def _takes_all(types: Types, attrs: Attributes) -> bool:
    """Whether there is one window, of the whole input."""
    return all(size == 1 for size in attrs["output_size"])


def _divides(types: Types, attrs: Attributes) -> bool:
    """Whether all windows are of one size, side by side."""
    assert types[0] is not None
    pairs = zip(types[0].shape[2:], attrs["output_size"], strict=True)
    return all(n % count == 0 for n, count in pairs)


@exports("adaptive_avg_pool", when=_takes_all)
def _global_average(call: Call, x: Value, *, output_size: Sequence[int]) -> Value:
    return call.emit("GlobalAveragePool", x)


@exports("adaptive_avg_pool", when=_divides)
def _equal_averages(call: Call, x: Value, *, output_size: Sequence[int]) -> Value:
    sizes = call.static("an axis that is pooled", x.shape[2:])
    kernel = [n // count for n, count in zip(sizes, output_size, strict=True)]
    return call.emit("AveragePool", x, kernel_shape=kernel, strides=kernel)


@exports("adaptive_max_pool_with_indices", when=_takes_all)
def _global_maximum(call: Call, x: Value, *, output_size: Sequence[int]) -> tuple[Value, Value]:
    flat = call.emit("Reshape", x, call.axes((0, 0, -1)))
    place = call.emit("ArgMax", flat, dtype=int64, axis=2, keepdims=1)
    ones = (*x.shape[:2], *(1,) * (x.ndim - 2))
    at = call.reshape(Value(place.name, int64, (*x.shape[:2], 1)), ones)
    return call.emit("GlobalMaxPool", x), call.cast(at, int32)


@exports("adaptive_max_pool_with_indices")
def _maximum(call: Call, x: Value, *, output_size: Sequence[int]) -> tuple[Value, Value]:
    """Gather the windows, shorter ones with their last element again, and take their maxima."""
    sizes = call.static("an axis that is pooled", x.shape[2:])
    tables = [_table(n, count) for n, count in zip(sizes, output_size, strict=True)]
    windows = x
    for number, table in enumerate(tables):
        windows = call.emit("Gather", windows, call.array(table, int64), axis=2 + 2 * number)
    rank = len(sizes)
    order = [0, 1, *(2 + 2 * a for a in range(rank)), *(3 + 2 * a for a in range(rank))]
    moved = call.emit("Transpose", windows, perm=order)
    taps = prod(table.shape[1] for table in tables)
    rows = call.emit("Reshape", moved, call.axes((0, 0, *output_size, taps)))
    best = call.emit("ArgMax", rows, dtype=int64, axis=-1, keepdims=1)
    places = call.array(_places(tables, sizes), int64)
    everywhere = call.emit("Expand", places, call.integers((*x.shape[:2], *output_size, taps)))
    last = call.axes((-1,))

    def chosen(values: Value) -> Value:
        found = call.emit("GatherElements", values, best, axis=-1)
        return call.emit("Squeeze", found, last)

    return chosen(rows), call.cast(chosen(everywhere), int32)


def _table(size: int, count: int) -> Array:
    """Return the places that each window reads: (windows, taps)."""
    starts, ends = adaptive_windows(size, count)
    steps = np.arange((ends - starts).max())
    found: Array = np.minimum(starts[:, None] + steps, ends[:, None] - 1)
    return found


def _places(tables: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return for each window the places that it reads in all of the spatial axes, counted flat."""
    rank = len(tables)
    flat: Array = np.zeros((1,) * (2 * rank), np.int64)
    for axis, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = table.shape
        flat = flat * size + table.reshape(shape)
    return flat.reshape(*(t.shape[0] for t in tables), -1)
