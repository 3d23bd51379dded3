"""Metrics of the run itself: how fast it goes, at which rate it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.train.metric.metric import Measured, Metric, SumMetric, ratio
from pyrite.train.output import Output


class LearningRate(Metric):
    """The learning rate of the latest step."""

    only_training = True

    def __init__(self, name: str = "Learning rate") -> None:
        super().__init__(name)

    def measure(self, output: Output) -> Measured:
        """Return the rate; NaN where the step had none."""
        return (float("nan") if output.learning_rate is None else output.learning_rate,)

    def add(self, state: Any, measured: Any) -> Any:
        """Return the latest."""
        return {"latest": np.asarray(measured[0], np.float64)}

    def value(self, state: Any) -> float:
        """Return the latest."""
        return float(state["latest"])


class IterationSpeed(SumMetric):
    """Steps per second, of the time that steps took."""

    unit = "steps/s"

    def __init__(self, name: str = "Speed") -> None:
        super().__init__(name)

    def measure(self, output: Output) -> Measured:
        """Return one step, and its seconds."""
        return 1, output.seconds

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return steps / seconds."""
        steps, seconds = sums
        return float(ratio(steps, seconds))
