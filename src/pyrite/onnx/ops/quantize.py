"""Quantized ops, exactly: sums of integer products in int32, rounding to even, saturation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.onnx.converter import Fixed, converts
from pyrite.onnx.element import BY_NAME, ELEMENTS, Element
from pyrite.onnx.ops.math import converted
from pyrite.onnx.ops.window import padding
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor

Ints = Sequence[int]


def _along(scale: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Return a scale or a zero point in the shape of x: one number, one an index, one a block."""
    if scale.ndim == 0 or (scale.size == 1 and not block_size):
        return scale.reshape(())
    axis %= x.ndim
    if not block_size and scale.ndim == 1:
        return scale.reshape((-1, *(1,) * (x.ndim - axis - 1)))
    if not block_size:
        return scale
    return scale.repeat(block_size, axis).narrow(axis, 0, x.shape[axis])


@converts("QuantizeLinear", since=10)
def quantize_linear(
    call: Call,
    x: Tensor,
    y_scale: Fixed,
    y_zero_point: Fixed | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Return x / scale, rounded to even, plus the zero point, within the bounds of its type."""
    of = call.element(2) if y_zero_point is not None else ELEMENTS.get(output_dtype)
    wanted = of or BY_NAME["uint8"]
    kind = ELEMENTS[precision].carrier if precision else None
    scale = _along(y_scale, x, axis, block_size)
    if kind is not None:
        quotient = x.astype(kind) / scale.astype(kind)
    else:
        quotient = x / scale.astype(x.dtype) if x.dtype.is_float else x.astype(scale.dtype) / scale
    zero = None if y_zero_point is None else _along(y_zero_point, x, axis, block_size)
    return _quantized(call, quotient, zero, wanted)


def _quantized(call: Call, quotient: Tensor, zero: Tensor | None, wanted: Element) -> Tensor:
    carrier = wanted.carrier
    assert carrier is not None, "support.problems refuses what has no carrier"
    if carrier.is_float:
        return converted(call, quotient if zero is None else quotient + zero, wanted)
    low, high = int(wanted.lowest), int(wanted.highest)
    whole = _rounded(quotient)
    whole = whole if zero is None else whole + zero.astype(types.int32)
    return whole.clip(low, high).astype(carrier)


#: Beyond every quantized type, and within int32 with a zero point added.
_FAR = 1 << 24


def _rounded(x: Tensor) -> Tensor:
    """Return x rounded to even as int32; what is far off stays far off, and NaN is 0."""
    wide = x.astype(x.dtype.compute)
    return functions.where(wide.isnan(), 0.0, wide).clip(-_FAR, _FAR).round().astype(types.int32)


@converts("DequantizeLinear", since=10)
def dequantize_linear(
    call: Call,
    x: Tensor,
    x_scale: Fixed,
    x_zero_point: Fixed | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Return (x - zero point) * scale."""
    wanted = ELEMENTS[output_dtype].carrier if output_dtype else x_scale.dtype
    assert wanted is not None, "support.problems refuses what has no carrier"
    whole = x if x.dtype.is_float else x.astype(types.int32)
    if x_zero_point is not None:
        whole = whole - _along(x_zero_point, x, axis, block_size).astype(whole.dtype)
    scale = _along(x_scale, x, axis, block_size)
    wide = whole.astype(types.float32) * scale.astype(types.float32)
    return wide.astype(wanted)


@converts("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x in uint8, with the scale and the zero point that its extrema give."""
    high, low = x.max().clip(0.0, None), x.min().clip(None, 0.0)
    scale = (high - low) / 255.0
    safe = functions.where(scale == 0, 1.0, scale)
    zero = (-low / safe).clip(0.0, 255.0).round()
    y = ((x / safe).round() + zero).clip(0.0, 255.0).astype(types.uint8)
    return y, scale, zero.astype(types.uint8)


def _centred(x: Tensor, zero: Tensor | None, per: str = "") -> Tensor:
    """Return x - zero in int32; ``per`` says which axis a list of zero points goes along."""
    wide = x.astype(types.int32)
    if zero is None:
        return wide
    zero = zero.astype(types.int32)
    if zero.size == 1:
        return wide - zero.reshape(())
    if zero.ndim == 1 and per == "rows":
        zero = zero.reshape((-1, 1))
    if zero.ndim == 1 and per == "channels":
        zero = zero.reshape((-1, *(1,) * (x.ndim - 1)))
    return wide - zero


@converts("MatMulInteger", since=10)
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Fixed | None = None, b_zero_point: Fixed | None = None
) -> Tensor:
    """Return the product of a and b, less their zero points, in int32."""
    return _centred(a, a_zero_point, "rows").matmul(_centred(b, b_zero_point))


@converts("QLinearMatMul", since=10)
def qlinear_matmul(
    call: Call,
    a: Tensor,
    a_scale: Fixed,
    a_zero_point: Fixed,
    b: Tensor,
    b_scale: Fixed,
    b_zero_point: Fixed,
    y_scale: Fixed,
    y_zero_point: Fixed,
) -> Tensor:
    """Return the product of a and b quantized anew."""
    whole = _centred(a, a_zero_point, "rows").matmul(_centred(b, b_zero_point))
    rows = a_scale.reshape((-1, 1)) if a_scale.ndim == 1 and a_scale.size > 1 else a_scale
    return _requantized(call, whole, rows * b_scale, y_scale, y_zero_point, 7)


def _requantized(
    call: Call, whole: Tensor, scale: Tensor, y_scale: Tensor, zero: Tensor, position: int
) -> Tensor:
    factor = scale.astype(types.float32) / y_scale.astype(types.float32)
    wanted = call.element(position) or BY_NAME["uint8"]
    return _quantized(call, whole.astype(types.float32) * factor, zero, wanted)


def _integer_conv(
    x: Tensor, w: Tensor, auto_pad: str, dilations: Ints | None, group: int,
    pads: Ints | None, strides: Ints | None,
) -> Tensor:  # fmt: skip
    """Return the convolution of int32 tensors, a sum of products for each tap of the window."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    sides = padding(x.shape[2:], w.shape[2:], stride, dilation, auto_pad, pads)
    padded = x.pad(((0, 0), (0, 0), *sides))
    counts = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], w.shape[2:], stride, dilation, strict=True)
    ]
    n, groups = x.shape[0], group
    total: Any = None
    for tap in np.ndindex(*w.shape[2:]):
        taken = tuple(
            slice(t * d, t * d + (c - 1) * s + 1, s)
            for t, d, c, s in zip(tap, dilation, counts, stride, strict=True)
        )
        seen = padded[(slice(None), slice(None), *taken)].reshape(
            (n, groups, -1, int(np.prod(counts)))
        )
        weights = w[(slice(None), slice(None), *tap)].reshape((groups, -1, w.shape[1]))
        product = weights.matmul(seen)
        total = product if total is None else total + product
    found: Tensor = total.reshape((n, w.shape[0], *counts))
    return found


@converts("ConvInteger", since=10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Fixed | None = None,
    w_zero_point: Fixed | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the convolution of x and w, less their zero points, in int32."""
    x, w = _centred(x, x_zero_point), _centred(w, w_zero_point, "channels")
    return _integer_conv(x, w, auto_pad, dilations, group, pads, strides)


@converts("QLinearConv", since=10)
def qlinear_conv(
    call: Call,
    x: Tensor,
    x_scale: Fixed,
    x_zero_point: Fixed,
    w: Tensor,
    w_scale: Fixed,
    w_zero_point: Fixed,
    y_scale: Fixed,
    y_zero_point: Fixed,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the convolution of x and w quantized anew; the bias has the scale of both."""
    centred = _centred(x, x_zero_point), _centred(w, w_zero_point, "channels")
    whole = _integer_conv(*centred, auto_pad, dilations, group, pads, strides)
    per_channel = (-1, *(1,) * (x.ndim - 2))
    if b is not None:
        whole = whole + b.reshape(per_channel)
    scale = w_scale.reshape(per_channel if w_scale.size > 1 else ())
    return _requantized(
        call, whole, x_scale.reshape(()) * scale, y_scale.reshape(()), y_zero_point.reshape(()), 7
    )
