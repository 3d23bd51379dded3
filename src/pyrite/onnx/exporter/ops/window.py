"""What slides over (N, C, *sizes): convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.ops.movement import sliced
from pyrite.onnx.exporter.registry import exports
from pyrite.onnx.exporter.size import Size, Varying, size_of, values_of
from pyrite.tensor.window import extent
from pyrite.types import int32, int64

#: Elements before and after each axis.
Pairs = Sequence[tuple[Size, Size]]


def _pads(call: Call, padding: Pairs) -> list[int]:
    """Return what lies before all axes, then after all."""
    ends = [*(before for before, _ in padding), *(after for _, after in padding)]
    return list(call.static("a padding", ends))


@exports("conv1d", "conv2d", "conv3d")
def _conv(
    call: Call,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
    groups: int,
) -> Value:
    kernel = call.static("a kernel", weight.shape[2:])
    return call.emit(
        "Conv", x, weight, bias,
        kernel_shape=list(kernel), strides=list(stride), dilations=list(dilation), group=groups,
        **_padding(call, x, padding, kernel, stride, dilation),
    )  # fmt: skip


def _padding(
    call: Call,
    x: Value,
    padding: Pairs,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> dict[str, Any]:
    """Return the padding of a convolution; "same" by name where its elements vary."""
    if not any(isinstance(size, Varying) for size in chain(*padding)):
        return {"pads": _pads(call, padding)}
    axes = zip(x.shape[2:], padding, kernel, stride, dilation, strict=True)
    if all(_is_same(n, pair, k, s, d) for n, pair, k, s, d in axes):
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": _pads(call, padding)}


def _is_same(n: Size, pair: tuple[Size, Size], k: int, stride: int, dilation: int) -> bool:
    """Whether a padding gives ceil(n / stride) positions, the odd element after."""
    count = _points(n, *pair)
    totals = [
        max((-(-size // stride) - 1) * stride + extent(k, dilation) - size, 0)
        for size in values_of(n, count)
    ]
    return pair == (size_of([t // 2 for t in totals]), size_of([t - t // 2 for t in totals]))


@exports("convolution")
def _convolution(
    call: Call, x: Value, weight: Value, *,
    stride: Sequence[int], padding: Pairs, dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    return _conv(
        call, x, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


@exports("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    call: Call,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    stride: Sequence[int],
    padding: Pairs,
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    return call.emit(
        "ConvTranspose", x, weight, bias,
        kernel_shape=list(call.static("a kernel", weight.shape[2:])), strides=list(stride),
        pads=_pads(call, padding), output_padding=list(output_padding), dilations=list(dilation),
        group=groups,
    )  # fmt: skip


@exports("convolution_input_gradient")
def _input_gradient(
    call: Call, g: Value, weight: Value, *, sizes: Sequence[Size], stride: Sequence[int],
    padding: Pairs, dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """Write a transposed convolution, whose output_padding adds what the stride left over."""
    axes = zip(sizes, g.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    extra = [
        n - ((m - 1) * s - before - after + extent(k, d)) for n, m, k, s, (before, after), d in axes
    ]
    return _conv_transpose(
        call, g, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups,
        output_padding=call.static("a size", extra),
    )  # fmt: skip


@exports("max_pool")
def _max_pool(call: Call, x: Value, **windows: Any) -> Value:
    return _maximum(call, x, **windows)[0]


def _maximum(
    call: Call,
    x: Value,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
    ceil_mode: bool,
    outputs: int = 1,
) -> tuple[Value, ...]:
    found = call.emit_many(
        "MaxPool", (x,), (x.dtype, int64)[:outputs],
        kernel_shape=list(kernel_size), strides=list(stride), pads=_pads(call, padding),
        dilations=list(dilation), ceil_mode=int(ceil_mode),
    )  # fmt: skip
    return _counted(call, found, x, kernel_size, stride, padding, dilation, ceil_mode)


def _counted(
    call: Call,
    found: tuple[Value, ...],
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Value, ...]:
    """Return pools without the windows that begin beyond the input.

    Until opset 22 ONNX's text counted them with ceil_mode, and runtimes do so or do not.
    """
    counts = call.out[0].shape[2:]
    axes = zip(x.shape[2:], kernel_size, stride, padding, dilation, counts, strict=True)
    if not ceil_mode or all(_has_all_windows(*axis) for axis in axes):
        return found
    size = (*x.shape[:2], *counts)
    larger = (*x.shape[:2], *(n + 1 for n in counts))
    rank = len(size)
    return tuple(
        sliced(call, Value(v.name, v.dtype, larger), (0,) * rank, size, (1,) * rank) for v in found
    )


def _has_all_windows(
    n: Size, k: int, stride: int, pair: tuple[int, int], dilation: int, count: Size
) -> bool:
    """Whether there are as many windows as the size, rounded up, has room for."""
    points = _points(n, count)
    room = [size + sum(pair) - extent(k, dilation) for size in values_of(n, points)]
    return [-(-r // stride) + 1 for r in room] == list(values_of(count, points))


@exports("max_pool_with_indices")
def _max_pool_with_indices(call: Call, x: Value, **windows: Any) -> tuple[Value, Value]:
    values, places = _maximum(call, x, outputs=2, **windows)
    # ONNX counts over the whole tensor, Pyrite over the spatial axes of each channel.
    area = call.array([1], int64)
    for size in x.shape[2:]:
        area = call.emit("Mul", area, call.integers((size,)))
    return values, call.cast(call.emit("Mod", places, area), int32)


@exports("avg_pool", when=lambda _, attrs: not attrs["ceil_mode"])
def _avg_pool(
    call: Call,
    x: Value,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Value:
    return call.emit(
        "AveragePool", x,
        kernel_shape=list(kernel_size), strides=list(stride), pads=_pads(call, padding),
        count_include_pad=int(count_include_pad),
    )  # fmt: skip


@exports("avg_pool")
def _avg_pool_beyond(
    call: Call,
    x: Value,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Value:
    """Divide the mean of padded windows by the share of elements that count in them.

    Windows may pass the end of the padding, and runtimes disagree about what counts there.
    """
    sizes, counts = x.shape[2:], call.out[0].shape[2:]
    axes = zip(sizes, kernel_size, stride, padding, counts, strict=True)
    beyond = [
        _at_least_zero((count - 1) * s + k - (n + before + after))
        for n, k, s, (before, after), count in axes
    ]
    one, zero = call.number(1, x.dtype), call.number(0, x.dtype)
    counted = call.emit("Expand", one, call.integers((1, 1, *sizes)))
    inside = call.integers([0, 0, *(b for b, _ in padding), 0, 0, *(a for _, a in padding)])
    outside = call.integers([*(0,) * (len(sizes) + 4), *beyond])

    def mean(values: Value, padding_value: Value) -> Value:
        padded = call.emit("Pad", call.emit("Pad", values, inside, padding_value), outside, zero)
        return call.emit(
            "AveragePool", padded, kernel_shape=list(kernel_size), strides=list(stride)
        )

    return call.emit("Div", mean(x, zero), mean(counted, one if count_include_pad else zero))


def _at_least_zero(size: Size) -> Size:
    return size_of([max(n, 0) for n in values_of(size, _points(size))])


def _points(*sizes: Size) -> int:
    """Return at how many traces some of the sizes are known."""
    return max((len(s.values) for s in sizes if isinstance(s, Varying)), default=1)


# ---- columns ----


@exports("unfold4d")
def _unfold4d(
    call: Call, x: Value, *, kernel_size: Sequence[int], stride: Sequence[int], padding: Pairs,
    dilation: Sequence[int],
) -> Value:  # fmt: skip
    """Convolve each channel with kernels that have a single 1: one for each element of a window."""
    (channels,) = call.static("a number of channels", x.shape[1:2])
    taps = kernel_size[0] * kernel_size[1]
    kernels = np.eye(taps).reshape(taps, 1, *kernel_size)
    found = call.emit(
        "Conv", x, call.array(np.tile(kernels, (channels, 1, 1, 1)), x.dtype),
        kernel_shape=list(kernel_size), strides=list(stride), dilations=list(dilation),
        pads=_pads(call, padding), group=channels,
    )  # fmt: skip
    return call.emit("Reshape", found, call.axes((0, channels * taps, -1)))


@exports("fold4d")
def _fold4d(
    call: Call, x: Value, *, output_size: Sequence[Size], kernel_size: Sequence[int],
    stride: Sequence[int], padding: Pairs, dilation: Sequence[int],
) -> Value:  # fmt: skip
    return call.emit(
        "Col2Im", x, call.integers(output_size), call.axes(kernel_size),
        strides=list(stride), dilations=list(dilation), pads=_pads(call, padding),
    )  # fmt: skip
