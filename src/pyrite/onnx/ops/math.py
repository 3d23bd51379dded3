"""Elementwise ops: arithmetic, functions, comparison, logic, bits, casts."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import DTypeError
from pyrite.onnx.converter import Scalar, converts
from pyrite.onnx.element import ELEMENTS, Element
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor

Number = bool | int | float

# ---- one operand ----

#: Ops that are one method.
_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": Tensor.abs,
    "Acos": Tensor.acos,
    "Acosh": Tensor.acosh,
    "Asin": Tensor.asin,
    "Asinh": Tensor.asinh,
    "Atan": Tensor.atan,
    "Atanh": Tensor.atanh,
    "Ceil": Tensor.ceil,
    "Cos": Tensor.cos,
    "Cosh": Tensor.cosh,
    "Erf": Tensor.erf,
    "Exp": Tensor.exp,
    "Floor": Tensor.floor,
    "HardSwish": Tensor.hard_swish,
    "IsNaN": Tensor.isnan,
    "Log": Tensor.log,
    "Mish": Tensor.mish,
    "Neg": Tensor.negative,
    "Not": Tensor.logical_not,
    "Reciprocal": Tensor.reciprocal,
    "Relu": Tensor.relu,
    "Round": Tensor.round,
    "Sigmoid": Tensor.sigmoid,
    "Sign": Tensor.sign,
    "Sin": Tensor.sin,
    "Sinh": Tensor.sinh,
    "Softplus": Tensor.softplus,
    "Softsign": Tensor.softsign,
    "Sqrt": Tensor.sqrt,
    "Tan": Tensor.tan,
    "Tanh": Tensor.tanh,
    "BitwiseNot": Tensor.bitwise_invert,
}


def _unary(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def convert(x: Tensor) -> Tensor:
        return function(x)

    return convert


for _op, _function in _UNARY.items():
    converts(_op)(_unary(_function))


@converts("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Return where x is infinite, of the signs asked for."""
    found = x.isinf()
    if not detect_negative:
        found = found.logical_and(x > 0)
    return found if detect_positive else found.logical_and(x < 0)


