"""Metrics of the loss itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.output import Output


class _MeanLoss(Metric):
    """The mean of the steps' losses, each weighted by what it is the mean of."""

    def measure(self, output: Output) -> Measured:
        """Return the loss and its weight."""
        return output.loss, self.weight(output)

    def weight(self, output: Output) -> int:
        """Return what the loss is the mean of."""
        return output.weight

    def add(self, state: Any, measured: Any) -> Any:
        """Return the weighted sum of losses, and of weights.

        The product is taken here, in float64, and not on the device.
        """
        loss, weight = (np.asarray(part, np.float64) for part in measured)
        return {
            "loss": state.get("loss", 0.0) + loss * weight,
            "weight": state.get("weight", 0.0) + weight,
        }

    def value(self, state: Any) -> float:
        """Return the weighted mean."""
        return float(state["loss"] / state["weight"])


class Loss(_MeanLoss):
    """The mean loss per item."""

    better = "lower"


class Perplexity(_MeanLoss):
    """e to the mean loss per target: of a cross-entropy in nats, the number of equal choices.

    The loss must be a mean over targets; each step weighs as many targets as it had.
    """

    better = "lower"

    def weight(self, output: Output) -> int:
        """Return the number of targets."""
        return output.targets.size if isinstance(output.targets, Tensor) else output.weight

    def value(self, state: Any) -> float:
        """Return e to the mean, infinity where that is too large for a float."""
        mean = super().value(state)
        return math.exp(mean) if not mean > 709 else math.inf
