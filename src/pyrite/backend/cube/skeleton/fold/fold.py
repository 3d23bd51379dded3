"""What reductions and scans compute: states that take in elements and are joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from pyrite.backend.cube.operand import truth
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.kernel.polyfill.floats import FORMATS
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Number, int32, int64, uint32, uint64

State = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What a reduction computes: a state that starts empty, takes in elements, and ends.

    ``start`` has a (number, dtype) for each value of the state; ``take`` makes a state of an
    element and its position, ``join`` one of two, and ``end`` the result.
    """

    name: str
    start: tuple[tuple[Number, DType], ...]
    take: Callable[[RecordingAlgebra, Value, Value], State]
    join: Callable[[RecordingAlgebra, State, State], State]
    end: Callable[[RecordingAlgebra, State], Value]
    #: Tells it from folds of the same name and start that end otherwise.
    variant: Hashable = ""

    def empty(self, b: KernelBuilder, width: int) -> State:
        """Return the state of no elements."""
        return tuple(b.const(number, vector(dtype, width)) for number, dtype in self.start)


def accumulation(name: str, start: Number, dtype: DType, join: Callable[..., Value]) -> Fold:
    """Return the fold of join(k, x, y) in a dtype, which starts from a number."""
    return Fold(
        name, ((start, dtype),),
        lambda k, x, _: (k.builder.cast(x, dtype),),
        lambda k, s, t: (join(k, s[0], t[0]),),
        lambda _, s: s[0],
    )  # fmt: skip


def sum_of(dtype: DType) -> Fold:
    """Return the sum in a dtype."""
    return accumulation("sum", 0, dtype, lambda _, x, y: x + y)


def product_of(dtype: DType) -> Fold:
    """Return the product in a dtype: 0 of finite floats with a zero, whatever overflows around it.

    Joined in any order, 0 may meet an infinity that no element is.  So the state knows of a zero
    (1) and of an element that is not finite (2).
    """
    if not dtype.is_float:
        return accumulation("prod", 1, dtype, lambda _, x, y: x * y)

    def take(k: RecordingAlgebra, x: Value, _: Value) -> State:
        x = k.builder.cast(x, dtype)
        is_wild = k.isnan(x) | k.isinf(x)
        return x, k.builder.select(is_wild, 2, k.builder.cast(x == 0.0, uint32))

    def end(k: RecordingAlgebra, s: State) -> Value:
        return k.builder.select(k.isnan(s[0]) & (s[1] == 1), 0.0, s[0])

    def join(_: RecordingAlgebra, s: State, t: State) -> State:
        return s[0] * t[0], s[1] | t[1]

    return Fold("prod", ((1, dtype), (0, uint32)), take, join, end)


def extremum_of(name: str, dtype: DType) -> Fold:
    """Return the "max" or "min": NaN wins, 0.0 is above -0.0, as `maximum`, `minimum` say."""
    state = uint32 if dtype.is_bool else dtype
    start = state.lowest if name == "max" else state.highest
    if name == "max":
        fold = accumulation(name, start, state, lambda k, x, y: k.maximum(x, y))
    else:
        fold = accumulation(name, start, state, lambda k, x, y: k.minimum(x, y))
    return replace(fold, end=lambda k, s: truth(k.builder, s[0])) if dtype.is_bool else fold


def extremum_of_bits(name: str, dtype: DType) -> Fold:
    """Return `extremum_of` floats by their bits alone, in a third of the instructions.

    As signed numbers the bits of positive floats rise with them, above those of all negative ones;
    as unsigned numbers those of negative floats rise as they fall, above those of all positive
    ones.  Zeros have their places in that, and a NaN of either sign lies beyond its infinity.
    """
    format, is_max = FORMATS[dtype], name == "max"
    signed, unsigned = format.bits, _UNSIGNED[format.bits]
    sign = 1 << (signed.bits - 1)

    def take(k: RecordingAlgebra, x: Value, _: Value) -> State:
        x = k.builder.cast(x, dtype)
        bits = k.builder.bitcast(x, unsigned)
        return k.builder.bitcast(x, signed), bits, bits

    def join(k: RecordingAlgebra, s: State, t: State) -> State:
        b = k.builder
        return b.max(s[0], t[0]), b.min(s[1], t[1]), b.max(s[2], t[2])

    def end(k: RecordingAlgebra, s: State) -> Value:
        b = k.builder
        greatest, (least, most) = s[0], (b.bitcast(x, signed) for x in s[1:])
        # Without a positive one the least is the maximum, without a negative one the minimum.
        extreme, exists = (greatest, greatest >= 0) if is_max else (most, most < 0)
        is_nan = (s[0] > format.infinity) | (s[2] > format.infinity + sign)
        return b.select(is_nan, math.nan, b.bitcast(b.select(exists, extreme, least), dtype))

    infinity = format.infinity + (sign if is_max else 0)
    start = ((signed.lowest, signed), (infinity, unsigned), (0, unsigned))
    return Fold(name, start, take, join, end, variant="bits")


_UNSIGNED = {int32: uint32, int64: uint64}


def truth_of(name: str) -> Fold:
    """Return whether "any", or "all", elements are true."""
    is_any = name == "any"
    return Fold(
        name, ((0 if is_any else 1, uint32),),
        lambda k, x, _: (k.builder.cast(truth(k.builder, x), uint32),),
        lambda _, s, t: (s[0] | t[0] if is_any else s[0] & t[0],),
        lambda k, s: truth(k.builder, s[0]),
    )  # fmt: skip


def position_of(name: str, dtype: DType) -> Fold:
    """Return the position of the extreme: zeros are equal, NaN is it, the first of equals wins."""
    state = uint32 if dtype.is_bool else dtype
    is_max = name == "argmax"

    def join(k: RecordingAlgebra, s: State, t: State) -> State:
        (x, i), (y, j) = s, t
        wins = (y > x if is_max else y < x) | ((x == y) & (j < i))
        if state.is_float:
            x_nan, y_nan = k.isnan(x), k.isnan(y)
            wins = (wins & ~x_nan) | (y_nan & (~x_nan | (j < i)))
        return k.builder.select(wins, y, x), k.builder.select(wins, j, i)

    return Fold(
        name, ((state.lowest if is_max else state.highest, state), (int32.highest, int32)),
        lambda k, x, i: (k.builder.cast(x, state), k.builder.cast(i, int32)),
        join,
        lambda _, s: s[1],
    )  # fmt: skip
