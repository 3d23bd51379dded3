"""Metrics of the machine: processor and memory, of this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from pyrite.train.metric.metric import Measured, Metric, SumMetric, ratio
from pyrite.train.output import Output


class CPUUse(SumMetric):
    """How busy this process keeps the processor: 100 % is one core, the mean over the steps."""

    unit = "%"

    def __init__(self, name: str = "CPU use") -> None:
        super().__init__(name)
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only starts the count

    def measure(self, output: Output) -> Measured:
        """Return the use since the call before, as a fraction, and one sample."""
        return self._process.cpu_percent() / 100, 1

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return the mean."""
        use, samples = sums
        return float(ratio(use, samples))


class Memory(Metric):
    """The most memory that this process held at the end of a step: resident, in MiB."""

    unit = "MiB"
    better = "lower"

    def __init__(self, name: str = "Memory") -> None:
        super().__init__(name)
        self._process = psutil.Process()

    def measure(self, output: Output) -> Measured:
        """Return the resident set in MiB."""
        return (self._process.memory_info().rss / 2**20,)

    def add(self, state: Any, measured: Any) -> Any:
        """Return the greater."""
        return {"peak": np.maximum(state.get("peak", 0.0), measured[0])}

    def value(self, state: Any) -> float:
        """Return the peak."""
        return float(state["peak"])
