"""Metrics of an NVIDIA GPU: load and memory.  Needs nvidia-ml-py: import it by name.

They speak of the whole GPU, and so of all processes on it: that is what NVML knows everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pynvml
from numpy.typing import NDArray

from pyrite.errors import DeviceError
from pyrite.train.metric.metric import Measured, Metric, SumMetric, ratio
from pyrite.train.output import Output


@dataclass(frozen=True)
class GPUReading:
    """What a GPU says of itself: load as a fraction, memory in bytes."""

    load: float
    memory_used: int
    memory_total: int


Read = Callable[[], GPUReading]


def nvidia_gpu(index: int = 0) -> Read:
    """Return what reads the GPU of that number, as ``nvidia-smi`` counts them.

    Raises DeviceError where there is no such GPU, or no driver.
    """
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"nvidia_gpu requires an NVIDIA GPU {index} and its driver, got: {error}; leave out "
            "GPU metrics here"
        ) from error

    def read() -> GPUReading:
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            load = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except pynvml.NVMLError:  # a GPU that is lost, or one that does not say: not the run's end
            return GPUReading(float("nan"), 0, 0)
        return GPUReading(load, int(memory.used), int(memory.total))

    return read


class GPUUse(SumMetric):
    """How busy the GPU was: the share of time in which a kernel ran, the mean over steps."""

    unit = "%"

    def __init__(self, index: int = 0, *, read: Read | None = None, name: str = "GPU use") -> None:
        super().__init__(name)
        self._read = read or nvidia_gpu(index)

    def measure(self, output: Output) -> Measured:
        """Return the load, and one sample."""
        return self._read().load, 1

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return the mean."""
        load, samples = sums
        return float(ratio(load, samples))


class GPUMemory(Metric):
    """The most memory of the GPU that was in use at the end of a step, in MiB."""

    unit = "MiB"
    better = "lower"

    def __init__(
        self, index: int = 0, *, read: Read | None = None, name: str = "GPU memory"
    ) -> None:
        super().__init__(name)
        self._read = read or nvidia_gpu(index)

    def measure(self, output: Output) -> Measured:
        """Return the used memory in MiB."""
        return (self._read().memory_used / 2**20,)

    def add(self, state: Any, measured: Any) -> Any:
        """Return the greater."""
        return {"peak": np.maximum(state.get("peak", 0.0), measured[0])}

    def value(self, state: Any) -> float:
        """Return the peak."""
        return float(state["peak"])
