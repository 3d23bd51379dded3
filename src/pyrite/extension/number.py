"""Numbers that change while a kernel runs: they take the dtype of what they meet, as Python's do.

A counter of a loop, a coordinate of the point, ``total = 0.0`` that a loop adds to: in Python each
is a number, and so it is here.  It is kept as int32 or float32 (float64 in a kernel that has
tensors of it) and converted beside a value of another dtype: ``i * 0.5`` and ``x[i] * i`` are
floats.  JAX calls such values weakly typed.
"""

from __future__ import annotations

from typing import Any

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.builder import Operand
from pyrite.kernel.ir import Type, scalar
from pyrite.symbol import Symbol
from pyrite.types import DType, float32, int32


class WeakValue(Value):
    """A number of the kernel without a dtype of its own."""

    # Results are weak where all operands are, and else values: not `Self`.
    __slots__ = ()

    def apply(self, name: str, *operands: Operand) -> Value:  # type: ignore[override]
        """Apply an operation of `OPCODES`."""
        return self._weak(self.builder.alu(name, *operands), operands)

    def divide(self, x: Operand, y: Operand) -> Value:  # type: ignore[override]
        """Return x / y, a float of two whole numbers too."""
        type = self.builder._common_type("/", (x, y))
        if type.dtype.is_integer and is_weak(x) and is_weak(y):
            wide = scalar(weak_float(self.builder))
            x, y = self.builder.value(x, wide), self.builder.value(y, wide)
            return WeakValue(self.builder, self.builder.divide(x, y).node)
        return self._weak(self.builder.divide(x, y), (x, y))

    def floor_divide(self, x: Operand, y: Operand) -> Value:  # type: ignore[override]
        """Return x // y."""
        return self._weak(self.builder.floor_divide(x, y), (x, y))

    def remainder(self, x: Operand, y: Operand) -> Value:  # type: ignore[override]
        """Return x % y."""
        return self._weak(self.builder.remainder(x, y), (x, y))

    def shift(self, name: str, x: Operand, n: Operand) -> Value:  # type: ignore[override]
        """Return x << n or x >> n."""
        return self._weak(self.builder.shift(name, x, n), (x, n))

    def _weak(self, result: Value, operands: tuple[Any, ...]) -> Value:
        if result.dtype.is_bool or not all(map(is_weak, operands)):
            return result
        return WeakValue(self.builder, result.node)


def is_weak(x: object) -> bool:
    """Whether an operand takes the dtype of what it meets."""
    return isinstance(x, WeakValue) or not isinstance(x, Value)


def weak_float(builder: KernelBuilder) -> DType:
    """Return the dtype in which a kernel keeps fractions that change."""
    found: DType = getattr(builder, "weak_float", float32)
    return found


def _is_fraction(x: object) -> bool:
    return isinstance(x.value if isinstance(x, Symbol) else x, float)


def meeting(builder: KernelBuilder, operands: tuple[Operand, ...]) -> Type:
    """Return the type in which weak values and numbers meet each other."""
    is_float = any(x.dtype.is_float if isinstance(x, Value) else _is_fraction(x) for x in operands)
    return scalar(weak_float(builder) if is_float else int32)


def adopted(x: WeakValue, type: Type) -> Value:
    """Return a weak value in the dtype of what it meets.

    Raises KernelError for a fraction beside integers, and a number beside bools.
    """
    if x.dtype is type.dtype:
        return Value(x.builder, x.node)
    if type.dtype.is_bool or (x.dtype.is_float and type.dtype.is_integer):
        raise KernelError(
            f"a number that may be a fraction requires floats beside it, got {type}; cast one: "
            f"k.cast(x, {type.dtype.name if x.dtype.is_integer else 'float32'!r})"
        )
    return Value(x.builder, KernelBuilder.cast(x.builder, x, type.dtype).node)