@converts("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where positive, else alpha (e ** x - 1)."""
    return x.elu(alpha)


@converts("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return max(0, x) + min(0, alpha (e ** (x / alpha) - 1))."""
    return x.celu(alpha)


@converts("Selu", since=6)
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """Return gamma times elu of x."""
    return x.elu(alpha) * gamma


@converts("Selu", since=1)
def selu_1(
    x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: object = None
) -> Tensor:
    """Return gamma times elu of x, with the constants of opset 1."""
    return x.elu(alpha) * gamma


@converts("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Return x where positive, else alpha x."""
    return x.leaky_relu(alpha)


@converts("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where greater than alpha, else 0."""
    return x.thresholded_relu(alpha)


@converts("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return alpha x + beta, between 0 and 1."""
    return x.hard_sigmoid(alpha, beta)


@converts("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Return x moved by bias towards 0, and 0 within lambd of it."""
    moved = functions.where(x < -lambd, x + bias, functions.where(x > lambd, x - bias, 0))
    return moved.astype(x.dtype)


@converts("Gelu", since=20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x Phi(x), or its approximation by tanh."""
    return x.gelu("tanh" if approximate == "tanh" else "none")


@converts("Swish", since=24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x sigmoid(alpha x)."""
    return x.silu() if alpha == 1.0 else x * (x * alpha).sigmoid()


# ---- two operands and more ----

_BINARY: dict[str, Callable[[Any, Any], Tensor]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "And": operator.and_,
    "Or": operator.or_,
    "Xor": operator.xor,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}


def _binary(function: Callable[[Any, Any], Tensor]) -> Callable[..., Tensor]:
    def convert(a: Scalar, b: Scalar) -> Tensor:
        return function(a, b)

    return convert


def _aligned(
    call: Call, a: Tensor, b: Tensor, axis: int | None, broadcast: int
) -> tuple[Tensor, Tensor]:
    """Return operands as before opset 7: b's axes are those of a from ``axis`` on."""
    if broadcast and axis is not None and axis >= 0:
        b = b.reshape((*b.shape, *(1,) * (a.ndim - axis - b.ndim)))
    return a, b


def _binary_6(function: Callable[[Any, Any], Tensor]) -> Callable[..., Tensor]:
    def convert(
        call: Call, a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0
    ) -> Tensor:
        return function(*_aligned(call, a, b, axis, broadcast))

    return convert


for _op, _operation in _BINARY.items():
    converts(_op, since=7)(_binary(_operation))
for _op in ("Add", "Sub", "Mul", "And", "Or", "Xor", "Equal", "Greater", "Less"):
    converts(_op, since=1)(_binary_6(_BINARY[_op]))


def _divided(a: Any, b: Any) -> Tensor:
    """Return a / b; of integers, rounded towards 0."""
    whole = a if isinstance(a, Tensor) else b
    if whole.dtype.is_float:
        quotient: Tensor = a / b
        return quotient
    if whole.dtype.kind == "uint":
        return _tensor_like(a, whole).floor_divide(b)
    dividend, divisor = _tensor_like(a, whole), _tensor_like(b, whole)
    return (dividend - dividend.fmod(divisor)).floor_divide(divisor)


def _tensor_like(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else functions.full_like(like, value)


@converts("Div", since=7)
def div(a: Scalar, b: Scalar) -> Tensor:
    """Return a / b; of integers, rounded towards 0."""
    return _divided(a, b)


converts("Div", since=1)(_binary_6(_divided))


@converts("Pow", since=7)
def power(x: Tensor, y: Scalar) -> Tensor:
    """Return x ** y in the dtype of x."""
    if not isinstance(y, Tensor):
        return _power_number(x, y)
    if y.dtype.is_float and not x.dtype.is_float:
        return x.astype(y.dtype).pow(y).astype(x.dtype)
    return x.pow(y.astype(x.dtype))


def _power_number(x: Tensor, y: Number) -> Tensor:
    if x.dtype.is_float or float(y).is_integer():
        return x.pow(float(y) if x.dtype.is_float else int(y)).astype(x.dtype)
    return x.astype(types.float32).pow(y).astype(x.dtype)


converts("Pow", since=1)(_binary_6(power))


@converts("Mod", since=10)
def mod(a: Scalar, b: Scalar, *, fmod: int = 0) -> Tensor:
    """Return the remainder with the sign of b, or, with fmod, with that of a."""
    like = a if isinstance(a, Tensor) else b
    a = _tensor_like(a, like)
    remainder: Tensor = a.fmod(b) if fmod else a.remainder(b)
    return remainder


@converts("BitShift", since=11)
def bit_shift(x: Scalar, y: Scalar, *, direction: str) -> Tensor:
    """Return x with its bits moved by y places; from the width on nothing is left."""
    like = x if isinstance(x, Tensor) else y
    x, y = _tensor_like(x, like), _tensor_like(y, like)
    shifted: Tensor = x.bitwise_left_shift(y) if direction == "LEFT" else x.bitwise_right_shift(y)
    return shifted


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def convert(*xs: Tensor) -> Tensor:
        return reduce(function, xs)

    return convert


converts("Sum")(_folded(operator.add))
converts("Max")(_folded(functions.maximum))
converts("Min")(_folded(functions.minimum))


@converts("Mean")
def mean(*xs: Tensor) -> Tensor:
    """Return the mean of the operands, elementwise."""
    total: Tensor = reduce(operator.add, xs)
    return total / len(xs)


@converts("Where", since=9)
def where(condition: Tensor, x: Tensor, y: Scalar) -> Tensor:
    """Return x where the condition holds, else y."""
    return functions.where(condition, x, y)


@converts("Clip", since=11)
def clip(x: Tensor, low: Scalar | None = None, high: Scalar | None = None) -> Tensor:
    """Return x between low and high."""
    low, high = (_bound(bound) for bound in (low, high))
    return x if low is None and high is None else x.clip(low, high)


def _bound(bound: Any) -> Any:
    return None if isinstance(bound, float) and math.isnan(bound) else bound


@converts("Clip", since=1)
def clip_1(
    x: Tensor, *, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38
) -> Tensor:
    """Return x between min and max."""
    return x.clip(min, max)


@converts("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Return x where positive, else slope times x; the slope broadcasts to x."""
    return functions.where(x < 0, slope * x, x)


@converts("PRelu", since=1)
def prelu_1(x: Tensor, slope: Tensor) -> Tensor:
    """Return x where positive, else slope times x; the slope is one number a channel."""
    per_channel = slope.ndim == 1 and x.ndim > 2 and slope.shape[0] != 1
    return prelu(x, slope.reshape((-1, *(1,) * (x.ndim - 2))) if per_channel else slope)


converts("PRelu", since=7)(prelu)

# ---- casts ----


@converts("Cast", since=6)
def cast(call: Call, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Return x as another element type; what has no dtype of its own is rounded and saturates."""
    return converted(call, x, ELEMENTS[to])


@converts("CastLike", since=15)
def cast_like(
    call: Call, x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """Return x as the element type of target."""
    wanted = call.element(1)
    return x.astype(target.dtype) if wanted is None else converted(call, x, wanted)


def converted(call: Call, x: Tensor, wanted: Element) -> Tensor:
    """Return x as an element type, in the dtype that carries it."""
    carrier = wanted.carrier
    assert carrier is not None, "support.problems refuses what has no carrier"
    if wanted.name == "float4e2m1":
        return _rounded_to_e2m1(x.astype(carrier))
    if not wanted.is_narrow:
        return x.astype(call.dtype(carrier))
    # The low bits, as two's complement has them: what quantizes saturates, and a cast wraps.
    low, high = int(wanted.lowest), int(wanted.highest)
    wrapped = (x.astype(types.int32) - low).bitwise_and(high - low) + low
    return wrapped.astype(carrier)


def _rounded_to_e2m1(x: Tensor) -> Tensor:
    """Return the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with the sign of x, ties to even."""
    x = functions.where(x.isnan(), 0.0, x)
    size = x.abs().clip(None, 6.0)
    step = functions.where(size < 2, 0.5, functions.where(size < 4, 1.0, 2.0))
    nearest = (size / step).round() * step
    return nearest.copysign(x)


@converts("BitCast", since=26)
def bit_cast(call: Call, x: Tensor, *, to: int) -> Tensor:
    """Return the bits of x, read as another type of the same width."""
    wanted = ELEMENTS[to].carrier
    assert wanted is not None, "support.problems refuses what has no carrier"
    # No op of Pyrite reads bits as another dtype: they go through the host, which is counted.
    array = np.array(x.numpy(), order="C")
    if array.dtype.itemsize != wanted.numpy.itemsize:
        raise DTypeError(
            f"BitCast requires bits as wide as {wanted.name}'s, got {array.dtype}; load the model "
            "without narrow_int64"
        )
    return functions.tensor(array.view(wanted.numpy), device=x.device)
