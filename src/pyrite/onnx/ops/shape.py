"""Ops that make tensors, or move their elements: shapes, joins, slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import ShapeError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Fixed, Host, Value, converts
from pyrite.onnx.element import ELEMENTS
from pyrite.onnx.graph import Weight
from pyrite.onnx.host import integer
from pyrite.onnx.program import HOST_LIMIT, Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, broadcast, element_count

# ---- shapes, which are arrays of the host ----


@converts("Shape")
def shape(data: Value, *, start: int = 0, end: int | None = None) -> Array:
    """Return the sizes of the axes from start to end."""
    return np.array(data.shape[start:end], np.int64)


@converts("Size")
def size(data: Value) -> Array:
    """Return the number of elements."""
    return np.array(element_count(data.shape), np.int64)


@converts("Identity")
def identity(x: Value) -> Any:
    """Return x."""
    return x


@converts("ConstantOfShape", since=9)
def constant_of_shape(call: Call, shape: Host, *, value: Weight | None = None) -> Any:
    """Return a tensor of a shape, full of one value."""
    fill = np.zeros(1, np.float32) if value is None else value.read()
    sizes = _sizes(shape)
    require_bounded("ConstantOfShape", sizes)
    if call.may_stay and element_count(sizes) <= HOST_LIMIT and fill.dtype.kind != "f":
        return np.full(sizes, fill.reshape(-1)[0], fill.dtype)
    return _filled(call, sizes, fill)


def _filled(call: Call, sizes: Sequence[int], fill: Array) -> Tensor:
    kind = call.dtype(types.dtype(fill.dtype))
    return functions.full(tuple(sizes), fill.reshape(-1)[0].item(), dtype=kind, device=call.device)


def _sizes(shape: Array) -> tuple[int, ...]:
    sizes = tuple(int(s) for s in np.asarray(shape).reshape(-1))
    if any(s < 0 for s in sizes):
        raise ShapeError(f"a shape requires sizes of at least 0, got {sizes}")
    return sizes


@converts("Range", since=11)
def range_(call: Call, start: Host, limit: Host, delta: Host) -> Any:
    """Return start, start + delta, … before limit."""
    start, limit, delta = (bound.reshape(()) for bound in (start, limit, delta))
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    kind = start.dtype
    require_bounded("Range", (count,))
    if call.may_stay and count <= HOST_LIMIT:
        return (start + np.arange(count).astype(kind) * delta).astype(kind).reshape(-1)
    steps = functions.arange(count, device=call.device).astype(call.dtype(types.dtype(kind)))
    scaled = steps if delta.item() == 1 else steps * delta.item()
    return scaled if start.item() == 0 else scaled + start.item()


@converts("EyeLike", since=9)
def eye_like(call: Call, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return ones on a diagonal, in the shape of x."""
    carrier = x.dtype if dtype is None else ELEMENTS[dtype].carrier
    assert carrier is not None, "support.problems refuses what has no carrier"
    rows, columns = x.shape
    return functions.eye(rows, columns, k=k, device=x.device).astype(call.dtype(carrier))


# ---- movement ----


@converts("Reshape", since=5)
def reshape(data: Tensor, shape: Host, *, allowzero: int = 0) -> Tensor:
    """Return the elements in another shape: -1 is what is left, 0 the size of the same axis."""
    return _reshaped(data, shape.reshape(-1).tolist(), allowzero)


@converts("Reshape", since=1)
def reshape_1(data: Tensor, *, shape: Sequence[int]) -> Tensor:
    """Return the elements in another shape."""
    return _reshaped(data, shape, 0)


