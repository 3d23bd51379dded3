"""GPU metrics, from readings that a test makes up; a real one where there is a GPU."""

from __future__ import annotations

import math

import pynvml
import pytest

from pyrite.errors import DeviceError
from pyrite.tensor.creation import tensor
from pyrite.train import Metric, Output
from pyrite.train.metric.gpu import GPUMemory, GPUReading, GPUUse, nvidia_gpu

READINGS = [
    GPUReading(load, used << 20, 1 << 34) for load, used in ((0.5, 700), (1.0, 900), (0, 3))
]


def over(metric: Metric) -> str:
    for _ in READINGS:
        metric.update(Output(tensor(0.0)))
    return str(metric.compute())


def test_the_load_is_the_mean_and_the_memory_the_most() -> None:
    assert over(GPUUse(read=iter(READINGS).__next__)) == "GPU use 50.00 %"
    assert over(GPUMemory(read=iter(READINGS).__next__)) == "GPU memory 900.00 MiB"


class Driver:
    """NVML as a driver gives it, until it is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost = False
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", self.handle)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", self.memory)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", self.rates)

    def handle(self, index: int) -> int:
        if index:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return 7

    def memory(self, handle: int) -> object:
        assert handle == 7
        if self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return type("Memory", (), {"used": 5 << 20, "total": 8 << 20})

    def rates(self, handle: int) -> object:
        return type("Rates", (), {"gpu": 42})


def test_nvml_is_asked_and_a_lost_gpu_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)
    read = nvidia_gpu()
    assert read() == GPUReading(0.42, 5 << 20, 8 << 20)
    driver.lost = True
    assert math.isnan(read().load)


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(monkeypatch)
    with pytest.raises(DeviceError, match="requires an NVIDIA GPU 3 and its driver, got"):
        GPUUse(3)


def test_without_a_driver_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    with pytest.raises(DeviceError, match="leave out GPU metrics here"):
        GPUMemory()


def test_a_real_gpu_has_memory() -> None:
    try:
        read = nvidia_gpu()
    except DeviceError as error:
        pytest.skip(str(error))
    reading = read()
    assert 0 < reading.memory_used < reading.memory_total
    assert 0 <= reading.load <= 1
