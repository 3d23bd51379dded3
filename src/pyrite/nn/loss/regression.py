"""Losses of numbers: distances from the target, and likelihoods of counts and of normal values.

Shapes are (...), (...) -> () unless ``reduction`` is "none".  A target of another shape than the
prediction is an error, never broadcast.
"""

from __future__ import annotations

import math

from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.loss.reduction import Given, Loss
from pyrite.tensor.tensor import Tensor


class L1Loss(Loss):
    """|prediction - target|.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.L1Loss()(pyrite.tensor([1.0, 2.0]), pyrite.tensor([0.0, 4.0])).item()
    1.5
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the absolute error."""
        self._require_same_shape(prediction, target=target)
        return self._reduced((prediction - target).abs())


class MSELoss(Loss):
    """(prediction - target) ** 2.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.MSELoss()(pyrite.tensor([1.0, 2.0]), pyrite.tensor([0.0, 4.0])).item()
    2.5
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the squared error."""
        self._require_same_shape(prediction, target=target)
        return self._reduced((prediction - target).square())


class LpLoss(Loss):
    """|prediction - target| ** p; below p = 1 the gradient at equality is infinite."""

    def __init__(self, p: float, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        if not p > 0:
            raise ArgumentError(f"LpLoss requires p > 0, got {p}")
        self.p = p

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the absolute error to the power of p."""
        self._require_same_shape(prediction, target=target)
        return self._reduced((prediction - target).abs() ** self.p)


class HuberLoss(Loss):
    """d ** 2 / 2 for an error |d| <= delta, and a line of slope delta beyond.

    Source: Huber 1964, Annals of Mathematical Statistics 35.
    """

    def __init__(self, delta: float = 1.0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        if not delta > 0:
            raise ArgumentError(f"HuberLoss requires delta > 0, got {delta}")
        self.delta = delta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the squared error, with a bounded slope."""
        self._require_same_shape(prediction, target=target)
        return self._reduced(_huber(prediction - target, self.delta))


def _huber(error: Tensor, delta: float) -> Tensor:
    size = error.abs()
    near = size.minimum(delta)
    return near * near * 0.5 + (size - near) * delta


class SmoothL1Loss(Loss):
    """|d| with its kink rounded: d ** 2 / (2 beta) for an error |d| < beta, else |d| - beta / 2.

    It is `HuberLoss` over beta; with ``beta=0`` it is `L1Loss`.
    Source: Girshick 2015, arXiv:1504.08083.
    """

    def __init__(self, beta: float = 1.0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        if not beta >= 0:
            raise ArgumentError(f"SmoothL1Loss requires beta >= 0, got {beta}")
        self.beta = beta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the absolute error, smooth at 0."""
        self._require_same_shape(prediction, target=target)
        error = prediction - target
        return self._reduced(_huber(error, self.beta) / self.beta if self.beta else error.abs())


class PoissonNLLLoss(Loss):
    """The negative log-likelihood of counts under a Poisson distribution, up to a constant.

    exp(prediction) - target * prediction, the prediction being the log of the rate; with
    ``log_input=False`` it is the rate itself, and eps keeps its log finite.  ``full`` adds
    Stirling's formula for log(target!), where target > 1.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood of the target."""
        self._require_same_shape(prediction, target=target)
        if self.log_input:
            losses = prediction.exp() - target * prediction
        else:
            losses = prediction - target * (prediction + self.eps).log()
        return self._reduced(losses + _stirling(target) if self.full else losses)


def _stirling(target: Tensor) -> Tensor:
    counts = target.maximum(1)
    terms = counts * counts.log() - counts + (counts * (2 * math.pi)).log() * 0.5
    return terms.where(target > 1, 0)


class GaussianNLLLoss(Loss):
    """The negative log-likelihood of values under normal distributions, up to a constant.

    (log(variance) + (target - prediction) ** 2 / variance) / 2, where a variance counts as at least
    eps, without a change to its gradient; ``full`` adds log(2 pi) / 2.
    Source: Nix & Weigend 1994.
    """

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        if not eps > 0:
            raise ArgumentError(f"GaussianNLLLoss requires eps > 0, got {eps}")
        self.full = full
        self.eps = eps

    def forward(self, prediction: Tensor, target: Tensor, variance: Tensor) -> Tensor:
        """Return the negative log-likelihood; variance is (...), (..., 1) or one less axis."""
        self._require_same_shape(prediction, target=target)
        variance = self._fitted(variance, prediction)
        bounded = variance + (variance.maximum(self.eps) - variance).detach()
        losses = (bounded.log() + (prediction - target).square() / bounded) * 0.5
        return self._reduced(losses + 0.5 * math.log(2 * math.pi) if self.full else losses)

    def _fitted(self, variance: Tensor, prediction: Tensor) -> Tensor:
        if variance.shape == prediction.shape[:-1] and prediction.ndim:
            return variance.expand_dims(-1)
        if variance.shape not in (prediction.shape, (*prediction.shape[:-1], 1)):
            raise ShapeError(
                f"GaussianNLLLoss requires one variance for each value or each row of "
                f"{prediction.shape}, got {variance.shape}"
            )
        return variance
