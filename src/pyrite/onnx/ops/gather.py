"""Ops that read and write by indices; negative ones count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Fixed, Host, converts
from pyrite.onnx.host import integer
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import element_count

_REDUCTIONS = {"none": "assign", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _from_start(indices: Tensor, size: int) -> Tensor:
    """Return indices counted from the start."""
    if indices.dtype.kind == "uint":
        return indices
    return functions.where(indices < 0, indices + size, indices)


@converts("Gather")
def gather(data: Tensor, indices: Fixed, *, axis: int = 0) -> Tensor:
    """Return the elements at indices along an axis, whose place the indices' axes take."""
    return data.take(indices, axis)


@converts("GatherElements", since=11)
def gather_elements(data: Tensor, indices: Fixed, *, axis: int = 0) -> Tensor:
    """Return for each place of the indices the element at that index along an axis."""
    axis %= data.ndim
    data = _cropped(data, indices.shape, axis)
    return data.take_along_axis(indices, axis)


def _cropped(data: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """Return the part of the data that indices of a shape reach, on the other axes."""
    index = tuple(slice(None) if a == axis else slice(0, size) for a, size in enumerate(shape))
    return (
        data if all(a == axis or s == data.shape[a] for a, s in enumerate(shape)) else data[index]
    )


@converts("GatherND", since=11)
def gather_nd(data: Tensor, indices: Fixed, *, batch_dims: int = 0) -> Tensor:
    """Return slices of the data at tuples of indices, batch by batch."""
    depth = indices.shape[-1]
    batch = data.shape[:batch_dims]
    rows = element_count(batch)
    inner = data.shape[batch_dims : batch_dims + depth]
    rest = data.shape[batch_dims + depth :]
    flat = _flat_index(indices, inner).reshape((rows, -1))
    offset = functions.arange(rows, dtype=flat.dtype, device=data.device) * element_count(inner)
    places = (flat + offset.reshape((-1, 1))).reshape((-1,))
    taken = data.reshape((rows * element_count(inner), element_count(rest))).take(places, 0)
    return taken.reshape((*batch, *indices.shape[batch_dims:-1], *rest))


def _flat_index(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return tuples of indices, on the last axis, as places in a flattened array."""
    place = functions.zeros(indices.shape[:-1], dtype=indices.dtype, device=indices.device)
    for position, size in enumerate(sizes):
        place = place * size + _from_start(indices[..., position], size)
    return place


@converts("ScatterElements", since=11)
def scatter_elements(
    data: Tensor, indices: Fixed, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Return the data with updates at indices along an axis."""
    axis %= data.ndim
    if not indices.size:
        return data
    index = [_steps(size, a, indices) for a, size in enumerate(indices.shape)]
    index[axis] = _from_start(indices, data.shape[axis])
    place = functions.zeros(indices.shape, dtype=indices.dtype, device=data.device)
    for a, size in enumerate(data.shape):
        place = place * size + index[a]
    return _scattered(data, place, updates, reduction)


def _steps(size: int, axis: int, like: Tensor) -> Tensor:
    steps = functions.arange(size, dtype=like.dtype, device=like.device)
    return steps.reshape((-1, *(1,) * (like.ndim - axis - 1)))


def _scattered(data: Tensor, place: Tensor, updates: Tensor, reduction: str) -> Tensor:
    kind: Any = _REDUCTIONS[reduction]
    flat = data.reshape((-1,))
    made = flat.scatter(0, place.reshape((-1,)), updates.reshape((-1,)), reduction=kind)
    return made.reshape(data.shape)


@converts("Scatter", since=9)
def scatter(data: Tensor, indices: Fixed, updates: Tensor, *, axis: int = 0) -> Tensor:
    """Return the data with updates at indices along an axis."""
    return scatter_elements(data, indices, updates, axis=axis)


@converts("ScatterND", since=11)
def scatter_nd(data: Tensor, indices: Fixed, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Return the data with slices written at tuples of indices."""
    depth = indices.shape[-1]
    if not updates.size:
        return data
    inner, rest = data.shape[:depth], data.shape[depth:]
    width = element_count(rest)
    rows = _flat_index(indices, inner).reshape((-1, 1))
    columns = functions.arange(width, dtype=rows.dtype, device=data.device)
    return _scattered(data, rows * width + columns, updates, reduction)


@converts("OneHot", since=9)
def one_hot(indices: Fixed, depth: Host, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return the second value where a new axis' index is the one given, else the first."""
    size = integer(depth)
    require_bounded("OneHot", (*indices.shape, size), indices.size)
    whole = indices if indices.dtype.is_integer else indices.astype(types.int32)
    whole = functions.where((whole < -size).logical_or(whole >= size), size, whole)
    at = axis % (indices.ndim + 1)
    steps = functions.arange(size, dtype=types.int32, device=indices.device)
    steps = steps.astype(whole.dtype).reshape((-1, *(1,) * (indices.ndim - at)))
    hot = _from_start(whole, size).unsqueeze(at) == steps
    return functions.where(hot, values[1], values[0])


@converts("NonZero", since=9)
def nonzero(call: Call, x: Tensor) -> Tensor:
    """Return the indices of the elements that are not 0, a row for each axis."""
    found = (x if x.ndim else x.reshape((1,))).argwhere().mT
    return found.astype(call.dtype(types.int64))


@converts("Compress", since=9)
def compress(x: Tensor, condition: Host, *, axis: int | None = None) -> Tensor:
    """Return the elements, or the slices along an axis, for which the condition holds."""
    data = x.reshape((-1,)) if axis is None else x
    kept = np.flatnonzero(condition).astype(np.int32)
    return data.take(functions.tensor(kept, device=x.device), 0 if axis is None else axis)


@converts("Unique", since=11)
def unique(
    call: Call, x: Tensor, *, axis: int | None = None, sorted: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the distinct elements or slices, where each is first, which each is, and how many.

    They are counted on the host: how many there are is data.
    """
    found, first, inverse, counts = np.unique(
        x.numpy(), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not sorted:
        order = np.argsort(first)
        place = np.argsort(order)
        found = np.take(found, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], place[inverse]
    numbers = (first, inverse.reshape(-1), counts)
    made = (call.tensor(np.asarray(n, np.int64)) for n in numbers)
    return (call.tensor(np.ascontiguousarray(found)), *made)  # type: ignore[return-value]


@converts("TensorScatter", since=24)
def tensor_scatter(
    past: Tensor,
    update: Tensor,
    write_indices: Fixed | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Return a cache with an update written along an axis from each batch's index on."""
    axis %= past.ndim
    count, size = update.shape[axis], past.shape[axis]
    steps = functions.arange(count, device=past.device)
    starts = (
        functions.zeros((past.shape[0], 1), dtype=steps.dtype, device=past.device)
        if write_indices is None
        else write_indices.reshape((-1, 1)).astype(steps.dtype)
    )
    places = starts + steps
    places = places % size if mode == "circular" else places
    shape = [past.shape[0] if a == 0 else count if a == axis else 1 for a in range(past.ndim)]
    index = places.reshape(tuple(shape)).broadcast_to(update.shape)
    return scatter_elements(past, index, update, axis=axis)
