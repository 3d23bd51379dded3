"""Recording scalar rules: the algebra of `pyrite.algebra` over kernel values.

A rule that the NumPy backend evaluates is called here with values of a kernel, and its operations
become nodes.  Every intrinsic is an opcode, or a function of `polyfill` with the semantics that
`pyrite.algebra` fixes for all targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.errors import KernelError
from pyrite.kernel import polyfill
from pyrite.kernel.builder import KernelBuilder, Operand, Value
from pyrite.kernel.rule_value import met, of_rule, plain
from pyrite.types import DType, Number, bool_

Unary = Callable[["RecordingAlgebra", Value], Value]
Binary = Callable[["RecordingAlgebra", Operand, Operand], Value]


def trace(
    builder: KernelBuilder,
    rule: Callable[..., Any],
    inputs: Sequence[Value | None],
    out: DType,
    **attrs: Any,
) -> Value:
    """Return the value of a scalar rule at the inputs, in the dtype ``out``.

    16-bit floats are widened to float32 before, and the result is rounded once, as the NumPy
    backend does.  Raises KernelError if the rule gives another dtype.
    """
    operands = [x if x is None else of_rule(builder.cast(x, x.dtype.compute)) for x in inputs]
    result = rule(RecordingAlgebra(builder), *operands, **attrs)
    if not isinstance(result, Value):
        width = max((x.width for x in inputs if x is not None), default=1)
        constant = builder.const(result, out.compute)
        result = constant if width == 1 else builder.splat(constant, width)
    if result.dtype is out.compute:
        return builder.cast(result, out)
    if result.dtype is not out:
        raise KernelError(f"a rule requires a result of {out.name}, got {result.dtype.name}")
    return result


def _unary(function: Callable[[KernelBuilder, Value], Value]) -> Unary:
    def intrinsic(self: RecordingAlgebra, x: Value) -> Value:
        return of_rule(function(self.builder, plain(x)))

    return intrinsic


def _binary(function: Callable[[KernelBuilder, Value, Value], Value]) -> Binary:
    def intrinsic(self: RecordingAlgebra, x: Operand, y: Operand) -> Value:
        a, b = met(self.builder, x, y)
        return of_rule(function(self.builder, plain(a), plain(b)))

    return intrinsic


def _rounding(opcode: str) -> Unary:
    """Return a rounding intrinsic, which does nothing to whole numbers."""

    def intrinsic(self: RecordingAlgebra, x: Value) -> Value:
        return of_rule(self.builder.alu(opcode, x) if x.dtype.is_float else x)

    return intrinsic


def _test_of_float(function: Callable[[KernelBuilder, Value], Value]) -> Unary:
    """Return the test of a property that no integer and no bool has."""

    def intrinsic(self: RecordingAlgebra, x: Value) -> Value:
        if x.dtype.is_float:
            return of_rule(function(self.builder, plain(x)))
        return of_rule(self.builder.const(False, x.type.with_dtype(bool_)))

    return intrinsic


class RecordingAlgebra:
    """Every intrinsic, recorded in a builder; conforms to `pyrite.algebra.Algebra`."""

    def __init__(self, builder: KernelBuilder, *, tells_nan: bool = False) -> None:
        """``tells_nan`` says that comparisons with NaN are false on the device, as IEEE has it."""
        self.builder = builder
        self.tells_nan = tells_nan

    # choice and order
    def where(self, condition: Value, x: Operand, y: Operand) -> Value:
        """Return x where the condition holds, else y."""
        return of_rule(self.builder.select(condition, x, y))

    minimum = _binary(polyfill.minimum)
    maximum = _binary(polyfill.maximum)
    isnan = _test_of_float(polyfill.isnan)
    isinf = _test_of_float(polyfill.isinf)

    def exceeds(self, x: Operand, y: Operand) -> Value:
        """Return whether x > y, or x alone is NaN."""
        a, b = map(of_rule, met(self.builder, x, y))
        if not a.dtype.is_float:
            return a > b
        if self.tells_nan:
            return ~(a <= b) & (b == b)
        return ((a > b) | self.isnan(a)) & ~self.isnan(b)

    # conversion
    def constant(self, value: Number, dtype: DType) -> Value:
        """Return the number, in a dtype."""
        return of_rule(self.builder.const(value, dtype))

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """Return the same bits as another dtype."""
        return of_rule(self.builder.bitcast(x, dtype))

    def cast(self, x: Value, dtype: DType) -> Value:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        return of_rule(polyfill.cast(self.builder, plain(x), dtype))

    # sign and rounding
    def abs(self, x: Value) -> Value:
        """|x|; of bools, and of unsigned integers, x."""
        return abs(x) if x.dtype.kind in ("int", "float") else x

    def signbit(self, x: Value) -> Value:
        """Whether x is negative, counting -0.0."""
        if x.dtype.is_float:
            return of_rule(polyfill.signbit(self.builder, plain(x)))
        return x < 0 if x.dtype.kind == "int" else self.isnan(x)

    sign = _unary(polyfill.sign)
    copysign = _binary(polyfill.copysign)
    nextafter = _binary(polyfill.nextafter)
    floor = _rounding("floor")
    ceil = _rounding("ceil")
    trunc = _rounding("trunc")
    rint = _rounding("rint")

    # division
    floor_divide = _binary(polyfill.floor_divide)
    remainder = _binary(polyfill.remainder)
    truncated_remainder = _binary(polyfill.truncated_remainder)

    # powers, exponentials, logarithms
    def sqrt(self, x: Value) -> Value:
        """Return the square root."""
        return of_rule(self.builder.sqrt(x))

    def rsqrt(self, x: Value) -> Value:
        """1 / sqrt(x)."""
        return of_rule(1.0 / self.builder.sqrt(x))

    pow = _binary(polyfill.pow)
    exp = _unary(polyfill.exp)
    exp2 = _unary(polyfill.exp2)
    expm1 = _unary(polyfill.expm1)
    log = _unary(polyfill.log)
    log2 = _unary(polyfill.log2)
    log10 = _unary(polyfill.log10)
    log1p = _unary(polyfill.log1p)
    hypot = _binary(polyfill.hypot)

    # trigonometry
    sin = _unary(polyfill.sin)
    cos = _unary(polyfill.cos)
    tan = _unary(polyfill.tan)
    asin = _unary(polyfill.asin)
    acos = _unary(polyfill.acos)
    atan = _unary(polyfill.atan)
    atan2 = _binary(polyfill.atan2)
    sinh = _unary(polyfill.sinh)
    cosh = _unary(polyfill.cosh)
    tanh = _unary(polyfill.tanh)
    asinh = _unary(polyfill.asinh)
    acosh = _unary(polyfill.acosh)
    atanh = _unary(polyfill.atanh)

    # special functions
    erf = _unary(polyfill.erf)
    erfinv = _unary(polyfill.erfinv)
    ndtr = _unary(polyfill.ndtr)
    lgamma = _unary(polyfill.lgamma)
    digamma = _unary(polyfill.digamma)
    trigamma = _unary(polyfill.trigamma)

    # bits
    shift_left = _binary(polyfill.shift_left)
    shift_right = _binary(polyfill.shift_right)

    def popcount(self, x: Value) -> Value:
        """Return the number of one bits."""
        return of_rule(self.builder.alu("popcount", x))

    def multiply_high(self, x: Value, y: Operand) -> Value:
        """Return the upper word of the product of words."""
        return of_rule(self.builder.alu("mulhi", x, y))
