"""Reductions and running folds over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.ops.movement import sliced
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes
from pyrite.types import DType, bool_, int32, int64, uint8


def _reduced(call: Call, op_type: str, x: Value, axis: Sequence[int], keepdims: bool) -> Value:
    """Return a reduction in the dtype of x; over no axes that is x."""
    if not axis:
        return call.emit("Identity", x)
    # Without axes given, ONNX reduces all.
    return call.emit(op_type, x, call.axes(axis), keepdims=int(keepdims))


def _wide(call: Call, x: Value) -> Value:
    """Return what is folded: narrow floats in float32, as the op's own rule folds them."""
    return call.cast(x, x.dtype.compute)


@exports("sum")
def _sum(call: Call, x: Value, *, axis: Sequence[int], dtype: DType, keepdims: bool) -> Value:
    found = _reduced(call, "ReduceSum", call.cast(x, dtype.compute), axis, keepdims)
    return call.cast(found, dtype)


@exports("prod")
def _prod(call: Call, x: Value, *, axis: Sequence[int], dtype: DType, keepdims: bool) -> Value:
    found = _reduced(call, "ReduceProd", call.cast(x, dtype.compute), axis, keepdims)
    return call.cast(found, dtype)


@exports("mean")
def _mean(call: Call, x: Value, *, axis: Sequence[int], keepdims: bool) -> Value:
    return call.cast(_reduced(call, "ReduceMean", _wide(call, x), axis, keepdims), x.dtype)


def _extremum(name: str, op_type: str) -> None:
    @exports(name)
    def write(call: Call, x: Value, *, axis: Sequence[int], keepdims: bool) -> Value:
        return _reduced(call, op_type, x, axis, keepdims)


_extremum("max", "ReduceMax")
_extremum("min", "ReduceMin")


@exports("max_of_numbers")
def _max_of_numbers(call: Call, x: Value, *, axis: Sequence[int], keepdims: bool) -> Value:
    nothing = call.number(-math.inf, x.dtype)
    numbers = call.emit("Where", call.emit("IsNaN", x, dtype=bool_), nothing, x, dtype=x.dtype)
    return _reduced(call, "ReduceMax", numbers, axis, keepdims)


def _truth(name: str, op_type: str) -> None:
    @exports(name)
    def write(call: Call, x: Value, *, axis: Sequence[int], keepdims: bool) -> Value:
        is_true = call.cast(x, bool_)
        whole = call.cast(is_true, uint8)
        if not axis:
            return call.emit("Identity", is_true)
        return call.cast(_reduced(call, op_type, whole, axis, keepdims), bool_)


_truth("any", "ReduceMax")
_truth("all", "ReduceMin")


def _ordered(call: Call, x: Value) -> Value:
    """Return bools as numbers: ONNX finds no extrema of bools."""
    return Value(call.cast(x, uint8).name, uint8, x.shape) if x.dtype is bool_ else x


def _position(name: str, op_type: str) -> None:
    @exports(name)
    def write(call: Call, x: Value, *, axis: int | None, keepdims: bool) -> Value:
        x = _ordered(call, x)
        if axis is None:
            flat = call.reshape(x, (-1,)) if x.ndim != 1 else x
            found = call.emit(op_type, flat, dtype=int64, axis=0, keepdims=0)
            shape = (1,) * x.ndim if keepdims else ()
            return call.cast(call.emit("Reshape", found, call.axes(shape)), int32)
        found = call.emit(op_type, x, dtype=int64, axis=axis, keepdims=int(keepdims))
        return call.cast(found, int32)


_position("argmax", "ArgMax")
_position("argmin", "ArgMin")


@exports("logsumexp")
def _logsumexp(call: Call, x: Value, *, axis: Sequence[int], keepdims: bool) -> Value:
    found = _reduced(call, "ReduceLogSumExp", _wide(call, x), axis, keepdims)
    return call.cast(found, x.dtype)


@exports("cumulative_sum")
def _cumulative_sum(
    call: Call, x: Value, *, axis: int, dtype: DType, include_initial: bool, reverse: bool
) -> Value:
    terms = call.cast(x, dtype.compute)
    found = call.emit("CumSum", terms, call.number(axis, int32), reverse=int(reverse))
    if include_initial:
        pads = [0] * (2 * x.ndim)
        pads[axis + (x.ndim if reverse else 0)] = 1
        found = call.emit("Pad", found, call.axes(pads), call.number(0, terms.dtype))
    return call.cast(found, dtype)


def _is_short(types: Types, attrs: Attributes) -> bool:
    """Whether an axis is short enough to be folded by doubling distances, in a few nodes."""
    assert types[0] is not None
    return types[0].shape[attrs["axis"]] <= 1 << 12


@exports("cumulative_prod", when=_is_short)
def _cumulative_prod(
    call: Call, x: Value, *, axis: int, dtype: DType, include_initial: bool, reverse: bool
) -> Value:
    """Multiply each by what lies 1, 2, 4, ... before it: Hillis & Steele 1986."""
    found = call.cast(x, dtype.compute)
    (n,) = call.static("a size of the axis", (x.shape[axis],))
    distance = 1
    while distance < n:
        found = call.emit("Mul", found, _moved(call, found, x, axis, distance, reverse))
        distance *= 2
    if include_initial:
        pads = [0] * (2 * x.ndim)
        pads[axis + (x.ndim if reverse else 0)] = 1
        found = call.emit("Pad", found, call.axes(pads), call.number(1, found.dtype))
    return call.cast(found, dtype)


def _moved(call: Call, found: Value, x: Value, axis: int, distance: int, reverse: bool) -> Value:
    """Return values moved along an axis by a distance, ones where they came from."""
    n = x.shape[axis]
    start = [0] * x.ndim
    start[axis] = distance if reverse else 0
    size = [*x.shape]
    size[axis] = n - distance
    kept = sliced(call, Value(found.name, found.dtype, x.shape), start, size, [1] * x.ndim)
    pads = [0] * (2 * x.ndim)
    pads[axis + (x.ndim if reverse else 0)] = distance
    return call.emit("Pad", kept, call.axes(pads), call.number(1, found.dtype))
