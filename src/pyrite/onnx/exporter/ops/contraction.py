"""Products of matrices."""

from __future__ import annotations

import string

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import exports


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


def _is_plain(equation: str) -> bool:
    """Whether an equation has letters alone: of ellipses that stretch, shape inference errs."""
    letters = equation.replace("->", "").replace(",", "").replace(" ", "")
    return all(c in string.ascii_letters for c in letters)


@exports("einsum", when=lambda types, attrs: _is_plain(attrs["equation"]))
def _einsum(call: Call, *operands: Value, equation: str) -> Value:
    return call.emit("Einsum", *operands, equation=equation)
