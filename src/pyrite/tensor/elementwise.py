"""Elementwise ops: one output element from one element of each input, after broadcasting.

Shapes are (...) -> (...) throughout; with two or three inputs they broadcast as in NumPy.  Domains
are where an op is defined and smooth.  Python's operators are at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self, TypeVar

from pyrite.op import Attributes, TensorBase, bools, primitive, sample
from pyrite.types import DType, DTypeLike, Number, TensorType
from pyrite.types import dtype as as_dtype

T = TypeVar("T")

POSITIVE = (0.1, 3.0)


def _cast_dtype(x: TensorType, *, dtype: DTypeLike) -> Attributes:
    return {"dtype": as_dtype(dtype)}


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(x.shape, dtype)


class Elementwise(TensorBase):
    """Arithmetic, comparison, logic and mathematical functions."""

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
    def astype(self, /, dtype: DTypeLike) -> Self:
        """The values as another dtype; floats to integers truncate and saturate, NaN becomes 0."""
        ...

    # ---- arithmetic ----

    @primitive(
        scalar=lambda k, x, y: x + y,
        vjp=(lambda g, *_: g, lambda g, *_: g),
    )
    def add(self, other: Self | Number, /) -> Self:
        """x + y."""
        ...

    @primitive(
        scalar=lambda k, x, y: x - y,
        vjp=(lambda g, *_: g, lambda g, *_: -g),
    )
    def subtract(self, other: Self | Number, /) -> Self:
        """x - y."""
        ...

    @primitive(
        scalar=lambda k, x, y: x * y,
        vjp=(lambda g, _, _x, y: g * y, lambda g, _, x: g * x),
    )
    def multiply(self, other: Self | Number, /) -> Self:
        """x * y."""
        ...

    @primitive(
        scalar=lambda k, x, y: x / y,
        vjp=(lambda g, _, _x, y: g / y, lambda g, out, _, y: -g * out / y),
        accepts="float",
        domain=((-2.0, 2.0), POSITIVE),
    )
    def divide(self, other: Self | Number, /) -> Self:
        """x / y, in floating point."""
        ...

    @primitive(scalar=lambda k, x: -x, vjp=(lambda g, *_: -g,))
    def negative(self, /) -> Self:
        """-x."""
        ...

    @primitive(
        scalar=lambda k, x, y: k.pow(x, y),
        vjp=(
            lambda g, _, x, y: g * y * x ** (y - 1),
            lambda g, out, x: g * out * _log(x),
        ),
        domain=(POSITIVE, (-2.0, 2.0)),
    )
    def pow(self, exponent: Self | Number, /) -> Self:
        """x ** y.  0 ** 0 is 1; an integer to a negative power is 0, 1 or -1."""
        ...

    # ---- exponentials and logarithms ----

    @primitive(scalar=lambda k, x: k.exp(x), vjp=(lambda g, out, _: g * out,), accepts="float")
    def exp(self, /) -> Self:
        """e ** x."""
        ...

    @primitive(
        scalar=lambda k, x: k.log(x),
        vjp=(lambda g, _, x: g / x,),
        accepts="float",
        domain=POSITIVE,
    )
    def log(self, /) -> Self:
        """Natural logarithm; -inf at 0, NaN below."""
        ...

    # ---- choice and comparison ----

    @primitive(
        scalar=lambda k, condition, x, y: k.where(condition, x, y),
        vjp=(
            None,
            lambda g, _, condition: condition._where(g, 0),
            lambda g, _, condition: condition._where(0, g),
        ),
        accepts="any",
        promotes=(1, 2),
        samples=(sample(bools((2, 3)), (2, 3), (2, 3)), sample(bools((3,)), (2, 1), (1, 3))),
    )
    def _where(self, x: Any, y: Any, /) -> Self:
        """x where the condition holds, else y."""
        ...

    @primitive(
        scalar=lambda k, x, y: x == y,
        vjp=(None, None),
        accepts="any",
        returns="bool",
    )
    def equal(self, other: Self | Number, /) -> Self:
        """x == y, as bool."""
        ...

    # ---- operators ----

    __add__ = add

    def __radd__(self, other: Number) -> Self:
        return _reflected(type(self).add, other, self)

    __sub__ = subtract

    def __rsub__(self, other: Number) -> Self:
        return _reflected(type(self).subtract, other, self)

    __mul__ = multiply

    def __rmul__(self, other: Number) -> Self:
        return _reflected(type(self).multiply, other, self)

    __truediv__ = divide

    def __rtruediv__(self, other: Number) -> Self:
        return _reflected(type(self).divide, other, self)

    __pow__ = pow

    def __rpow__(self, other: Number) -> Self:
        return _reflected(type(self).pow, other, self)

    __neg__ = negative

    __eq__ = equal  # type: ignore[assignment]

    __hash__ = None  # type: ignore[assignment]


def _log(x: Any) -> Any:
    return math.log(x) if isinstance(x, int | float) else x.log()


def _reflected(method: Callable[[Any, Any], T], number: Number, tensor: T) -> T:
    """Return ``method(number, tensor)``: an operator whose left side is a Python number."""
    return method(number, tensor)
