"""Arithmetic of uint16, uint32 and uint64 in int64, exact to the last bit.

A `Unsigned` is a value of a scalar rule: it has Python's operators, and `algebra` asks it for the
intrinsics of integers.  Below 64 bits ``bits`` holds the value itself; of uint64 it holds the same
64 bits as a signed number, so that order and division take care.
"""

from __future__ import annotations

from typing import Any

import torch

from pyrite.backend.torch.dtype import TOP_BIT
from pyrite.types import DType

_STORED = {16: torch.uint16, 32: torch.uint32, 64: torch.uint64}


class Unsigned:
    """A tensor of unsigned integers, carried in int64."""

    __slots__ = ("bits", "width")

    def __init__(self, bits: torch.Tensor, width: int) -> None:
        self.width = width
        self.bits = bits if width == 64 else bits & ((1 << width) - 1)

    @classmethod
    def load(cls, x: torch.Tensor) -> Unsigned:
        """Return a stored tensor as a value of a rule."""
        width = 8 * x.dtype.itemsize
        found = cls.__new__(cls)
        found.width = width
        found.bits = x.view(torch.int64) if width == 64 else x.to(torch.int64)
        return found

    def store(self) -> torch.Tensor:
        """Return it as a tensor of its own dtype."""
        stored = _STORED[self.width]
        return self.bits.view(stored) if self.width == 64 else self.bits.to(stored)

    @property
    def key(self) -> torch.Tensor:
        """Signed integers in the same order."""
        return self.bits ^ TOP_BIT if self.width == 64 else self.bits

    def like(self, other: Any) -> Unsigned:
        """Return a number, or a value of this dtype, as such a value."""
        if isinstance(other, Unsigned):
            return other
        word = int(other) & ((1 << self.width) - 1)
        signed = word - (1 << 64) if word >> 63 else word
        return Unsigned(torch.tensor(signed, device=self.bits.device), self.width)

    @property
    def shape(self) -> torch.Size:
        """Sizes of the axes."""
        return self.bits.shape

    def _new(self, bits: torch.Tensor) -> Unsigned:
        return Unsigned(bits, self.width)

    def __add__(self, other: Any) -> Unsigned:
        return self._new(self.bits + self.like(other).bits)

    def __sub__(self, other: Any) -> Unsigned:
        return self._new(self.bits - self.like(other).bits)

    def __rsub__(self, other: Any) -> Unsigned:
        return self._new(self.like(other).bits - self.bits)

    def __mul__(self, other: Any) -> Unsigned:
        return self._new(self.bits * self.like(other).bits)

    def __and__(self, other: Any) -> Unsigned:
        return self._new(self.bits & self.like(other).bits)

    def __or__(self, other: Any) -> Unsigned:
        return self._new(self.bits | self.like(other).bits)

    def __xor__(self, other: Any) -> Unsigned:
        return self._new(self.bits ^ self.like(other).bits)

    __radd__, __rmul__, __rand__, __ror__, __rxor__ = __add__, __mul__, __and__, __or__, __xor__

    def __neg__(self) -> Unsigned:
        return self._new(-self.bits)

    def __invert__(self) -> Unsigned:
        return self._new(~self.bits)

    def __lt__(self, other: Any) -> torch.Tensor:
        return self.key < self.like(other).key

    def __le__(self, other: Any) -> torch.Tensor:
        return self.key <= self.like(other).key

    def __gt__(self, other: Any) -> torch.Tensor:
        return self.key > self.like(other).key

    def __ge__(self, other: Any) -> torch.Tensor:
        return self.key >= self.like(other).key

    def __eq__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        return self.bits == self.like(other).bits

    def __ne__(self, other: object) -> torch.Tensor:  # type: ignore[override]
        return self.bits != self.like(other).bits

    __hash__ = None  # type: ignore[assignment]

    def where(self, condition: Any, other: Any) -> Unsigned:
        """Return it where the condition holds, else the other."""
        return self._new(torch.where(condition, self.bits, self.like(other).bits))

    def cast(self, dtype: torch.dtype) -> torch.Tensor:
        """Return it as another dtype: low bits of integers, the nearest float."""
        return self.store().to(dtype)

    def divided(self, other: Any) -> tuple[Unsigned, Unsigned]:
        """Return quotient and remainder; 0 and 0 for a division by 0."""
        x, y = self.bits, self.like(other).bits
        is_zero = y == 0
        # A divisor of 2 ** 63 and more goes into x once or not at all; below that, half of x is
        # divided as a positive number, and the quotient is one less than right at most.
        safe = torch.where(y <= 0, 1, y)
        half = (x >> 1) & (2**63 - 1)
        quotient = (half // safe) << 1
        rest = self._new(x - quotient * safe)
        quotient = quotient + (rest >= self._new(safe)).to(torch.int64)
        quotient = torch.where(y < 0, (self >= self._new(y)).to(torch.int64), quotient)
        quotient = torch.where(is_zero, 0, quotient)
        remainder = torch.where(is_zero, 0, x - quotient * y)
        return self._new(quotient), self._new(remainder)

    def power(self, exponent: Any) -> Unsigned:
        """Return self ** exponent by repeated squaring, wrapping around."""
        n = self.like(exponent).bits
        result, factor = torch.ones_like(self.bits), self
        total = self._new(result)
        for i in range(self.width):
            total = (total * factor).where((n >> i) & 1 == 1, total)
            factor = factor * factor
        return total

    def shifted(self, places: Any, *, left: bool) -> Unsigned:
        """Return the bits moved; 0 when places are the width or more."""
        n = self.like(places)
        inside = n < self.width
        safe = torch.where(inside, n.bits, 0)
        if left:
            moved = self.bits << safe
        else:
            # The sign bit, which a signed shift repeats, is cleared; a shift by 0 keeps it.
            kept = torch.where(safe == 0, -1, (1 << (64 - torch.clamp(safe, min=1))) - 1)
            moved = (self.bits >> safe) & kept
        return self._new(torch.where(inside, moved, 0))


def unsigned_cast(x: torch.Tensor, dtype: DType) -> Unsigned:
    """Return a tensor as uint16, uint32 or uint64: floats saturate, integers keep the low bits."""
    width = dtype.bits
    if not x.dtype.is_floating_point:
        return Unsigned(x.to(torch.int64), width)
    above, inside = x >= 2.0**width, (x > 0) & (x < 2.0**width)
    high = x >= 2.0**63
    small = torch.where(inside & ~high, x, 0).to(torch.int64)
    # What a float has above 2 ** 63 fits an int64.
    large = torch.where(inside & high, x - 2.0**63, 0).to(torch.int64) ^ TOP_BIT
    found = torch.where(inside & high, large, small)
    return Unsigned(torch.where(above, -1, found), width)
