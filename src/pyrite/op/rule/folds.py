"""The folds of ops: sums, products, extrema and their positions, truth, moments, norms.

What differs between machines is fixed in each: NaN, zeros of both signs, zeros among what
overflows.  Those of sums and products have the attribute ``dtype``, in which they are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from pyrite.op.rule.fold import Fold, Start, State
from pyrite.types import DType, Number, float32, float64, int32, int64, uint32, uint64

Extreme = Literal["max", "min"]


def held(dtype: DType) -> DType:
    """Return the dtype of a state that holds elements: memory of devices has no bools."""
    return uint32 if dtype.is_bool else dtype


# ---- sums ----

SUM = Fold(
    start=lambda _, *, dtype: ((0, dtype.compute),),
    join=lambda _, s, t: (s[0] + t[0],),
)

MEAN = Fold(
    start=lambda dtype: ((0, dtype),),
    join=lambda _, s, t: (s[0] + t[0],),
    end=lambda _, s, *, count: s[0] / count,
)


# ---- products ----


def _product_start(_: DType, *, dtype: DType) -> Start:
    one = (1, dtype.compute)
    return (one, (0, uint32)) if dtype.is_float else (one,)


def _product_take(k: Any, x: Any, *, dtype: DType) -> State:
    if not dtype.is_float:
        return (x,)
    x = k.cast(x, dtype.compute)
    is_wild = k.isnan(x) | k.isinf(x)
    return x, k.where(is_wild, 2, k.cast(x == 0.0, uint32))


def _product_join(_: Any, s: State, t: State) -> State:
    return (s[0] * t[0],) if len(s) == 1 else (s[0] * t[0], s[1] | t[1])


def _product_end(k: Any, s: State) -> Any:
    return s[0] if len(s) == 1 else k.where(k.isnan(s[0]) & (s[1] == 1), 0.0, s[0])


#: 0 of finite floats with a zero, whatever overflows around it.  Joined in any order, 0 may meet an
#: infinity that no element is; so the state of floats knows of a zero (1) and of an element that is
#: not finite (2).
PRODUCT = Fold(_product_start, _product_join, _product_take, _product_end)


# ---- extrema ----


def _extremum(name: Extreme) -> Fold:
    """Return the fold of `maximum` or `minimum`: NaN wins, and 0.0 is above -0.0."""

    def start(dtype: DType) -> Start:
        state = held(dtype)
        return ((state.lowest if name == "max" else state.highest, state),)

    def join(k: Any, s: State, t: State) -> State:
        return ((k.maximum if name == "max" else k.minimum)(s[0], t[0]),)

    by_bits = {float32: _extremum_of_bits(name, int32), float64: _extremum_of_bits(name, int64)}
    by_rank = {float32: _extremum_of_rank(name, int32), float64: _extremum_of_rank(name, int64)}
    return Fold(start, join, larger=by_bits.get, simpler=by_rank.get)


_UNSIGNED = {int32: uint32, int64: uint64}
_FLOATS = {int32: float32, int64: float64}


def _extremum_of_bits(name: Extreme, signed: DType) -> Fold:
    """Return the extremum of floats by their bits alone, in a third of the instructions.

    As signed numbers the bits of positive floats rise with them, above those of all negative ones;
    as unsigned numbers those of negative floats rise as they fall, above those of all positive
    ones.  Zeros have their places in that, and a NaN of either sign lies beyond its infinity.
    """
    unsigned, dtype = _UNSIGNED[signed], _FLOATS[signed]
    infinity, sign = _bits_of(math.inf, dtype), 1 << (signed.bits - 1)
    least = infinity + (sign if name == "max" else 0)

    def take(k: Any, x: Any) -> State:
        bits = k.bitcast(x, unsigned)
        return k.bitcast(x, signed), bits, bits

    def join(k: Any, s: State, t: State) -> State:
        return k.maximum(s[0], t[0]), k.minimum(s[1], t[1]), k.maximum(s[2], t[2])

    def end(k: Any, s: State) -> Any:
        greatest, (least, most) = s[0], (k.bitcast(x, signed) for x in s[1:])
        # Without a positive one the least is the maximum, without a negative one the minimum.
        extreme, exists = (greatest, greatest >= 0) if name == "max" else (most, most < 0)
        is_nan = (s[0] > infinity) | (s[2] > infinity + sign)
        return k.where(is_nan, math.nan, k.bitcast(k.where(exists, extreme, least), dtype))

    start: Start = ((signed.lowest, signed), (least, unsigned), (0, unsigned))
    return Fold(lambda _: start, join, take, end)


def _extremum_of_rank(name: Extreme, signed: DType) -> Fold:
    """Return the extremum of floats by integers that rise with them, which one instruction joins.

    Those of negative floats are their bits with all but the sign turned; a NaN, of either sign, is
    beyond the infinity that would win: a quiet one, for a signalling one is an invalid operand of
    whatever meets it next, NumPy's casts among them.
    """
    dtype = _FLOATS[signed]
    infinity, nan = _bits_of(math.inf, dtype), _bits_of(math.nan, dtype)
    rest = int(signed.highest)
    wins = nan if name == "max" else -nan - 1

    def turned(k: Any, bits: Any) -> Any:
        return k.where(bits < 0, bits ^ rest, bits)

    def take(k: Any, x: Any) -> State:
        return (k.where(k.isnan(x), wins, turned(k, k.bitcast(x, signed))),)

    def join(k: Any, s: State, t: State) -> State:
        return ((k.maximum if name == "max" else k.minimum)(s[0], t[0]),)

    def end(k: Any, s: State) -> Any:
        return k.bitcast(turned(k, s[0]), dtype)

    least = -infinity - 1 if name == "max" else infinity
    return Fold(lambda _: ((least, signed),), join, take, end)


def _bits_of(x: float, dtype: DType) -> int:
    return int(np.array(x, dtype.numpy).view(f"u{dtype.itemsize}"))


MAX = _extremum("max")
MIN = _extremum("min")


# ---- positions of extrema ----


def _position(name: Extreme) -> Fold:
    """Return where the extreme is: zeros are equal, NaN is it, the first of equals wins."""

    def start(dtype: DType) -> Start:
        state = held(dtype)
        return (least(state), state), (int32.highest, int32)

    def least(dtype: DType) -> Number:
        return dtype.lowest if name == "max" else dtype.highest

    def join(k: Any, s: State, t: State) -> State:
        (x, i), (y, j) = s, t
        is_first = j < i
        wins = (y > x if name == "max" else y < x) | ((x == y) & is_first)
        x_nan, y_nan = k.isnan(x), k.isnan(y)
        wins = (wins & ~x_nan) | (y_nan & (~x_nan | is_first))
        return k.where(wins, y, x), k.where(wins, j, i)

    return Fold(start, join, lambda _, x, *, position: (x, position), lambda _, s: s[1])


ARGMAX = _position("max")
ARGMIN = _position("min")


def _with_value(position: Fold) -> Fold:
    """Return the fold of an extreme and its position."""
    return Fold(position.start, position.join, position.take, lambda _, s: (s[0], s[1]))


MAX_AND_POSITION = _with_value(ARGMAX)
MIN_AND_POSITION = _with_value(ARGMIN)


# ---- truth ----

ANY = Fold(
    start=lambda _: ((0, uint32),),
    take=lambda _, x: (x != 0,),
    join=lambda _, s, t: (s[0] | t[0],),
)

ALL = Fold(
    start=lambda _: ((1, uint32),),
    take=lambda _, x: (x != 0,),
    join=lambda _, s, t: (s[0] & t[0],),
)

COUNT_NONZERO = Fold(
    start=lambda _: ((0, int32),),
    take=lambda _, x: (x != 0,),
    join=lambda _, s, t: (s[0] + t[0],),
)

HAS_NAN = Fold(
    start=lambda _: ((0, uint32),),
    take=lambda k, x: (k.isnan(x),),
    join=lambda _, s, t: (s[0] | t[0],),
)


# ---- moments ----


def _join_moments(k: Any, s: State, t: State) -> State:
    """Return count, mean and sum of squared differences from the mean, of two states.

    Source: Chan, Golub & LeVeque 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances".  The factors are in this order because the square of a difference may
    overflow where its share is 0.
    """
    (n, mean, squares), (m, other, more) = s, t
    count = n + m
    difference = other - mean
    share = m / k.maximum(count, 1.0)
    rest = difference * (n * share) * difference
    return count, mean + difference * share, squares + more + rest


def _variance(k: Any, s: State, count: int, correction: float) -> Any:
    """Return the variance of a state; NaN where an element is not finite."""
    found = s[2] / max(count - correction, 0.0)
    return k.where(k.isnan(s[1]) | k.isinf(s[1]), math.nan, found)


def _moments(end: Callable[..., Any]) -> Fold:
    def start(dtype: DType) -> Start:
        return (0, dtype), (0, dtype), (0, dtype)

    return Fold(start, _join_moments, lambda _, x: (1, x, 0), end)


VARIANCE = _moments(lambda k, s, *, count, correction: _variance(k, s, count, correction))
DEVIATION = _moments(lambda k, s, *, count, correction: k.sqrt(_variance(k, s, count, correction)))
#: The mean is that of a sum: of elements among which is one infinity it is that.
VARIANCE_AND_MEAN = Fold(
    start=lambda dtype: ((0, dtype),) * 4,
    join=lambda k, s, t: (*_join_moments(k, s[:3], t[:3]), s[3] + t[3]),
    take=lambda _, x: (1, x, 0, x),
    end=lambda k, s, *, count, correction: (
        _variance(k, s, count, correction),
        s[3] / count,
    ),
)


# ---- logarithms of sums, norms ----


def _join_logarithms(k: Any, s: State, t: State) -> State:
    """Return the greatest x, and the sum of e ** (y - x) of all others, of two states."""
    (x, total), (y, more) = s, t
    greatest = k.maximum(x, y)
    # Equal values apart, because the difference of two equal infinities is NaN.
    factor = k.where(x == y, 1.0, k.exp(-k.abs(x - y)))
    return greatest, k.where(x < y, total * factor + more, total + more * factor)


LOG_OF_SUM = Fold(
    start=lambda dtype: ((dtype.lowest, dtype), (0, dtype)),
    take=lambda _, x: (x, 1),
    join=_join_logarithms,
    end=lambda k, s: s[0] + k.log(s[1]),
)


def _greatest_of_bits(signed: DType) -> Fold:
    """Return the greatest |x| of floats by their bits, which rise with them; NaN is beyond all."""
    dtype = _FLOATS[signed]
    return Fold(
        start=lambda _: ((0, signed),),
        take=lambda k, x: (k.bitcast(k.abs(x), signed),),
        join=MAX.join,
        end=lambda k, s: k.bitcast(s[0], dtype),
    )


#: One instruction on processors, where a maximum that minds NaN takes several: a NaN is above
#: nothing.  Which zero it is, is left open.
MAX_OF_NUMBERS = Fold(
    start=lambda dtype: ((-math.inf, dtype),),
    join=lambda k, s, t: (k.where(t[0] > s[0], t[0], s[0]),),
    take=lambda k, x: (k.where(x > -math.inf, x, -math.inf),),
)

MAX_ABS = Fold(
    MAX.start, MAX.join, lambda k, x: (k.abs(x),),
    larger={float32: _greatest_of_bits(int32), float64: _greatest_of_bits(int64)}.get,
)  # fmt: skip


def _norm_start(dtype: DType, *, ord: float) -> Start:
    return ((dtype.highest if ord == -math.inf else 0, dtype),)


def _norm_take(k: Any, x: Any, *, ord: float) -> State:
    if ord == 0:
        return (x != 0,)
    if ord == 2:
        return (x * x,)
    size = k.abs(x)
    return (size if ord == 1 or math.isinf(ord) else k.pow(size, ord),)


def _norm_join(k: Any, s: State, t: State, *, ord: float) -> State:
    if math.isinf(ord):
        return ((k.maximum if ord > 0 else k.minimum)(s[0], t[0]),)
    return (s[0] + t[0],)


def _norm_end(k: Any, s: State, *, ord: float) -> Any:
    if ord == 2:
        return k.sqrt(s[0])
    return s[0] if ord in (0, 1) or math.isinf(ord) else k.pow(s[0], 1 / ord)


NORM = Fold(_norm_start, _norm_join, _norm_take, _norm_end)
