"""Arithmetic, rounding and powers, elementwise: what integers and floats have in common.

Shapes are (...) -> (...) throughout; with two or three inputs they broadcast as in NumPy.  Python
numbers are weak: they take the tensor's dtype.  A function that is constant between its jumps
(sign, floor, round) passes no gradient.  Domains are where an op is defined and smooth.  What
machines do differently is fixed in `pyrite.algebra`; an operator stands below the op it means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self, TypeVar

from pyrite.errors import ArgumentError, DTypeError
from pyrite.op import Attributes, TensorBase, primitive, public, sample
from pyrite.types import DType, DTypeLike, Number, TensorType
from pyrite.types import dtype as as_dtype

T = TypeVar("T")

POSITIVE = (0.1, 3.0)
AWAY_FROM_ZERO = (0.3, 2.5)


def _cast_dtype(x: TensorType, *, dtype: DTypeLike, copy: bool = True) -> Attributes:
    if dtype is None:
        raise DTypeError("astype requires a dtype, got None; leave the call out to keep the dtype")
    return {"dtype": as_dtype(dtype)}


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(x.shape, dtype)


#: For a half float: half the greatest relative distance of neighbours, the least number, and
#: the greatest.
_HALVES = {
    "float16": (2.0**-11, 2.0**-24, 65504.0),
    "bfloat16": (2.0**-8, 2.0**-133, 0xFF * 2.0**120),
}


def _own_dtype(x: TensorType, y: TensorType, *, dtype: None) -> Attributes:
    return {"dtype": x.dtype}


def _nextafter_rule(k: Any, x: Any, y: Any, *, dtype: DType) -> Any:
    if dtype.compute is dtype:
        return k.nextafter(x, y)
    # Computed in float32 and rounded after: a step of 0.6 to 1.3 units ends at the neighbour.
    relative, least, greatest = _HALVES[dtype.name]
    step = k.maximum(k.abs(x) * (1.25 * relative), 0.75 * least)
    stepped = k.where(x < y, x + step, x - step)
    inward = k.where(x > 0, greatest, k.where(x < 0, -greatest, x))
    found = k.where(k.isinf(x), inward, stepped)
    return k.where((x == y) | k.isnan(y), y, found)


def _float_decimals(x: TensorType, *, decimals: int) -> Attributes:
    if decimals and not x.dtype.is_float:
        raise ArgumentError(
            f"round requires decimals=0 for an integer dtype, got decimals={decimals}; "
            "cast it with astype"
        )
    return {"decimals": decimals}


def _clip_rule(k: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = k.maximum(x, low)
    return x if high is None else k.minimum(x, high)


def _clip_slope(g: Any, _: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        g = (x >= low)._where(g, 0)
    return g if high is None else (x <= high)._where(g, 0)


def _clip_slope_by_low(g: Any, _: Any, x: Any, low: Any, high: Any) -> Any:
    g = (x < low)._where(g, 0)
    return g if high is None else (low <= high)._where(g, 0)


def _clip_slope_by_high(g: Any, _: Any, x: Any, low: Any, high: Any) -> Any:
    above = x > high
    return (above if low is None else above | (high < low))._where(g, 0)


class Arithmetic(TensorBase):
    """Conversion, arithmetic, rounding, extrema and powers."""

    __slots__ = ()

    # ---- conversion ----

    @primitive(
        scalar=lambda k, x, *, dtype: k.cast(x, dtype),
        infer=_cast_type,
        canonical=_cast_dtype,
        vjp=(lambda g, _, x_type: g.astype(x_type.dtype) if x_type.dtype.is_float else None,),
        accepts="any",
        promotes=(),
        samples=(sample((2, 3), dtype="float32"),),
    )
    def astype(self, /, dtype: DTypeLike, *, copy: bool = True) -> Self:
        """The values as another dtype; floats to integers truncate and saturate, NaN becomes 0.

        ``copy`` is the array API's and changes nothing: values never do, so they may be shared.
        """
        ...

    # ---- arithmetic ----

    @primitive(scalar=lambda k, x, y: x + y, vjp=(lambda g, *_: g, lambda g, *_: g))
    def add(self, other: Self | Number, /) -> Self:
        """x + y.  Integers wrap around."""
        ...

    __add__ = add

    @public
    def __radd__(self, other: Number) -> Self:
        return reflected(type(self).add, other, self)

    @primitive(scalar=lambda k, x, y: x - y, vjp=(lambda g, *_: g, lambda g, *_: -g))
    def subtract(self, other: Self | Number, /) -> Self:
        """x - y.  Integers wrap around."""
        ...

    __sub__ = subtract

    @public
    def __rsub__(self, other: Number) -> Self:
        return reflected(type(self).subtract, other, self)

    @primitive(
        scalar=lambda k, x, y: x * y,
        vjp=(lambda g, _, _x, y: g * y, lambda g, _, x: g * x),
    )
    def multiply(self, other: Self | Number, /) -> Self:
        """x * y.  Integers wrap around."""
        ...

    __mul__ = multiply

    @public
    def __rmul__(self, other: Number) -> Self:
        return reflected(type(self).multiply, other, self)

    @primitive(
        scalar=lambda k, x, y: x / y,
        vjp=(lambda g, _, _x, y: g / y, lambda g, out, _, y: -g * out / y),
        accepts="float",
        domain=((-2.0, 2.0), POSITIVE),
    )
    def divide(self, other: Self | Number, /) -> Self:
        """x / y, in floating point: integers become the default float."""
        ...

    __truediv__ = divide

    @public
    def __rtruediv__(self, other: Number) -> Self:
        return reflected(type(self).divide, other, self)

    @primitive(
        scalar=lambda k, x, y: k.floor_divide(x, y),
        vjp=(None, None),
        domain=((0.1, 0.9), (1.0, 2.0)),
    )
    def floor_divide(self, other: Self | Number, /) -> Self:
        """Floor of the exact quotient, so 1.0 // 0.1 is 9.0; 0 for integers divided by 0."""
        ...

    __floordiv__ = floor_divide

    @public
    def __rfloordiv__(self, other: Number) -> Self:
        return reflected(type(self).floor_divide, other, self)

    @primitive(
        scalar=lambda k, x, y: k.remainder(x, y),
        vjp=(lambda g, *_: g, lambda g, _, x, y: -g * (x // y)),
        domain=((0.1, 0.9), (1.0, 2.0)),
    )
    def remainder(self, other: Self | Number, /) -> Self:
        """x - (x // y) * y, with the sign of y; 0 for integers modulo 0."""
        ...

    __mod__ = remainder

    @public
    def __rmod__(self, other: Number) -> Self:
        return reflected(type(self).remainder, other, self)

    @primitive(
        scalar=lambda k, x, y: k.truncated_remainder(x, y),
        vjp=(lambda g, *_: g, lambda g, _, x, y: -g * (x / y).trunc()),
        domain=((0.1, 0.9), (1.0, 2.0)),
    )
    def fmod(self, other: Self | Number, /) -> Self:
        """Remainder of the truncated quotient, with the sign of x; 0 for integers modulo 0."""
        ...

    @primitive(scalar=lambda k, x: -x, vjp=(lambda g, *_: -g,))
    def negative(self, /) -> Self:
        """-x.  Integers wrap around: the least int8 is its own negative."""
        ...

    __neg__ = negative

    def positive(self, /) -> Self:
        """+x, which is x."""
        return self

    __pos__ = positive

    @primitive(
        scalar=lambda k, x: 1 / x,
        vjp=(lambda g, out, _: -g * out * out,),
        accepts="float",
        domain=AWAY_FROM_ZERO,
    )
    def reciprocal(self, /) -> Self:
        """1 / x."""
        ...

    @primitive(
        scalar=lambda k, x, end, weight: x + weight * (end - x),
        vjp=(
            lambda g, _, _x, _end, weight: g * (1 - weight),
            lambda g, _, _x, _end, weight: g * weight,
            lambda g, _, x, end: g * (end - x),
        ),
        accepts="float",
    )
    def lerp(self, end: Self | Number, weight: Self | Number, /) -> Self:
        """x + weight * (end - x): x at weight 0, end at weight 1."""
        ...

    # ---- magnitude and sign ----

    @primitive(
        scalar=lambda k, x: k.abs(x),
        vjp=(lambda g, _, x: g * x.sign(),),
        domain=AWAY_FROM_ZERO,
    )
    def abs(self, /) -> Self:
        """|x|; the gradient at 0 is 0.  The least integer of a dtype stays what it is."""
        ...

    __abs__ = abs

    @primitive(scalar=lambda k, x: k.sign(x), vjp=(None,), domain=AWAY_FROM_ZERO)
    def sign(self, /) -> Self:
        """-1, 0 or 1; NaN stays NaN, and 0 is that of both zeros."""
        ...

    @primitive(
        scalar=lambda k, x, y: k.copysign(x, y),
        vjp=(lambda g, out, x: g * (x.sign() * out.sign()), None),
        accepts="float",
        domain=(AWAY_FROM_ZERO, AWAY_FROM_ZERO),
    )
    def copysign(self, sign: Self | Number, /) -> Self:
        """|x| with the sign of the other, which a zero and a NaN have too."""
        ...

    @primitive(
        scalar=_nextafter_rule,
        canonical=_own_dtype,
        vjp=(None, None),
        accepts="float",
        samples=(sample((2, 3), (2, 3)), sample((2, 1), (3,)), sample((2,), 0.5)),
    )
    def _nextafter(self, other: Self | Number, /, *, dtype: DTypeLike | None = None) -> Self:
        """The number of the dtype next to x on the side of the other; the other where equal."""
        ...

    @public
    def nextafter(self, other: Self | Number, /) -> Self:
        """Return the number of the dtype next to x on the side of the other.

        The other itself where they are equal, and NaN where one is.

        >>> import pyrite
        >>> pyrite.tensor(1.0).nextafter(2.0).item() - 1 == 2**-23
        True
        """
        # Not self._nextafter: as a function it may get a number before a tensor.
        return Arithmetic._nextafter(self, other)

    # ---- extrema ----

    @primitive(
        scalar=lambda k, x, y: k.maximum(x, y),
        vjp=(
            lambda g, _, x, y: _share(g, x < y, x == y),
            lambda g, _, x, y: _share(g, y < x, y == x),
        ),
        domain=((-2.0, -0.1), (0.1, 2.0)),
    )
    def maximum(self, other: Self | Number, /) -> Self:
        """The greater; NaN if either is NaN.  0.0 is greater than -0.0.

        Where both are equal each takes half of the gradient, as in JAX and PyTorch.
        """
        ...

    @primitive(
        scalar=lambda k, x, y: k.minimum(x, y),
        vjp=(
            lambda g, _, x, y: _share(g, x > y, x == y),
            lambda g, _, x, y: _share(g, y > x, y == x),
        ),
        domain=((-2.0, -0.1), (0.1, 2.0)),
    )
    def minimum(self, other: Self | Number, /) -> Self:
        """The lesser; NaN if either is NaN.  -0.0 is less than 0.0.

        Where both are equal each takes half of the gradient, as in JAX and PyTorch.
        """
        ...

    @primitive(
        scalar=_clip_rule,
        vjp=(_clip_slope, _clip_slope_by_low, _clip_slope_by_high),
        samples=(
            sample((2, 3), -5.0, 5.0),
            sample((2, 3), None, 5.0),
            sample((2, 3), -5.0, None),
            sample((4, 1), 3.0, 4.0),
        ),
    )
    def _clip(self, min: Self | Number | None, max: Self | Number | None, /) -> Self:
        """x, not less than min and not greater than max."""
        ...

    @public
    def clip(self, /, min: Self | Number | None = None, max: Self | Number | None = None) -> Self:
        """Return x, not less than min and not greater than max; max wins where min is greater.

        NaN, in x or in a bound, gives NaN.  At a bound x takes the whole gradient, as in PyTorch.

        >>> import pyrite
        >>> pyrite.tensor([-3, 0, 3]).clip(-1, max=2).numpy().tolist()
        [-1, 0, 2]
        """
        return self if min is None and max is None else self._clip(min, max)

    # ---- rounding ----

    @primitive(scalar=lambda k, x: k.floor(x), vjp=(None,), domain=(0.1, 0.9))
    def floor(self, /) -> Self:
        """The greatest whole number not above x."""
        ...

    @primitive(scalar=lambda k, x: k.ceil(x), vjp=(None,), domain=(0.1, 0.9))
    def ceil(self, /) -> Self:
        """The least whole number not below x."""
        ...

    @primitive(scalar=lambda k, x: k.trunc(x), vjp=(None,), domain=(0.1, 0.9))
    def trunc(self, /) -> Self:
        """The whole number next to x on the side of 0."""
        ...

    @primitive(
        scalar=lambda k, x, *, decimals: (
            k.rint(x * 10.0**decimals) / 10.0**decimals if decimals else k.rint(x)
        ),
        canonical=_float_decimals,
        vjp=(None,),
        samples=(sample((2, 3)), sample((2, 3), decimals=2), sample((2, 3), decimals=-1)),
    )
    def round(self, /, decimals: int = 0) -> Self:
        """The nearest number with so many decimals; halves go to the even neighbour.

        >>> import pyrite
        >>> pyrite.tensor([0.5, 1.5, 2.5]).round().numpy().tolist()
        [0.0, 2.0, 2.0]
        """
        ...

    @public
    def __round__(self, decimals: int = 0) -> Self:
        return self.round(decimals)

    # ---- powers ----

    @primitive(
        scalar=lambda k, x, y: k.pow(x, y),
        vjp=(
            lambda g, _, x, y: g * _pow_slope(x, y),
            lambda g, out, x, y: g * _pow_growth(out, x, y),
        ),
        domain=(POSITIVE, (-2.0, 2.0)),
    )
    def pow(self, exponent: Self | Number, /) -> Self:
        """x ** y, as C's pow; an integer to a negative power is 0, 1 or -1 (0 ** -1 is 0).

        x ** 0 is 1 for every x, NaN too, with gradient 0.  Unlike `sqrt`, x ** 0.5 is 0.0 at -0.0
        and inf at -inf.
        """
        ...

    __pow__ = pow

    @public
    def __rpow__(self, other: Number) -> Self:
        return reflected(type(self).pow, other, self)

    @primitive(scalar=lambda k, x: x * x, vjp=(lambda g, _, x: g * (2 * x),))
    def square(self, /) -> Self:
        """x * x."""
        ...

    @primitive(
        scalar=lambda k, x: k.sqrt(x),
        vjp=(lambda g, out, _: g * 0.5 / out,),
        accepts="float",
        domain=POSITIVE,
    )
    def sqrt(self, /) -> Self:
        """Square root; NaN below 0, and the gradient at 0 is infinite."""
        ...

    @primitive(
        scalar=lambda k, x: k.rsqrt(x),
        vjp=(lambda g, out, x: g * -0.5 * out / x,),
        accepts="float",
        domain=POSITIVE,
    )
    def rsqrt(self, /) -> Self:
        """1 / sqrt(x); inf at 0, NaN below."""
        ...


def reflected(method: Callable[[Any, Any], T], number: Number, tensor: T) -> T:
    """Return ``method(number, tensor)``: an operator whose left side is a Python number."""
    return method(number, tensor)


def _share(g: Any, loses: Any, ties: Any) -> Any:
    """Return the cotangent of a side of maximum or minimum: none where it loses, half in a tie."""
    return loses._where(0, ties._where(g * 0.5, g))


def _pow_slope(x: Any, y: Any) -> Any:
    """Return the derivative of x ** y by x: 0 for y = 0 also where x ** -1 is not finite."""
    if isinstance(y, bool | int | float):
        return 0 if y == 0 else y * x ** (y - 1)
    return (y == 0)._where(0, y * x ** (y - 1))


def _pow_growth(out: Any, x: Any, y: Any) -> Any:
    """Return the derivative of x ** y by y, which for x = 0 and y >= 0 is 0, as in PyTorch."""
    if not isinstance(x, bool | int | float):
        return ((x == 0) & (y >= 0))._where(0, out * x.log())
    if x == 0:
        return (y >= 0)._where(0, -out)
    return out * (math.log(x) if x > 0 else math.nan)
