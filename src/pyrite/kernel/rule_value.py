"""The value that a rule computes with: its ``//``, ``%``, ``<<`` and ``>>`` are those of tensors.

Our own kernels divide indices, which are not negative, by what is not zero, so `Value` has the
processor's division.  A rule is an application's, and NumPy evaluates it too: there ``-7 // 2`` is
-4, and a division by zero is 0 where a processor traps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyrite.kernel import polyfill
from pyrite.kernel.builder import KernelBuilder, Operand, Value

_SHIFTS: Final = {"shl": polyfill.shift_left, "shr": polyfill.shift_right}


class RuleValue(Value):
    """A `Value` with the operators of tensors, as `pyrite.algebra` states them."""

    __slots__ = ()

    def apply(self, name: str, *operands: Operand) -> RuleValue:
        """Apply an operation of `OPCODES`."""
        return of_rule(super().apply(name, *operands))

    def divide(self, x: Operand, y: Operand) -> RuleValue:
        """Return x / y of floats."""
        return of_rule(super().divide(x, y))

    def floor_divide(self, x: Operand, y: Operand) -> RuleValue:
        """Return x // y, rounded down; of integers 0 for y = 0."""
        return self._defined(polyfill.floor_divide, x, y)

    def remainder(self, x: Operand, y: Operand) -> RuleValue:
        """Return x % y, with the sign of y; of integers 0 for y = 0."""
        return self._defined(polyfill.remainder, x, y)

    def shift(self, name: str, x: Operand, n: Operand) -> RuleValue:
        """Return x << n or x >> n; by the width or more all bits are gone."""
        return self._defined(_SHIFTS[name], x, n)

    def __getitem__(self, element: int) -> RuleValue:
        return of_rule(super().__getitem__(element))

    def _defined(
        self, function: Callable[[KernelBuilder, Value, Value], Value], x: Operand, y: Operand
    ) -> RuleValue:
        a, b = met(self.builder, x, y)
        return of_rule(function(self.builder, plain(a), plain(b)))


def of_rule(x: Value) -> RuleValue:
    """Return the value with the operators of tensors."""
    return x if isinstance(x, RuleValue) else RuleValue(x.builder, x.node)


def plain(x: Value) -> Value:
    """Return the value with the operators of processors."""
    return Value(x.builder, x.node) if isinstance(x, RuleValue) else x


def met(builder: KernelBuilder, x: Operand, y: Operand) -> tuple[Value, Value]:
    """Return both as values of one type; one of them is one already."""
    if isinstance(x, Value):
        if isinstance(y, Value) and y.width > x.width:
            return builder.value(x, y.type), y
        return x, builder.value(y, x.type)
    assert isinstance(y, Value), "at least one operand is a value"
    return builder.value(x, y.type), y
