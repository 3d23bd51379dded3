"""Noise that only training sees, added to activations."""

from __future__ import annotations

from pyrite.errors import ArgumentError
from pyrite.nn.module import Module
from pyrite.tensor.random import normal
from pyrite.tensor.tensor import Tensor


class GaussianNoise(Module):
    """In training, add normal noise of mean 0 and standard deviation std."""

    def __init__(self, std: float) -> None:
        if not std >= 0:
            raise ArgumentError(f"GaussianNoise requires std >= 0, got {std}")
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        """Return x, blurred in training."""
        if not self.training or self.std == 0:
            return x
        noise = normal(x.shape, 0.0, self.std, dtype=x.dtype, device=x.device)
        return x + noise
