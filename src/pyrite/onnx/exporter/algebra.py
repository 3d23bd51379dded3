"""Scalar rules as nodes: the algebra in which an op's rule writes itself into a graph.

Each intrinsic of `pyrite.algebra` is one node or a few.  What its contract says and ONNX leaves
open, as integers divided by zero, is written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from pyrite.onnx.exporter import special
from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.term import Term
from pyrite.types import DType, Number, bool_, float32, int32, int64, uint64


def _unary(op_type: str) -> Callable[[Any, Any], Term]:
    def method(_: OnnxAlgebra, x: Term) -> Term:
        return x.node(op_type)

    return method


def _of_floats(op_type: str) -> Callable[[Any, Any], Term]:
    """Return a rounding, which leaves integers as they are."""

    def method(_: OnnxAlgebra, x: Term) -> Term:
        return x.node(op_type) if x.dtype.is_float else x

    return method


class OnnxAlgebra:
    """The intrinsics as nodes of a call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._call.error(f"an op of ONNX for {name}, of which its rule is made, got none")

    def pair(self, x: Any, y: Any) -> tuple[Term, Term]:
        """Return two operands as terms, of which at least one is."""
        like: Term = x if isinstance(x, Term) else y
        return self.term(x, like), self.term(y, like)

    def term(self, x: Any, like: Term) -> Term:
        """Return an operand as a term, a number in the dtype of another."""
        return x if isinstance(x, Term) else Term(self._call, like.of(x))

    # ---- choice and order ----

    def where(self, condition: Any, x: Any, y: Any) -> Term:
        if not isinstance(condition, Term):
            return self.term(x if condition else y, x if isinstance(x, Term) else y)
        like = x if isinstance(x, Term) else y
        value = self._call.emit("Where", condition.value, like.of(x), like.of(y), dtype=like.dtype)
        return Term(self._call, value)

    def minimum(self, x: Any, y: Any) -> Term:
        return self._extreme("Min", x, y)

    def maximum(self, x: Any, y: Any) -> Term:
        return self._extreme("Max", x, y)

    def _extreme(self, op_type: str, x: Any, y: Any) -> Term:
        if isinstance(x, Term):
            return x.node(op_type, y)
        return self.term(x, y).node(op_type, y)

    def exceeds(self, x: Any, y: Any) -> Any:
        x, y = self.pair(x, y)
        if not x.dtype.is_float:
            return x > y
        return (x > y) | (self.isnan(x) & ~self.isnan(y))

    def isnan(self, x: Term) -> Term:
        return x.node("IsNaN", dtype=bool_)

    def isinf(self, x: Term) -> Term:
        return x.node("IsInf", dtype=bool_)

    # ---- conversion ----

    def constant(self, value: Number, dtype: DType) -> Term:
        return Term(self._call, self._call.number(value, dtype))

    def cast(self, x: Any, dtype: DType) -> Term:
        if not isinstance(x, Term):
            return self.constant(x, dtype)
        if x.dtype.is_float and dtype.is_integer:
            return self._truncated(x, dtype)
        return Term(self._call, self._call.cast(x.value, dtype))

    def _truncated(self, x: Term, dtype: DType) -> Term:
        """Return a float as an integer, saturated; ONNX leaves open what does not fit."""
        low, high = int(dtype.lowest), int(dtype.highest)
        inside = (x > float(low)) & (x < float(high))
        whole = Term(self._call, self._call.cast(self.where(inside, x, 0).value, dtype))
        whole = self.where(x >= float(high), self.constant(high, dtype), whole)
        return self.where(x <= float(low), self.constant(low, dtype), whole)

    # ---- sign and rounding ----

    def abs(self, x: Term) -> Term:
        return x if x.dtype.kind == "uint" else x.node("Abs")

    sign = _unary("Sign")
    floor = _of_floats("Floor")
    ceil = _of_floats("Ceil")
    rint = _of_floats("Round")

    def trunc(self, x: Term) -> Term:
        if not x.dtype.is_float:
            return x
        return self.where(x < 0, x.node("Ceil"), x.node("Floor"))

    def signbit(self, x: Term) -> Term:
        # The reciprocal of -0.0 is -inf, and that of NaN compares with nothing.
        return (x < 0) | ((x == 0) & (x.node("Reciprocal") < 0))

    def copysign(self, x: Any, y: Any) -> Term:
        x, y = self.pair(x, y)
        size = x.node("Abs")
        return self.where(self.signbit(y), -size, size)

    # ---- division ----

    def floor_divide(self, x: Any, y: Any) -> Term:
        x, y = self.pair(x, y)
        if x.dtype.is_float:
            return self._floor_of_floats(x, y)
        safe, is_zero = self._divisor(y)
        quotient = x.node("Div", safe)
        if x.dtype.kind == "int":
            rest = x - quotient * safe
            is_above = (rest != 0) & ((rest < 0) ^ (safe < 0))
            quotient = self.where(is_above, quotient - 1, quotient)
        return self.where(is_zero, 0, quotient)

    def _floor_of_floats(self, x: Term, y: Term) -> Term:
        """Return the floor by the remainder: x / y may round up to a whole number."""
        whole = self.rint((x - self.remainder(x, y)) / y)
        is_below = (x != 0) & ((x < 0) ^ (y < 0))
        is_far = self.isinf(y) & ~self.isinf(x) & ~self.isnan(x)
        of_infinity = self.where(is_below, self.constant(-1.0, x.dtype), 0)
        return self.where(y == 0, x / y, self.where(is_far, of_infinity, whole))

    def remainder(self, x: Any, y: Any) -> Term:
        x, y = self.pair(x, y)
        if not x.dtype.is_float:
            safe, is_zero = self._divisor(y)
            return self.where(is_zero, 0, x.node("Mod", safe))
        rest = x.node("Mod", y, fmod=1)
        return self.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)

    def truncated_remainder(self, x: Any, y: Any) -> Any:
        x, y = self.pair(x, y)
        if x.dtype.is_float:
            return x.node("Mod", y, fmod=1)
        safe, is_zero = self._divisor(y)
        return self.where(is_zero, 0, x.node("Mod", safe, fmod=1))

    def _divisor(self, y: Term) -> tuple[Term, Any]:
        """Return an integer divisor with 1 for 0, and where it was 0."""
        if y.value.number:
            return y, False
        is_zero = y == 0
        return self.where(is_zero, 1, y), is_zero

    # ---- powers, exponentials, logarithms ----

    sqrt = _unary("Sqrt")
    exp = _unary("Exp")
    log = _unary("Log")

    def reciprocal(self, x: Term) -> Term:
        return x.node("Reciprocal")

    def rsqrt(self, x: Term) -> Term:
        return x.node("Sqrt").node("Reciprocal")

    def pow(self, x: Any, y: Any) -> Any:
        x, y = self.pair(x, y)
        if x.dtype.is_float:
            return x.node("Pow", y)
        exponent = y.value.number
        if isinstance(exponent, int) and exponent >= 0:
            return self._whole_power(x, exponent)
        # Where the result fits: ONNX leaves open what an overflow is.
        found = x.node("Pow", self.maximum(y, 0))
        if x.dtype.kind == "uint":
            return found
        sign = self.where((y & 1) == 0, self.constant(1, x.dtype), -1)
        inverse = self.where(x == 1, self.constant(1, x.dtype), self.where(x == -1, sign, 0))
        return self.where(y < 0, inverse, found)

    def _whole_power(self, x: Term, exponent: int) -> Term:
        """Return an integer multiplied by itself, by squares, which wraps around."""
        found: Term | None = None
        while exponent:
            if exponent & 1:
                found = x if found is None else found * x
            exponent >>= 1
            if exponent:
                x = x * x
        return x * 0 + 1 if found is None else found

    def exp2(self, x: Term) -> Term:
        return self.term(2, x).node("Pow", x)

    def expm1(self, x: Term) -> Term:
        # Exact to a rounding also near 0: 2 tanh(x / 2) / (1 - tanh(x / 2)).
        half = (x * 0.5).node("Tanh")
        near = (half * 2) / (1 - half)
        return self.where(self.abs(x) < 0.5, near, self.exp(x) - 1)

    def log2(self, x: Term) -> Term:
        return self.log(x) * (1 / math.log(2))

    def log10(self, x: Term) -> Term:
        return self.log(x) * (1 / math.log(10))

    def log1p(self, x: Term) -> Term:
        # Goldberg 1991, theorem 4: log(u) x / (u - 1), whose errors of u cancel.
        u = x + 1
        is_whole = (u == 1) | (u == math.inf)
        rest = self.where(is_whole, 1, u - 1)
        return self.where(is_whole, self.where(u == 1, x, u), self.log(u) * (x / rest))

    def hypot(self, x: Any, y: Any) -> Term:
        x, y = map(self.abs, self.pair(x, y))
        larger, smaller = self.maximum(x, y), self.minimum(x, y)
        # Squares of the quotient neither overflow nor vanish.
        share = smaller / self.where((larger == 0) | self.isinf(larger), 1, larger)
        found = larger * self.sqrt(share * share + 1)
        return self.where(self.isinf(x) | self.isinf(y), math.inf, found)

    # ---- trigonometry ----

    sin = _unary("Sin")
    cos = _unary("Cos")
    tan = _unary("Tan")
    asin = _unary("Asin")
    acos = _unary("Acos")
    atan = _unary("Atan")
    sinh = _unary("Sinh")
    cosh = _unary("Cosh")
    tanh = _unary("Tanh")
    asinh = _unary("Asinh")
    acosh = _unary("Acosh")
    atanh = _unary("Atanh")

    def atan2(self, y: Any, x: Any) -> Term:
        y, x = self.pair(y, x)
        both = self.isinf(x) & self.isinf(y)
        slope = self.where(both, self.sign(y) * self.sign(x), y / x)
        angle = self.atan(self.where((x == 0) & (y == 0), 0, slope))
        turned = self.where(self.signbit(x), self.copysign(math.pi, y), 0)
        aimed = self.where(self.signbit(x), angle + turned, angle)
        # Where y is 0 the sign is that of y, which 0 + pi has lost.
        flat = self.where(self.signbit(x), turned, y)
        return self.where((y == 0) & ~self.isnan(x), flat, aimed)

    # ---- special functions ----

    erf = _unary("Erf")

    ndtr = special.ndtr
    erfinv = special.erfinv
    lgamma = special.lgamma
    digamma = special.digamma
    trigamma = special.trigamma
    nextafter = special.nextafter

    # ---- bits ----

    def shift_left(self, x: Any, n: Any) -> Term:
        x, n = self.pair(x, n)
        width = x.dtype.itemsize * 8
        if x.dtype.kind == "uint":
            return self._kept(x.node("BitShift", n, direction="LEFT"), n < width)
        return self.where((n >= width) | (n < 0), 0, self._shifted(x, n, "LEFT"))

    def _shifted(self, x: Term, n: Term, direction: str) -> Term:
        """Shift signed integers as the unsigned ones of the same bits."""
        wide = [Term(self._call, self._call.cast(t.value, uint64)) for t in (x, n)]
        moved = wide[0].node("BitShift", wide[1], direction=direction)
        low = moved.node("Mod", 1 << (8 * x.dtype.itemsize)) if x.dtype.itemsize < 8 else moved
        return Term(self._call, self._call.cast(self._call.cast(low.value, int64), x.dtype))

    def shift_right(self, x: Any, n: Any) -> Term:
        x, n = self.pair(x, n)
        width = x.dtype.itemsize * 8
        if x.dtype.kind != "uint":
            # The bits of what is not negative are an unsigned number's; of others their inverse is.
            far = self.where((n >= width) | (n < 0), width - 1, n)
            bits = self._shifted(self.where(x < 0, ~x, x), far, "RIGHT")
            return self.where(x < 0, ~bits, bits)
        return self._kept(x.node("BitShift", n, direction="RIGHT"), n < width)

    def _kept(self, bits: Term, is_kept: Term) -> Term:
        """Return unsigned integers where a condition holds, else 0.

        onnxruntime chooses none of 32 and 64 bits by Where, and multiplies none of 8.
        """
        if bits.dtype.itemsize < 4:
            return self.where(is_kept, bits, 0)
        return bits * Term(self._call, self._call.cast(is_kept.value, bits.dtype))

    def popcount(self, x: Term) -> Term:
        """Return how many bits are set: each is asked for along an axis of its own."""
        bits = np.left_shift(1, np.arange(8 * x.dtype.itemsize, dtype=np.uint64))
        last = self._call.axes([-1])
        apart = Term(self._call, self._call.emit("Unsqueeze", x.value, last))
        every = Term(self._call, self._call.array(bits.astype(x.dtype.numpy), x.dtype))
        is_set = self._call.cast(((apart & every) != 0).value, int32)
        counted = self._call.emit("ReduceSum", is_set, last, keepdims=0)
        return Term(self._call, self._call.cast(counted, x.dtype))


def computed(call: Call, rule: Callable[..., Any], attrs: dict[str, Any]) -> Value:
    """Return the result of a scalar rule, written in nodes.

    float16 and bfloat16 are computed in float32 and rounded once, as everywhere in Pyrite.
    """
    algebra = OnnxAlgebra(call)
    operands = [
        None if x is None else Term(call, call.cast(x, x.dtype.compute)) for x in call.inputs
    ]
    found = algebra.term(rule(algebra, *operands, **attrs), _first(operands, call))
    return call.cast(found.value, call.out[0].dtype)


def _first(operands: list[Term | None], call: Call) -> Term:
    found = next((x for x in operands if x is not None), None)
    return found if found is not None else Term(call, call.number(0.0, float32))
