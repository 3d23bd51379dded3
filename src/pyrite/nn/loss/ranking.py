"""Losses of comparisons: which of two is greater, which pairs are alike, by a margin.

Targets are 1 and -1.
"""

from __future__ import annotations

from pyrite.nn.distance import CosineSimilarity, PairwiseDistance
from pyrite.nn.loss.reduction import Given, Loss
from pyrite.tensor.tensor import Tensor


class MarginRankingLoss(Loss):
    """max(0, margin - target * (x - y)): target 1 wants x greater, -1 wants y: (...) * 3 -> ()."""

    def __init__(self, margin: float = 0.0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        """Return by how much the margin is missed."""
        self._require_same_shape(x, y=y, target=target)
        return self._reduced((self.margin - target * (x - y)).relu())


class HingeEmbeddingLoss(Loss):
    """Distances x where the target is 1, max(0, margin - x) where it is -1: (...), (...) -> ()."""

    def __init__(self, margin: float = 1.0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """Return the distance of what is alike, and the lack of it of what is not."""
        self._require_same_shape(x, target=target)
        return self._reduced(x.where(target == 1, (self.margin - x).relu()))


class CosineEmbeddingLoss(Loss):
    """1 - cos(x, y) where the target is 1, and max(0, cos - margin) where it is -1.

    Shapes: (..., D), (..., D), (...) -> ().
    """

    def __init__(self, margin: float = 0.0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin
        self.similarity = CosineSimilarity()

    def forward(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        """Return how far pairs are from being alike, or unlike."""
        self._require_same_shape(x, y=y)
        cosine: Tensor = self.similarity(x, y)
        self._require_same_shape(cosine, target=target)
        return self._reduced((1 - cosine).where(target == 1, (cosine - self.margin).relu()))


class TripletMarginLoss(Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)): (..., D) * 3 -> ().

    d is the p-norm of `PairwiseDistance`.  With ``swap`` the negative counts as near as it is to
    the anchor or to the positive, whichever is less (Balntas et al. 2016).
    Source: Schroff et al. 2015, arXiv:1503.03832.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.swap = swap
        self.distance = PairwiseDistance(p, eps)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return by how much the margin is missed."""
        self._require_same_shape(anchor, positive=positive, negative=negative)
        near: Tensor = self.distance(anchor, positive)
        far: Tensor = self.distance(anchor, negative)
        if self.swap:
            far = far.minimum(self.distance(positive, negative))
        return self._reduced((self.margin + near - far).relu())
