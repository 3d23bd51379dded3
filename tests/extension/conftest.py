"""The devices on which kernels in Python run."""

from __future__ import annotations

import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.runtime.interpreter import InterpreterRuntime


@pytest.fixture
def interpreter() -> Device:
    """The runtime that checks every access, with nothing compiled."""
    return Device(CubeBackend(InterpreterRuntime()))


@pytest.fixture(params=["interpreter", "cpu", "wgpu"])
def device(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    if request.param == "interpreter":
        return interpreter
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)