def _reshaped(data: Tensor, shape: Sequence[int], allowzero: int) -> Tensor:
    if not allowzero:
        shape = [data.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    if -1 in shape and 0 in shape:
        # Pyrite refuses to find a size where there are no elements, and ONNX means 0.
        shape = [0 if size == -1 else size for size in shape]
    return data.reshape(tuple(shape))


@converts("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return a matrix: the axes before ``axis``, and those from it on."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((element_count(x.shape[:axis]), element_count(x.shape[axis:])))


@converts("Squeeze", since=13)
def squeeze(data: Tensor, axes: Host | None = None) -> Tensor:
    """Return the tensor without axes of size 1: those named, or all."""
    return _squeezed(data, None if axes is None else axes.reshape(-1).tolist())


@converts("Squeeze", since=1)
def squeeze_1(data: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """Return the tensor without axes of size 1: those named, or all."""
    return _squeezed(data, axes)


def _squeezed(data: Tensor, axes: Sequence[int] | None) -> Tensor:
    if axes is None:
        axes = [axis for axis, size in enumerate(data.shape) if size == 1]
    return data.squeeze(tuple(axes)) if axes else data


@converts("Unsqueeze", since=13)
def unsqueeze(data: Tensor, axes: Host) -> Tensor:
    """Return the tensor with axes of size 1 at these places of the result."""
    return _unsqueezed(data, axes.reshape(-1).tolist())


@converts("Unsqueeze", since=1)
def unsqueeze_1(data: Tensor, *, axes: Sequence[int]) -> Tensor:
    """Return the tensor with axes of size 1 at these places of the result."""
    return _unsqueezed(data, axes)


def _unsqueezed(data: Tensor, axes: Sequence[int]) -> Tensor:
    rank = data.ndim + len(axes)
    added = {axis % rank for axis in axes}
    rest = iter(data.shape)
    return data.reshape(tuple(1 if axis in added else next(rest) for axis in range(rank)))


@converts("Transpose")
def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """Return the tensor with its axes in another order; reversed if none is given."""
    return data.permute_dims(tuple(perm) if perm is not None else tuple(range(data.ndim))[::-1])


@converts("Expand", since=8)
def expand(x: Tensor, shape: Host) -> Tensor:
    """Return x broadcast with a shape: sizes of 1 on either side give way."""
    sizes = broadcast("Expand", x.shape, _sizes(shape))
    require_bounded("Expand", sizes, x.size)
    return x.broadcast_to(sizes)


@converts("Tile", since=6)
def tile(x: Tensor, repeats: Host) -> Tensor:
    """Return x repeated along each axis."""
    return _tiled(x, _sizes(repeats))


@converts("Tile", since=1)
def tile_1(x: Tensor, tiles: Host, axis: Host) -> Tensor:
    """Return x repeated along one axis."""
    at = integer(axis) % x.ndim
    return _tiled(x, tuple(integer(tiles) if a == at else 1 for a in range(x.ndim)))


def _tiled(x: Tensor, repeats: tuple[int, ...]) -> Tensor:
    require_bounded("Tile", (x.size, *repeats), x.size)
    return x.tile(repeats)


@converts("Concat", since=4)
def concat(*xs: Tensor, axis: int) -> Tensor:
    """Return the operands one after the other along an axis."""
    return functions.concat(list(xs), axis)


@converts("Concat", since=1)
def concat_1(*xs: Tensor, axis: int = 1) -> Tensor:
    """Return the operands one after the other along an axis."""
    return functions.concat(list(xs), axis)


@converts("Split", since=13)
def split(
    call: Call,
    x: Tensor,
    split: Host | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    """Return pieces of x along an axis: of the sizes given, or equal but for the last."""
    sizes = None if split is None else split.reshape(-1).tolist()
    return _split(x, axis, sizes, num_outputs or len(call.node.outputs))


@converts("Split", since=2)
def split_2(
    call: Call, x: Tensor, *, axis: int = 0, split: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """Return pieces of x along an axis: of the sizes given, or equal."""
    return _split(x, axis, split, len(call.node.outputs))


@converts("Split", since=1)
def split_1(
    call: Call,
    x: Tensor,
    sizes: Host | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Return pieces of x along an axis; the sizes are an operand or an attribute."""
    given = split if sizes is None else sizes.reshape(-1).tolist()
    return _split(x, axis, given, len(call.node.outputs))


def _split(x: Tensor, axis: int, sizes: Sequence[int] | None, count: int) -> tuple[Tensor, ...]:
    axis %= x.ndim
    if sizes is None:
        each = -(-x.shape[axis] // count)
        sizes = [max(min(each, x.shape[axis] - each * i), 0) for i in range(count)]
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    return tuple(x.narrow(axis, start, size) for start, size in zip(starts, sizes, strict=True))


@converts("Slice", since=10)
def slice_(
    data: Tensor,
    starts: Host,
    ends: Host,
    axes: Host | None = None,
    steps: Host | None = None,
) -> Tensor:
    """Return pieces along axes, as Python's slices; what is past an end is cut off."""
    at = range(len(starts)) if axes is None else axes.tolist()
    by = [1] * len(starts) if steps is None else steps.tolist()
    return _sliced(data, starts.tolist(), ends.tolist(), list(at), by)


@converts("Slice", since=1)
def slice_1(
    data: Tensor, *, axes: Sequence[int] | None = None, ends: Sequence[int], starts: Sequence[int]
) -> Tensor:
    """Return pieces along axes."""
    return _sliced(data, starts, ends, range(len(starts)) if axes is None else axes, None)


def _sliced(
    data: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int] | None,
) -> Tensor:
    index: list[Any] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(axes), strict=True):
        index[axis] = _bounded(start, end, step, data.shape[axis])
    return data[tuple(index)]


def _bounded(start: int, end: int, step: int, size: int) -> slice:
    """Return a slice with its ends inside the axis: backwards it may end before the first."""
    first, last, _ = slice(start, end, step).indices(size)
    if step < 0 and end < -size:
        last = -1
    return slice(first, None if last < 0 else last, step)


@converts("DepthToSpace", since=1)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Return channels as blocks of pixels: (N, C b b, H, W) -> (N, C, H b, W b)."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        blocks = x.reshape((n, b, b, c // (b * b), h, w)).permute_dims((0, 3, 4, 1, 5, 2))
    else:
        blocks = x.reshape((n, c // (b * b), b, b, h, w)).permute_dims((0, 1, 4, 2, 5, 3))
    return blocks.reshape((n, c // (b * b), h * b, w * b))


@converts("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Return blocks of pixels as channels: (N, C, H b, W b) -> (N, b b C, H, W)."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = x.reshape((n, c, h // b, b, w // b, b)).permute_dims(order)
    return blocks.reshape((n, c * b * b, h // b, w // b))


@converts("Trilu", since=14)
def trilu(x: Tensor, k: Host | None = None, *, upper: int = 1) -> Tensor:
    """Return the upper or lower triangle, from the k-th diagonal on; 0 elsewhere."""
    offset = 0 if k is None else integer(k)
    rows, columns = x.shape[-2:]
    offset = max(min(offset, columns + rows), -columns - rows)
    return x.triu(offset) if upper else x.tril(offset)


@converts("ReverseSequence", since=10)
def reverse_sequence(
    x: Tensor, sequence_lens: Fixed, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Return each sequence of a batch with its first elements in reverse order."""
    steps = functions.arange(x.shape[time_axis], dtype=sequence_lens.dtype, device=x.device)
    lengths = sequence_lens.reshape((-1, 1))
    order = functions.where(steps < lengths, lengths - 1 - steps, steps)
    order = order.mT if time_axis < batch_axis else order
    index = order.reshape((*order.shape, *(1,) * (x.ndim - 2))).broadcast_to(x.shape)
    return x.take_along_axis(index, time_axis)
