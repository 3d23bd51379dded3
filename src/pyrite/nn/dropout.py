"""Noise that only training sees: elements or channels that are dropped."""

from __future__ import annotations

from pyrite.errors import ArgumentError
from pyrite.nn.module import Module
from pyrite.nn.spatial import Spatial
from pyrite.tensor.dropout import alpha_dropout, dropout, feature_alpha_dropout, feature_dropout
from pyrite.tensor.tensor import Tensor


def _probability(layer: Module, p: float) -> float:
    if not 0 <= p <= 1:
        raise ArgumentError(f"{type(layer).__name__} requires 0 <= p <= 1, got p={p}")
    return p


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p).

    Source: Srivastava et al. 2014, JMLR 15.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(self, p)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, thinned out in training."""
        return dropout(x, self.p) if self.training else x


class AlphaDropout(Module):
    """In training, drop elements to the floor of `SELU` and keep mean and variance.

    Source: Klambauer et al. 2017, arXiv:1706.02515.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(self, p)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, thinned out in training."""
        return alpha_dropout(x, self.p) if self.training else x


class FeatureAlphaDropout(Module):
    """In training, drop whole channels to the floor of `SELU`: (N, C, ...) -> (N, C, ...).

    Mean and variance over draws stay.  Raises ShapeError for fewer than two axes.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(self, p)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, without some of its channels in training."""
        return feature_alpha_dropout(x, self.p) if self.training else x


class _FeatureDropout(Spatial):
    """In training, zero each channel of each sample with probability p, scale the others."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(self, p)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, without some of its channels in training."""
        x = self._checked(x)
        return feature_dropout(x, self.p) if self.training else x


class Dropout1d(_FeatureDropout):
    """In training, zero each channel with probability p: (N, C, W) -> (N, C, W).

    The others are scaled by 1 / (1 - p).  Source: Tompson et al. 2015, arXiv:1411.4280.
    """

    axes = "W"


class Dropout2d(_FeatureDropout):
    """In training, zero each channel with probability p: (N, C, H, W) -> (N, C, H, W)."""

    axes = "HW"


class Dropout3d(_FeatureDropout):
    """In training, zero each channel with probability p: (N, C, D, H, W) -> (N, C, D, H, W)."""

    axes = "DHW"
