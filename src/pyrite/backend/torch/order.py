"""Reductions by order, sorting and search: NaN is the extreme, equal zeros are told by their sign.

Invariant: `keys` are integers whose order is that of the values, so that ties, zeros and NaNs come
out the same on every device.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from pyrite.backend.torch.native import Native, native
from pyrite.types import Shape

#: Where NaNs stand in order.
NaN = Literal["first", "last"]

_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def keys(x: torch.Tensor, nan: NaN, *, equal_zeros: bool = True) -> torch.Tensor:
    """Return integers in the order of x; NaNs are equal, before or after all else."""
    if x.dtype is torch.bool:
        return x.to(torch.uint8)
    if not x.is_floating_point():
        return x
    bits = x.view(_BITS[x.dtype])
    limits = torch.iinfo(bits.dtype)
    # Below zero a greater magnitude is less: all bits but the sign are turned.
    ordered = torch.where(bits < 0, bits ^ limits.max, bits)
    if equal_zeros:
        ordered = torch.where(x == 0, 0, ordered)
    return torch.where(torch.isnan(x), limits.max if nan == "last" else limits.min, ordered)


def values(ordered: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the values whose keys these are: the opposite of keys with zeros told apart."""
    if dtype is torch.bool:
        return ordered.to(torch.bool)
    if not dtype.is_floating_point:
        return ordered
    limits = torch.iinfo(ordered.dtype)
    return torch.where(ordered < 0, ordered ^ limits.max, ordered).view(dtype)


class Order(Native):
    """Extrema, sorting and search."""

    @native("max", carrier="order")
    def max(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        if not axis:
            return x
        found = torch.amax(x, axis, keepdims)
        if not x.is_floating_point():
            return found
        # PyTorch leaves open which of 0.0 and -0.0 is the greatest.
        has_plus = (x.view(_BITS[x.dtype]) == 0).any(axis, keepdims)
        return torch.where(found == 0, torch.where(has_plus, 0.0, -0.0).to(x.dtype), found)

    @native("max_of_numbers", carrier="order")
    def max_of_numbers(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        numbers = torch.where(x.isnan(), -math.inf, x)
        return torch.amax(numbers, axis, keepdims) if axis else numbers

    @native("min", carrier="order")
    def min(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        if not axis:
            return x
        found = torch.amin(x, axis, keepdims)
        if not x.is_floating_point():
            return found
        bits = x.view(_BITS[x.dtype])
        has_minus = (bits == torch.iinfo(bits.dtype).min).any(axis, keepdims)
        return torch.where(found == 0, torch.where(has_minus, -0.0, 0.0).to(x.dtype), found)

    @native("argmax", carrier="order")
    def argmax(self, x: torch.Tensor, *, axis: int | None, keepdims: bool) -> torch.Tensor:
        return _position(torch.argmax, x, axis, keepdims)

    @native("argmin", carrier="order")
    def argmin(self, x: torch.Tensor, *, axis: int | None, keepdims: bool) -> torch.Tensor:
        return _position(torch.argmin, x, axis, keepdims)

    @native("cumulative_argmax", carrier="order")
    def cumulative_argmax(self, x: torch.Tensor, *, axis: int) -> torch.Tensor:
        return _first_of_extremes(keys(x, "last"), axis)

    @native("cumulative_argmin", carrier="order")
    def cumulative_argmin(self, x: torch.Tensor, *, axis: int) -> torch.Tensor:
        # ~ turns the order of integers around without overflow.
        return _first_of_extremes(~keys(x, "first"), axis)

    @native("argsort", carrier="order")
    def argsort(self, x: torch.Tensor, *, axis: int, descending: bool) -> torch.Tensor:
        ordered = keys(x, "last") if x.is_floating_point() else x
        found = torch.sort(ordered, dim=axis, descending=descending, stable=True).indices
        return found.to(torch.int32)

    @native("searchsorted", carrier="order")
    def searchsorted(self, x: torch.Tensor, wanted: torch.Tensor, *, side: str) -> torch.Tensor:
        ordered, sought = keys(x, "last"), keys(wanted, "last").contiguous()
        return torch.searchsorted(
            ordered.contiguous(),
            sought,
            side=side,
            out_int32=True,  # type: ignore[arg-type]
        )

    @native("argwhere")
    def argwhere(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x).to(torch.int32)

    @native("argwhere_within")
    def argwhere_within(self, x: torch.Tensor, *, size: int, fill_value: int) -> torch.Tensor:
        found = (x != 0).reshape(-1)
        rank = torch.cumsum(found, 0) - 1
        # What is not among the first goes to a place past the end.
        places = torch.where(found & (rank < size), rank, size)
        order = torch.arange(found.numel(), device=self.device)
        flat = torch.full((size + 1,), -1, dtype=torch.int64, device=self.device)
        flat = flat.scatter_(0, places, order)[:size]
        columns = [
            torch.div(flat, max(_stride(x.shape, axis), 1), rounding_mode="floor") % max(n, 1)
            for axis, n in enumerate(x.shape)
        ]
        if not columns:
            return torch.empty((size, 0), dtype=torch.int32, device=self.device)
        positions = torch.stack(columns, -1)
        return torch.where(flat[:, None] < 0, fill_value, positions).to(torch.int32)


def _stride(shape: Shape, axis: int) -> int:
    stride = 1
    for n in shape[axis + 1 :]:
        stride *= n
    return stride


def _position(find: Any, x: torch.Tensor, axis: int | None, keepdims: bool) -> torch.Tensor:
    if x.dtype is torch.bool:
        x = x.to(torch.uint8)
    if axis is None:
        found = find(x.reshape(-1), 0).to(torch.int32)
        return found.reshape((1,) * x.ndim) if keepdims else found  # type: ignore[no-any-return]
    return find(x, axis, keepdims).to(torch.int32)  # type: ignore[no-any-return]


def _first_of_extremes(ordered: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the position of the first of the greatest up to each, int32."""
    if ordered.numel() == 0:
        return ordered.to(torch.int32)
    running = torch.cummax(ordered, axis).values
    n = ordered.shape[axis]
    later, before = running.narrow(axis, 1, n - 1), running.narrow(axis, 0, n - 1)
    shape = [1] * ordered.ndim
    shape[axis] = n
    positions = torch.arange(n, device=ordered.device).reshape(shape)
    # Where the running extreme changes is where it stands; the first element is the first one.
    fresh = torch.where(later > before, positions.narrow(axis, 1, n - 1), 0)
    zeros = torch.zeros_like(ordered.narrow(axis, 0, 1), dtype=torch.int64)
    return torch.cummax(torch.cat([zeros, fresh], axis), axis).values.to(torch.int32)
