"""Arithmetic, comparisons and casts that ONNX has by another rule than the op's own.

All other elementwise ops are written by their scalar rules, in `pyrite.onnx.exporter.algebra`.
"""

from __future__ import annotations

from typing import Any

from pyrite.onnx.exporter.call import Call, Value, onnx_dtype
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.types import DType, bool_

#: Ops that are one node, in every dtype that both have.
_NODES = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "sqrt": "Sqrt",
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "erf": "Erf",
    "abs": "Abs", "sign": "Sign", "maximum": "Max", "minimum": "Min",
    "reciprocal": "Reciprocal",
}  # fmt: skip

_COMPARISONS = {
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}  # fmt: skip


def _node(name: str, op_type: str) -> None:
    @exports(name)
    def write(call: Call, *inputs: Value) -> Value:
        return call.emit(op_type, *inputs)


def _comparison(name: str, op_type: str) -> None:
    @exports(name)
    def write(call: Call, *inputs: Value) -> Value:
        return call.emit(op_type, *inputs, dtype=bool_)


for _name, _op_type in _NODES.items():
    _node(_name, _op_type)
for _name, _op_type in _COMPARISONS.items():
    _comparison(_name, _op_type)


@exports("pow", when=lambda types, _: types[0] is not None and types[0].dtype.is_float)
def _pow(call: Call, x: Value, y: Value) -> Value:
    return call.emit("Pow", x, y)


@exports("where")
def _where(call: Call, condition: Value, x: Value, y: Value) -> Value:
    if condition.dtype is not bool_:
        condition = call.cast(condition, bool_)
    return call.emit("Where", condition, x, y, dtype=x.dtype)


def _is_plain_cast(types: Types, attrs: Any) -> bool:
    """Whether ONNX's Cast says the same: not of a float to an integer, which is to saturate."""
    source, target = types[0], attrs["dtype"]
    assert source is not None
    return not (source.dtype.is_float and target.is_integer)


@exports("astype", when=_is_plain_cast)
def _astype(call: Call, x: Value, *, dtype: DType, **_: Any) -> Value:
    return call.emit("Cast", x, dtype=dtype, to=onnx_dtype(dtype))


@exports("clip", when=lambda types, attrs: all(t is None or t.ndim == 0 for t in types[1:]))
def _clip(call: Call, x: Value, low: Value | None, high: Value | None) -> Value:
    if x.dtype.is_float:
        # Clip leaves open what becomes of NaN; of NaN Max and Min make NaN.
        clipped = call.emit("Max", x, low) if low else x
        return call.emit("Min", clipped, high) if high else clipped
    return call.emit("Clip", x, low, high)
