"""PyTorch as evaluators of rules ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pyrite.backend.torch.algebra import TorchAlgebra
from pyrite.backend.torch.dtype import TORCH
from pyrite.types import DType, Number


class TorchArrays:
    """The functions of `pyrite.backend.evaluation.Arrays`."""

    algebra = TorchAlgebra()

    def permute_dims(self, x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        return x.permute(*axes)

    def reshape(self, x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        return x.reshape(tuple(shape))

    def concat(self, arrays: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
        return torch.cat(list(arrays), axis)

    def full(
        self, shape: Sequence[int], value: Number, dtype: DType, like: torch.Tensor
    ) -> torch.Tensor:
        return torch.full(tuple(shape), value, dtype=TORCH[dtype], device=like.device)

    def arange(self, stop: int, dtype: DType, like: torch.Tensor) -> torch.Tensor:
        return torch.arange(stop, dtype=TORCH[dtype], device=like.device)
