"""Convolutions and pools: ONNX's padding in Pyrite's form, and what Pyrite has no pool for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import ShapeError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Fixed, Host, converts
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import element_count

Ints = Sequence[int]
Pairs = tuple[tuple[int, int], ...]


def pairs(pads: Ints | None, rank: int) -> Pairs:
    """Return (before, after) for each axis, of ONNX's list of all befores and all afters."""
    if pads is None:
        return ((0, 0),) * rank
    return tuple((int(pads[i]), int(pads[i + rank])) for i in range(rank))


def padding(
    sizes: Ints, kernel: Ints, strides: Ints, dilations: Ints, auto_pad: str, pads: Ints | None
) -> Pairs:
    """Return the padding of windows over axes of these sizes, for each way to name it."""
    if auto_pad == "VALID":
        return ((0, 0),) * len(sizes)
    if auto_pad in ("NOTSET", ""):
        found = pairs(pads, len(sizes))
        whole = (n + max(sum(pair), 0) for n, pair in zip(sizes, found, strict=True))
        require_bounded("a padding", tuple(whole), element_count(tuple(sizes)))
        return found
    same = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        small, large = total // 2, total - total // 2
        same.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return tuple(same)


# ---- convolutions ----


@converts("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the cross-correlation of x with w: (N, C, *S), (O, C/group, *K) -> (N, O, *S')."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pad = padding(x.shape[2:], w.shape[2:], stride, dilation, auto_pad, pads)
    named = {1: functions.conv1d, 2: functions.conv2d, 3: functions.conv3d}.get(rank)
    if named is None:
        raise ShapeError(f"Conv requires x of 3 to 5 axes, got {x.shape}")
    given = (x, w) if b is None else (x, w, b)
    found: Tensor = named(*given, stride=stride, padding=pad, dilation=dilation, groups=group)
    return found


@converts("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the transposed convolution: (N, C, *S), (C, O/group, *K) -> (N, O, *S')."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    extra = list(output_padding or (0,) * rank)
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * s for size, s in zip(x.shape[2:], stride, strict=True)]
    sides = list(padding(x.shape[2:], w.shape[2:], stride, dilation, "NOTSET", pads))
    for axis in range(rank if output_shape is not None else 0):
        span = stride[axis] * (x.shape[2 + axis] - 1) + dilation[axis] * (w.shape[2 + axis] - 1)
        total = span + 1 + extra[axis] - output_shape[axis - rank]  # type: ignore[index]
        small, large = total // 2, total - total // 2
        sides[axis] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    return _conv_transpose(x, w, b, stride, sides, extra, dilation, group)


def _conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None, stride: Ints, sides: Any, extra: Ints, dilation: Ints,
    group: int,
) -> Tensor:  # fmt: skip
    """Run it without padding where a side is negative, or the extra no less than the stride."""
    named: Any = [
        functions.conv_transpose1d,
        functions.conv_transpose2d,
        functions.conv_transpose3d,
    ]
    function = named[x.ndim - 3]
    given = (x, w) if b is None else (x, w, b)
    shared = {"stride": stride, "dilation": dilation, "groups": group}
    fits = all(min(side) >= 0 for side in sides) and all(
        e < max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)
    )
    if fits:
        found: Tensor = function(
            *given, padding=tuple(sides), output_padding=tuple(extra), **shared
        )
        return found
    whole = function(*(x, w), padding=0, output_padding=0, **shared)
    for axis, ((before, after), more) in enumerate(zip(sides, extra, strict=True), 2):
        grown = [(0, 0)] * whole.ndim
        grown[axis] = (max(-before, 0), max(more - after, 0))
        whole = whole.pad(grown)
        start, cut = max(before, 0), max(after - more, 0)
        whole = whole.narrow(axis, start, whole.shape[axis] - start - cut)
    return whole if b is None else whole + b.reshape((-1, *(1,) * (x.ndim - 2)))


