"""Products of matrices."""

from __future__ import annotations

import string

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes


@exports("matmul")
def _matmul(call: Call, x: Value, y: Value) -> Value:
    return call.emit("MatMul", x, y)


@exports("linear", when=lambda types, _: types[0] is not None and types[0].ndim == 2)
def _gemm(call: Call, x: Value, weight: Value, bias: Value | None) -> Value:
    return call.emit("Gemm", x, weight, bias, transB=1)


@exports("linear")
def _linear(call: Call, x: Value, weight: Value, bias: Value | None) -> Value:
    product = call.emit("MatMul", x, call.transpose(weight, (1, 0)))
    return product if bias is None else call.emit("Add", product, bias)


@exports("bilinear", when=lambda types, _: types[0] is not None and types[0].ndim >= 1)
def _bilinear(call: Call, x: Value, y: Value, weight: Value, bias: Value | None) -> Value:
    found = call.emit("Einsum", x, weight, y, equation="...i,oij,...j->...o")
    return found if bias is None else call.emit("Add", found, bias)


def _is_plain(types: Types, attrs: Attributes) -> bool:
    """Whether ONNX's Einsum says the same: letters alone, none of an axis that is stretched."""
    inputs, _, _ = attrs["equation"].replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for letters, type in zip(inputs.split(","), types, strict=True):
        assert type is not None
        if len(letters) != type.ndim or not set(letters) <= set(string.ascii_letters):
            return False
        for letter, size in zip(letters, type.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return False
    return True


@exports("einsum", when=_is_plain)
def _einsum(call: Call, *operands: Value, equation: str) -> Value:
    return call.emit("Einsum", *operands, equation=equation)
