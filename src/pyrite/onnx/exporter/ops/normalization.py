"""Norms that ONNX has; over other axes they are written by their bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes


def _over_last_axes(types: Types, attrs: Attributes) -> bool:
    """Whether the axes are the last ones, in order, and the sizes known to be no surprise."""
    x, axis = types[0], attrs["axis"]
    assert x is not None
    return bool(axis) and tuple(axis) == tuple(range(x.ndim - len(axis), x.ndim))


def _weight_or_ones(call: Call, x: Value, weight: Value | None, axis: Sequence[int]) -> Value:
    """Return the scale, which ONNX does not leave out."""
    if weight is not None:
        return weight
    sizes = call.static("a size of the normalised axes", [x.shape[a] for a in axis])
    return call.array(np.ones(sizes), x.dtype)


@exports("layer_norm", when=_over_last_axes)
def _layer_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, *,
    axis: Sequence[int], eps: float,
) -> Value:  # fmt: skip
    scale = _weight_or_ones(call, x, weight, axis)
    return call.emit("LayerNormalization", x, scale, bias, axis=-len(axis), epsilon=eps)


@exports("rms_norm", since_opset=23, when=_over_last_axes)
def _rms_norm(
    call: Call, x: Value, weight: Value | None, *, axis: Sequence[int], eps: float
) -> Value:
    scale = _weight_or_ones(call, x, weight, axis)
    return call.emit("RMSNormalization", x, scale, axis=-len(axis), epsilon=eps)


@exports("batch_norm_inference")
def _batch_norm(
    call: Call, x: Value, mean: Value, variance: Value, weight: Value | None, bias: Value | None,
    *, eps: float,
) -> Value:  # fmt: skip
    channels = call.static("a number of channels", mean.shape)
    scale = weight or call.array(np.ones(channels), x.dtype)
    shift = bias or call.array(np.zeros(channels), x.dtype)
    return call.emit("BatchNormalization", x, scale, shift, mean, variance, epsilon=eps)


def _is_grouped_in_space(types: Types, attrs: Attributes) -> bool:
    assert types[0] is not None
    return types[0].ndim >= 3


@exports("group_norm", since_opset=21, when=_is_grouped_in_space)
def _group_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, *, num_groups: int, eps: float
) -> Value:
    channels = call.static("a number of channels", x.shape[1:2])
    scale = weight or call.array(np.ones(channels), x.dtype)
    shift = bias or call.array(np.zeros(channels), x.dtype)
    return call.emit("GroupNormalization", x, scale, shift, num_groups=num_groups, epsilon=eps)


def _is_image(types: Types, attrs: Attributes) -> bool:
    """Whether x is (N, C, H, W), which is all that onnxruntime takes."""
    assert types[0] is not None
    return types[0].ndim == 4


@exports("local_response_norm", when=_is_image)
def _local_response_norm(
    call: Call, x: Value, *, size: int, alpha: float, beta: float, k: float
) -> Value:
    return call.emit("LRN", x, size=size, alpha=float(alpha), beta=float(beta), bias=float(k))
