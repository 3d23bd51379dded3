"""Movement and creation: views where PyTorch has them, copies where steps are negative."""

from __future__ import annotations

from typing import Any

import torch

from pyrite.backend.torch.dtype import (
    PLAIN,
    TORCH,
    WIDE_UNSIGNED,
    carried_number,
    computing_dtype,
    scalar,
    uncarried,
)
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.words import Word, words_of
from pyrite.op import Constant
from pyrite.types import DType, Shape

#: A number beyond may be infinite in a dtype of floats.
FLOAT16_HIGHEST = 65504


class Movement(Native):
    """The same values at other places, and values from nothing."""

    @native("reshape", carrier="bits", narrow="everywhere")
    def reshape(self, x: torch.Tensor, *, shape: Shape) -> torch.Tensor:
        return x.reshape(shape)

    @native("permute_dims", carrier="bits", narrow="everywhere")
    def permute_dims(self, x: torch.Tensor, *, axes: tuple[int, ...]) -> torch.Tensor:
        return x.permute(axes)

    @native("broadcast_to", carrier="bits", narrow="everywhere")
    def broadcast_to(self, x: torch.Tensor, *, shape: Shape) -> torch.Tensor:
        return x.expand(shape)

    @native("slice", carrier="bits", narrow="everywhere")
    def slice(
        self, x: torch.Tensor, *, start: Shape, size: Shape, step: tuple[int, ...]
    ) -> torch.Tensor:
        forward, flipped = _forward(start, size, step)
        part = x[forward]
        return part.flip(flipped) if flipped else part

    @native("slice_update", carrier="bits", narrow="everywhere")
    def slice_update(
        self,
        x: torch.Tensor,
        value: torch.Tensor,
        *,
        shape: Shape,
        start: Shape,
        size: Shape,
        step: tuple[int, ...],
    ) -> torch.Tensor:
        out = torch.empty(shape, dtype=value.dtype, device=self.device).copy_(x)
        forward, flipped = _forward(start, size, step)
        if flipped:
            value = value.expand(size).flip(flipped)
        out[forward] = value
        return out

    @native("concat", carrier="bits", narrow="everywhere")
    def concat(self, *parts: torch.Tensor, axis: int) -> torch.Tensor:
        return torch.cat(parts, axis)

    @native("band", carrier="bits", narrow="everywhere")
    def band(self, x: torch.Tensor, *, low: int | None, high: int | None) -> torch.Tensor:
        if low is not None:
            x = torch.triu(x, low)
        return x if high is None else torch.tril(x, high)

    @native("sliding_window", carrier="bits", narrow="everywhere")
    def sliding_window(self, x: torch.Tensor, *, axis: int, size: int, step: int) -> torch.Tensor:
        return x.unfold(axis, size, step)

    @native("overlap_add")
    def overlap_add(
        self, windows: torch.Tensor, *, axis: int, length: int, step: int
    ) -> torch.Tensor:
        count, size = windows.shape[axis], windows.shape[-1]
        shape = (*windows.shape[:axis], length, *windows.shape[axis + 1 : -1])
        out = windows.new_zeros(shape)
        places, parts = out.movedim(axis, 0), windows.movedim(axis, 0)
        for i in range(size):
            places[i : i + count * step : step][:count] += parts[..., i]
        return out

    # ---- from nothing ----

    @native("full", given="untouched")
    def full(self, value: Any, *, shape: Shape, dtype: DType) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value.expand(shape).clone()
        number, stored = value.value, TORCH[dtype]
        if dtype.is_float and number == 0 and str(number) != "-0.0":
            return self.zero(stored).expand(shape)
        if dtype.is_float and abs(number) > FLOAT16_HIGHEST:
            # PyTorch's own refuses what rounds to infinity.
            number = scalar(number, stored).item()
        if stored in PLAIN or dtype.is_float:
            return torch.full(shape, number, dtype=stored, device=self.device)
        return (
            carried_number(number, dtype, "bits", True).view(stored).to(self.device).expand(shape)
        )

    @native("arange", given="untouched")
    def arange(self, start: Constant, step: Constant, *, size: int, dtype: DType) -> torch.Tensor:
        stored, computed = TORCH[dtype], computing_dtype(dtype)
        index = torch.arange(size, dtype=torch.int64, device=self.device).to(computed)
        first, stride = (_carried(c, computed) for c in (start, step))
        found = first + index * stride
        if stored in WIDE_UNSIGNED:
            return uncarried(found, stored, "value")
        return found.to(stored)

    @native("random_bits", given="untouched")
    def random_bits(self, *draw: Word, shape: Shape) -> torch.Tensor:
        return words_of(draw, shape, self.device)


def _carried(constant: Constant, computed: torch.dtype) -> torch.Tensor:
    value = constant.value
    if not computed.is_floating_point and int(value) >> 63 == 1:
        value = int(value) - (1 << 64)
    return torch.tensor(value, dtype=computed)


def _forward(start: Shape, size: Shape, step: tuple[int, ...]) -> tuple[Any, list[int]]:
    """Return Python's slices of the same elements in ascending order, and the axes to flip then."""
    slices, flipped = [], []
    for axis, (first, count, stride) in enumerate(zip(start, size, step, strict=True)):
        if count == 0:
            slices.append(slice(0, 0))
        elif stride > 0:
            slices.append(slice(first, first + (count - 1) * stride + 1, stride))
        else:
            slices.append(slice(first + (count - 1) * stride, first + 1, -stride))
            flipped.append(axis)
    return tuple(slices), flipped