@converts("Col2Im", since=18)
def col2im(
    x: Tensor,
    image_shape: Host,
    block_shape: Host,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return columns summed at the places they were taken from: (N, C block, L) -> (N, C, *S)."""
    image, block = image_shape.tolist(), block_shape.tolist()
    require_bounded("Col2Im", (*x.shape[:1], *image), x.size)
    rank = len(image)
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    sides = pairs(pads, rank)
    counts = [
        (size + sum(side) - d * (k - 1) - 1) // s + 1
        for size, side, k, s, d in zip(image, sides, block, stride, dilation, strict=True)
    ]
    channels = x.shape[1] // element_count(block)
    columns = x.reshape((x.shape[0], channels, -1))
    place, inside = _column_places(image, block, counts, stride, dilation, sides)
    index = functions.tensor(np.where(inside, place, element_count(image)), device=x.device)
    flat = functions.zeros((x.shape[0], channels, element_count(image) + 1), dtype=x.dtype,
                        device=x.device)  # fmt: skip
    summed = flat.scatter(2, index.broadcast_to(columns.shape), columns, reduction="add")
    return summed.narrow(2, 0, element_count(image)).reshape((x.shape[0], channels, *image))


def _column_places(
    image: Ints, block: Ints, counts: Ints, stride: Ints, dilation: Ints, sides: Pairs
) -> tuple[Any, Any]:
    """Return the flat place in the image of each element of the columns, and which lie inside."""
    rank = len(image)
    place, inside = np.zeros((1,) * 2 * rank, np.int32), np.ones((1,) * 2 * rank, bool)
    for axis in range(rank):
        taps = np.arange(block[axis], dtype=np.int32) * dilation[axis] - sides[axis][0]
        steps = np.arange(counts[axis], dtype=np.int32) * stride[axis]
        at = taps.reshape([-1 if a == axis else 1 for a in range(2 * rank)])
        at = at + steps.reshape([-1 if a == rank + axis else 1 for a in range(2 * rank)])
        place = place * image[axis] + at
        inside = inside & (at >= 0) & (at < image[axis])
    shape = (*block, *counts)
    return np.broadcast_to(place, shape).reshape(-1), np.broadcast_to(inside, shape).reshape(-1)


# ---- pools ----


@converts("MaxPool")
def max_pool(
    call: Call,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> tuple[Tensor, ...]:
    """Return the greatest element of each window, and its place in the whole tensor."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pad = padding(x.shape[2:], kernel_shape, stride, dilation, auto_pad, pads)
    window = (tuple(kernel_shape), stride, pad, dilation)
    if not call.has_output(1):
        return (x.max_pool(*window, ceil_mode=bool(ceil_mode)),)
    values, places = x.max_pool_with_indices(*window, ceil_mode=bool(ceil_mode))
    places = places.astype(call.dtype(types.int64))
    if storage_order:
        places = _in_column_order(places, x.shape[2:])
    image = element_count(x.shape[2:])
    images = functions.arange(x.shape[0] * x.shape[1], device=x.device).astype(places.dtype) * image
    return values, places + images.reshape((*x.shape[:2], *(1,) * rank))


def _in_column_order(places: Tensor, sizes: Ints) -> Tensor:
    """Return flat places as they are where the first axis varies fastest."""
    found, step = functions.zeros_like(places), element_count(sizes)
    for size in reversed(sizes):
        step //= size
        found = found + places.remainder(size) * step
        places = places.floor_divide(size)
    return found


@converts("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the mean of each window, with or without the padding in it."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pad = padding(x.shape[2:], kernel_shape, stride, dilation, auto_pad, pads)
    if all(d == 1 for d in dilation):
        return x.avg_pool(
            tuple(kernel_shape), stride, pad,
            ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad),
        )  # fmt: skip
    total = _window_sums(x, kernel_shape, stride, pad, dilation, ceil_mode)
    counted = functions.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
    if count_include_pad:
        counted = counted.pad(((0, 0), (0, 0), *pad), value=1)
        pad = ((0, 0),) * rank
    return total / _window_sums(counted, kernel_shape, stride, pad, dilation, ceil_mode)


def _window_sums(
    x: Tensor, kernel: Ints, stride: Ints, pad: Pairs, dilation: Ints, ceil_mode: int
) -> Tensor:
    """Return the sum of each window, channel by channel."""
    n, c = x.shape[:2]
    sides = _with_ceiling(x.shape[2:], kernel, stride, pad, dilation) if ceil_mode else pad
    ones = functions.ones((1, 1, *kernel), dtype=x.dtype, device=x.device)
    one_channel = x.reshape((n * c, 1, *x.shape[2:]))
    summed = one_channel.convolution(ones, stride=stride, padding=sides, dilation=dilation)
    return summed.reshape((n, c, *summed.shape[2:]))


def _with_ceiling(sizes: Ints, kernel: Ints, stride: Ints, pad: Pairs, dilation: Ints) -> Pairs:
    """Return padding for one more window where the last does not fit, if it starts inside."""
    found = []
    for size, k, s, (before, after), d in zip(sizes, kernel, stride, pad, dilation, strict=True):
        span = d * (k - 1) + 1
        count = -(-(size + before + after - span) // s) + 1
        if (count - 1) * s >= size + before:
            count -= 1
        found.append((before, max((count - 1) * s + span - size - before, after)))
    return tuple(found)


@converts("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    p: float = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the p-norm of each window."""
    rank = x.ndim - 2
    stride, dilation = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pad = padding(x.shape[2:], kernel_shape, stride, dilation, auto_pad, pads)
    powers = x.abs().pow(float(p))
    return _window_sums(powers, kernel_shape, stride, pad, dilation, ceil_mode).pow(1.0 / p)


@converts("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """Return the mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


@converts("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """Return the greatest element of each channel."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@converts("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """Return the p-norm of each channel."""
    return x.abs().pow(float(p)).sum(tuple(range(2, x.ndim)), keepdims=True).pow(1.0 / p)


@converts("MaxUnpool", since=9)
def max_unpool(
    x: Tensor,
    indices: Fixed,
    output_shape: Host | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return zeros but for the elements of x, each at its index in the unpooled tensor."""
    rank = x.ndim - 2
    stride = strides or [1] * rank
    sizes = [
        (size - 1) * s - sum(side) + k
        for size, s, side, k in zip(
            x.shape[2:], stride, pairs(pads, rank), kernel_shape, strict=True
        )
    ]
    shape = (*x.shape[:2], *sizes)
    flat = functions.zeros((element_count(shape),), dtype=x.dtype, device=x.device)
    made = flat.scatter(0, indices.reshape((-1,)), x.reshape((-1,))).reshape(shape)
    if output_shape is None:
        return made
    return made.pad([(0, int(w) - s) for w, s in zip(output_shape, shape, strict=True)])
