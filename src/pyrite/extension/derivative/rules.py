"""Derivatives of what a kernel computes: of opcodes, and of the mathematics of `pyrite.algebra`.

A rule gets the algebra, the cotangent of the result, the result and the operands, and returns a
cotangent for each operand, or None.  Mathematics is not differentiated as it is spelled: an
exponential is polynomials and bits, of which the derivative would be another function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pyrite.kernel import Value
from pyrite.kernel.trace import RecordingAlgebra

#: A cotangent for each operand.
Cotangents = tuple[Value | None, ...]
Rule = Callable[..., Cotangents]

_LN_2, _LN_10 = math.log(2.0), math.log(10.0)
_ROOT_PI = math.sqrt(math.pi)


def _share(k: RecordingAlgebra, g: Value, is_ours: Value, is_both: Value) -> Value:
    """Return what the greater or the lesser of two gets: half of it where they are equal."""
    return k.where(is_ours, g, k.where(is_both, g * 0.5, 0.0))


def _greater(k: RecordingAlgebra, g: Value, _: Value, x: Value, y: Value) -> Cotangents:
    return _share(k, g, x > y, x == y), _share(k, g, y > x, x == y)


def _lesser(k: RecordingAlgebra, g: Value, _: Value, x: Value, y: Value) -> Cotangents:
    return _share(k, g, x < y, x == y), _share(k, g, y < x, x == y)


def _power(k: RecordingAlgebra, g: Value, out: Value, x: Value, y: Value) -> Cotangents:
    of_base = k.where(y == 0.0, 0.0, y * k.pow(x, y - 1.0))
    of_exponent = out * k.log(k.where(x > 0.0, x, 1.0))
    return g * of_base, g * of_exponent


def _hypotenuse(k: RecordingAlgebra, g: Value, out: Value, x: Value, y: Value) -> Cotangents:
    part = g / k.where(out == 0.0, 1.0, out)
    return part * x, part * y


def _angle(k: RecordingAlgebra, g: Value, _: Value, y: Value, x: Value) -> Cotangents:
    part = g / (x * x + y * y)
    return part * x, -(part * y)


def _of_sign(k: RecordingAlgebra, g: Value, _: Value, x: Value, y: Value) -> Cotangents:
    return k.where(k.signbit(x) ^ k.signbit(y), -g, g), None


def _none(k: RecordingAlgebra, g: Value, out: Value, *operands: Value) -> Cotangents:
    return (None,) * len(operands)


#: The rules of opcodes whose operands are floats.
OPCODES: Final[dict[str, Rule]] = {
    "add": lambda k, g, out, x, y: (g, g),
    "sub": lambda k, g, out, x, y: (g, -g),
    "mul": lambda k, g, out, x, y: (g * y, g * x),
    "div": lambda k, g, out, x, y: (g / y, -(g * out) / y),
    "neg": lambda k, g, out, x: (-g,),
    "abs": lambda k, g, out, x: (g * k.sign(x),),
    "min": _lesser,
    "max": _greater,
    "fma": lambda k, g, out, x, y, z: (g * y, g * x, g),
    "sqrt": lambda k, g, out, x: (g * 0.5 / out,),
    "fence": lambda k, g, out, x: (g,),
    "floor": _none, "ceil": _none, "trunc": _none, "rint": _none,
}  # fmt: skip

#: The rules of the mathematics.  What has no entry has no derivative here.
MATHEMATICS: Final[dict[str, Rule]] = {
    "minimum": _lesser, "maximum": _greater, "copysign": _of_sign,
    "abs": OPCODES["abs"], "sqrt": OPCODES["sqrt"],
    "sign": _none, "floor": _none, "ceil": _none, "trunc": _none, "rint": _none,
    "floor_divide": _none,
    "remainder": lambda k, g, out, x, y: (g, -(g * k.floor_divide(x, y))),
    "truncated_remainder": lambda k, g, out, x, y: (g, -(g * k.trunc(x / y))),
    "rsqrt": lambda k, g, out, x: (g * -0.5 * out / x,),
    "pow": _power, "hypot": _hypotenuse, "atan2": _angle,
    "exp": lambda k, g, out, x: (g * out,),
    "exp2": lambda k, g, out, x: (g * out * _LN_2,),
    "expm1": lambda k, g, out, x: (g * (out + 1.0),),
    "log": lambda k, g, out, x: (g / x,),
    "log2": lambda k, g, out, x: (g / (x * _LN_2),),
    "log10": lambda k, g, out, x: (g / (x * _LN_10),),
    "log1p": lambda k, g, out, x: (g / (x + 1.0),),
    "sin": lambda k, g, out, x: (g * k.cos(x),),
    "cos": lambda k, g, out, x: (-(g * k.sin(x)),),
    "tan": lambda k, g, out, x: (g * (1.0 + out * out),),
    "asin": lambda k, g, out, x: (g * k.rsqrt(1.0 - x * x),),
    "acos": lambda k, g, out, x: (-(g * k.rsqrt(1.0 - x * x)),),
    "atan": lambda k, g, out, x: (g / (1.0 + x * x),),
    "sinh": lambda k, g, out, x: (g * k.cosh(x),),
    "cosh": lambda k, g, out, x: (g * k.sinh(x),),
    "tanh": lambda k, g, out, x: (g * (1.0 - out * out),),
    "asinh": lambda k, g, out, x: (g * k.rsqrt(x * x + 1.0),),
    "acosh": lambda k, g, out, x: (g * k.rsqrt(x * x - 1.0),),
    "atanh": lambda k, g, out, x: (g / (1.0 - x * x),),
    "erf": lambda k, g, out, x: (g * k.exp(-(x * x)) * (2.0 / _ROOT_PI),),
    "erfinv": lambda k, g, out, x: (g * k.exp(out * out) * (_ROOT_PI / 2.0),),
    "ndtr": lambda k, g, out, x: (g * k.exp(x * x * -0.5) / (_ROOT_PI * math.sqrt(2.0)),),
    "lgamma": lambda k, g, out, x: (g * k.digamma(x),),
    "digamma": lambda k, g, out, x: (g * k.trigamma(x),),
}  # fmt: skip
