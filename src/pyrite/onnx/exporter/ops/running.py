"""Running folds that ONNX has not: each joins what it has with what lies 1, 2, 4, ... before it.

That is log2(n) rounds of a few nodes over an axis whose size does not vary.
Source: Hillis & Steele 1986, "Data parallel algorithms".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyrite.onnx.exporter.call import TO_END, Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes
from pyrite.types import bool_, int32, uint8

Parts = tuple[Value, ...]
#: From what lies before and after to both joined.
Join = Callable[[Parts, Parts], Parts]


def _is_short(types: Types, attrs: Attributes) -> bool:
    """Whether an axis takes a few rounds."""
    assert types[0] is not None
    return types[0].shape[attrs["axis"]] <= 1 << 12


def _running(call: Call, parts: Parts, axis: int, n: int, join: Join) -> Parts:
    distance = 1
    while distance < n:
        before = tuple(_cut(call, part, axis, 0, n - distance) for part in parts)
        after = tuple(_cut(call, part, axis, distance, TO_END) for part in parts)
        joined = join(before, after)
        first = (_cut(call, part, axis, 0, distance) for part in parts)
        parts = tuple(
            call.emit("Concat", a, b, axis=axis) for a, b in zip(first, joined, strict=True)
        )
        distance *= 2
    return parts


def _cut(call: Call, x: Value, axis: int, begin: int, end: int) -> Value:
    return call.emit("Slice", x, call.axes([begin]), call.axes([end]), call.axes([axis]))


def _size(call: Call, x: Value, axis: int) -> int:
    (n,) = call.static("a size of the axis", (x.shape[axis],))
    return n


def _position(name: str, op_type: str) -> None:
    @exports(name, when=_is_short)
    def write(call: Call, x: Value, *, axis: int) -> Value:
        n = _size(call, x, axis)
        is_float = x.dtype.is_float
        key = call.cast(x, x.dtype.compute if is_float else uint8 if x.dtype is bool_ else x.dtype)
        places = np.arange(n).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        place = call.emit("Expand", call.array(places, int32), call.integers(x.shape))

        def join(before: Parts, after: Parts) -> Parts:
            wins = call.emit(op_type, after[0], before[0], dtype=bool_)
            if is_float:
                # NaN beats all, and the first one is not beaten.
                old, new = (call.emit("IsNaN", p[0], dtype=bool_) for p in (before, after))
                wins = call.emit("And", call.emit("Or", wins, new), call.emit("Not", old))
            pairs = zip(after, before, strict=True)
            return tuple(call.emit("Where", wins, b, a, dtype=b.dtype) for b, a in pairs)

        return _running(call, (key, place), axis, n, join)[1]


_position("cumulative_argmax", "Greater")
_position("cumulative_argmin", "Less")


@exports("cumulative_logsumexp", when=_is_short)
def _cumulative_logsumexp(call: Call, x: Value, *, axis: int) -> Value:
    def join(before: Parts, after: Parts) -> Parts:
        greatest = call.emit("Max", before[0], after[0])
        powers = (call.emit("Exp", call.emit("Sub", p[0], greatest)) for p in (before, after))
        total = call.emit("Add", greatest, call.emit("Log", call.emit("Add", *powers)))
        is_infinite = call.emit("IsInf", greatest, dtype=bool_)
        return (call.emit("Where", is_infinite, greatest, total, dtype=greatest.dtype),)

    wide = call.cast(x, x.dtype.compute)
    (found,) = _running(call, (wide,), axis, _size(call, x, axis), join)
    return call.cast(found, x.dtype)


@exports("linear_recurrence", when=_is_short)
def _linear_recurrence(call: Call, x: Value, links: Value, *, axis: int, reverse: bool) -> Value:
    """Join steps h -> x + link h, of which the first has no h before it."""
    n = _size(call, x, axis)
    wide = [call.cast(value, x.dtype.compute) for value in (x, links)]
    if reverse:
        wide = [_turned(call, value, axis) for value in wide]
    if n == 0:
        return call.emit("Identity", x)
    pads = [0] * (2 * x.ndim)
    pads[axis] = 1
    factor = call.emit("Pad", wide[1], call.axes(pads), call.number(0, wide[1].dtype))

    def join(before: Parts, after: Parts) -> Parts:
        terms, link = after
        carried = call.emit("Mul", link, before[0])
        return call.emit("Add", terms, carried), call.emit("Mul", link, before[1])

    found = _running(call, (wide[0], factor), axis, n, join)[0]
    return call.cast(_turned(call, found, axis) if reverse else found, x.dtype)


def _turned(call: Call, x: Value, axis: int) -> Value:
    """Return a value with the other end of an axis first."""
    spelled = ([-1], [-TO_END], [axis], [-1])
    return call.emit("Slice", x, *map(call.axes, spelled))
