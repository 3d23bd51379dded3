"""Noise that only training sees."""

from __future__ import annotations

from pyrite.errors import ArgumentError
from pyrite.nn.module import Module
from pyrite.tensor.dropout import dropout
from pyrite.tensor.tensor import Tensor


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p).

    Source: Srivastava et al. 2014, JMLR 15.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ArgumentError(f"Dropout requires 0 <= p <= 1, got p={p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return x, thinned out in training."""
        return dropout(x, self.p) if self.training else x
