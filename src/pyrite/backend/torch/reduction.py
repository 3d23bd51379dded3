"""Sums, products and truth over axes; scans along one."""

from __future__ import annotations

from typing import Any

import torch

from pyrite.backend.torch.dtype import computing_dtype
from pyrite.backend.torch.native import Native, native
from pyrite.types import DType, Shape


class Reduction(Native):
    """Sums, products and truth, whole and running."""

    @native("sum")
    def sum(self, x: torch.Tensor, *, axis: Shape, dtype: DType, keepdims: bool) -> torch.Tensor:
        wanted = computing_dtype(dtype)
        # To PyTorch no axes mean all of them.
        return torch.sum(x, axis, keepdims, dtype=wanted) if axis else x.to(wanted)

    @native("prod")
    def prod(self, x: torch.Tensor, *, axis: Shape, dtype: DType, keepdims: bool) -> torch.Tensor:
        found = x.to(computing_dtype(dtype))
        for a in reversed(axis):
            found = torch.prod(found, a, keepdims, dtype=found.dtype)
        if not axis or not _may_hold_nan(found):
            return found
        is_zero = torch.any(x == 0, axis, keepdims) & torch.all(torch.isfinite(x), axis, keepdims)
        return torch.where(torch.isnan(found) & is_zero, 0.0, found)

    @native("mean")
    def mean(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        return torch.mean(x, axis, keepdims) if axis else x

    @native("any")
    def any(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        return torch.any(x != 0, axis, keepdims) if axis else x != 0

    @native("all")
    def all(self, x: torch.Tensor, *, axis: Shape, keepdims: bool) -> torch.Tensor:
        return torch.all(x != 0, axis, keepdims) if axis else x != 0

    # ---- scans ----

    @native("cumulative_sum")
    def cumulative_sum(self, x: torch.Tensor, **attrs: Any) -> torch.Tensor:
        return _scan(torch.cumsum, 0, x, **attrs)

    @native("cumulative_prod")
    def cumulative_prod(self, x: torch.Tensor, **attrs: Any) -> torch.Tensor:
        return _scan(_running_product, 1, x, **attrs)

    @native("cumulative_logsumexp")
    def cumulative_logsumexp(self, x: torch.Tensor, *, axis: int) -> torch.Tensor:
        return torch.logcumsumexp(x, axis)

    @native("linear_recurrence")
    def linear_recurrence(
        self, x: torch.Tensor, links: torch.Tensor, *, axis: int, reverse: bool
    ) -> torch.Tensor:
        terms, factors = list(x.unbind(axis)), links.unbind(axis)
        order = range(len(factors))
        for i in reversed(order) if reverse else order:
            to, come = (i, i + 1) if reverse else (i + 1, i)
            terms[to] = torch.addcmul(terms[to], factors[i], terms[come])
        return torch.stack(terms, axis) if terms else x


def _may_hold_nan(x: torch.Tensor) -> bool:
    """Whether there is a NaN, or to know it one would have to wait for the device."""
    return x.is_floating_point() and (x.device.type != "cpu" or bool(torch.isnan(x).any()))


def _running_product(x: torch.Tensor, axis: int, *, dtype: torch.dtype) -> torch.Tensor:
    """Return cumprod, with 0 for 0 times an infinity that no element was."""
    found = torch.cumprod(x, axis, dtype=dtype)
    if not _may_hold_nan(found):
        return found
    is_zero = (x == 0).cumsum(axis) > 0
    is_finite = (~torch.isfinite(x)).cumsum(axis) == 0
    return torch.where(torch.isnan(found) & is_zero & is_finite, 0.0, found)


def _scan(
    fold: Any,
    initial: int,
    x: torch.Tensor,
    *,
    axis: int,
    dtype: DType,
    include_initial: bool,
    reverse: bool,
) -> torch.Tensor:
    found: torch.Tensor = fold(x.flip(axis) if reverse else x, axis, dtype=computing_dtype(dtype))
    if include_initial:
        edge = [1 if a == axis else n for a, n in enumerate(x.shape)]
        found = torch.cat([found.new_full(edge, initial), found], axis)
    return found.flip(axis) if reverse else found
