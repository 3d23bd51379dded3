"""Activation functions that ONNX has; the others are written by their rules and bodies."""

from __future__ import annotations

from typing import Any

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports


def _node(name: str, op_type: str, since_opset: int = 18) -> None:
    @exports(name, since_opset=since_opset)
    def write(call: Call, x: Value) -> Value:
        return call.emit(op_type, x)


for _name, _op_type in {
    "relu": "Relu", "sigmoid": "Sigmoid", "hard_swish": "HardSwish", "mish": "Mish",
    "softsign": "Softsign",
}.items():  # fmt: skip
    _node(_name, _op_type)


@exports("silu", since_opset=24)
def _swish(call: Call, x: Value) -> Value:
    return call.emit("Swish", x)


@exports("silu")
def _silu(call: Call, x: Value) -> Value:
    return call.emit("Mul", x, call.emit("Sigmoid", x))


@exports("gelu", since_opset=20)
def _gelu(call: Call, x: Value, *, approximate: str) -> Value:
    return call.emit("Gelu", x, approximate=approximate)


@exports("softplus", when=lambda types, attrs: attrs["beta"] == 1)
def _softplus(call: Call, x: Value, *, beta: float) -> Value:
    return call.emit("Softplus", x)


@exports("leaky_relu")
def _leaky_relu(call: Call, x: Value, *, negative_slope: float) -> Value:
    return call.emit("LeakyRelu", x, alpha=float(negative_slope))


@exports("elu")
def _elu(call: Call, x: Value, *, alpha: float) -> Value:
    return call.emit("Elu", x, alpha=float(alpha))


@exports("celu", when=lambda types, attrs: attrs["alpha"] > 0)
def _celu(call: Call, x: Value, *, alpha: float) -> Value:
    return call.emit("Celu", x, alpha=float(alpha))


def _has_one_channel_axis(types: Types, attrs: Any) -> bool:
    x, weight = types
    assert x is not None
    assert weight is not None
    return x.ndim >= 2 and weight.ndim == 1 and x.dtype.is_float


@exports("prelu", when=_has_one_channel_axis)
def _prelu(call: Call, x: Value, weight: Value) -> Value:
    slope = call.reshape(weight, (*weight.shape, *(1,) * (x.ndim - 2)))
    return call.emit("PRelu", x, slope)


@exports("softmax")
def _softmax(call: Call, x: Value, *, axis: int) -> Value:
    return call.emit("Softmax", x, axis=axis)


@exports("log_softmax")
def _log_softmax(call: Call, x: Value, *, axis: int) -> Value:
    return call.emit("LogSoftmax", x, axis=axis)
