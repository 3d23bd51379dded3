"""How alike or how far apart two vectors are, as modules."""

from __future__ import annotations

from pyrite.nn.module import Module
from pyrite.tensor.tensor import Tensor


class CosineSimilarity(Module):
    """The cosine of the angle between two tensors along an axis: (..., D), (..., D) -> (...).

    Each norm counts as at least eps, so a vector of zeros is at right angles to all.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.CosineSimilarity()(pyrite.tensor([3.0, 0.0]), pyrite.tensor([0.5, 0.0])).item()
    1.0
    """

    def __init__(self, axis: int = -1, eps: float = 1e-8) -> None:
        self.axis = axis
        self.eps = eps

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the cosines."""
        return x.cosine_similarity(y, axis=self.axis, eps=self.eps)


class PairwiseDistance(Module):
    """The p-norm of x - y + eps along the last axis: (..., D), (..., D) -> (...).

    eps keeps the gradient finite where x equals y, as in PyTorch.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.PairwiseDistance(eps=0.0)(pyrite.tensor([0.0, 3.0]), pyrite.tensor([4.0, 0.0])).item()
    5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> None:
        self.p = p
        self.eps = eps
        self.keepdims = keepdims

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the distances."""
        return (x - y + self.eps).vector_norm(-1, ord=self.p, keepdims=self.keepdims)
