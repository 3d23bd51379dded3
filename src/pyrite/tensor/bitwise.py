"""Bits of integers; on bools ``& | ^ ~`` are the logical operations.

Shapes are (...) -> (...) throughout; two inputs broadcast.
"""

from __future__ import annotations

from typing import Self

from pyrite.op import TensorBase, integers, primitive, public, sample
from pyrite.tensor.arithmetic import reflected
from pyrite.types import Number

_PAIR = (
    sample(integers((2, 3), -9, 9), integers((2, 3), 0, 5)),
    sample(integers((2, 1), -9, 9), integers((3,), 0, 5)),
    sample(integers((), -9, 9), 3),
)
_ONE = (sample(integers((2, 3), -9, 9)), sample(integers((), -9, 9)))


class Bitwise(TensorBase):
    """Operations on bits."""

    __slots__ = ()

    @primitive(scalar=lambda k, x, y: x & y, vjp=(None, None), accepts="logical", samples=_PAIR)
    def bitwise_and(self, other: Self | Number, /) -> Self:
        """x & y."""
        ...

    __and__ = bitwise_and

    @public
    def __rand__(self, other: Number) -> Self:
        return reflected(type(self).bitwise_and, other, self)

    @primitive(scalar=lambda k, x, y: x | y, vjp=(None, None), accepts="logical", samples=_PAIR)
    def bitwise_or(self, other: Self | Number, /) -> Self:
        """x | y."""
        ...

    __or__ = bitwise_or

    @public
    def __ror__(self, other: Number) -> Self:
        return reflected(type(self).bitwise_or, other, self)

    @primitive(scalar=lambda k, x, y: x ^ y, vjp=(None, None), accepts="logical", samples=_PAIR)
    def bitwise_xor(self, other: Self | Number, /) -> Self:
        """x ^ y."""
        ...

    __xor__ = bitwise_xor

    @public
    def __rxor__(self, other: Number) -> Self:
        return reflected(type(self).bitwise_xor, other, self)

    @primitive(scalar=lambda k, x: ~x, vjp=(None,), accepts="logical", samples=_ONE)
    def bitwise_invert(self, /) -> Self:
        """~x: every bit turned, which for signed integers is -x - 1."""
        ...

    __invert__ = bitwise_invert

    @primitive(
        scalar=lambda k, x, n: k.shift_left(x, n),
        vjp=(None, None),
        accepts="integer",
        samples=_PAIR,
    )
    def bitwise_left_shift(self, places: Self | Number, /) -> Self:
        """x * 2 ** places, modulo the width; 0 when places are negative or the width or more."""
        ...

    __lshift__ = bitwise_left_shift

    @public
    def __rlshift__(self, other: Number) -> Self:
        return reflected(type(self).bitwise_left_shift, other, self)

    @primitive(
        scalar=lambda k, x, n: k.shift_right(x, n),
        vjp=(None, None),
        accepts="integer",
        samples=_PAIR,
    )
    def bitwise_right_shift(self, places: Self | Number, /) -> Self:
        """Floor of x / 2 ** places; negative places count as more than the width.

        Past the width signed integers give -1 or 0, by their sign, and unsigned ones 0.
        """
        ...

    __rshift__ = bitwise_right_shift

    @public
    def __rrshift__(self, other: Number) -> Self:
        return reflected(type(self).bitwise_right_shift, other, self)

    @primitive(scalar=lambda k, x: k.popcount(x), vjp=(None,), accepts="integer", samples=_ONE)
    def popcount(self, /) -> Self:
        """How many bits are set, in two's complement.

        >>> import pyrite
        >>> pyrite.tensor([7, -1]).popcount().numpy().tolist()
        [3, 32]
        """
        ...
