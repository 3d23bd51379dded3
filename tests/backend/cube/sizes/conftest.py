"""What a size costs that was never seen: the kernels that are built for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend, ahead
from pyrite.backend.cube import backend as module
from pyrite.backend.cube.lowering import convolution_rehearsal
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime

MACHINES = {
    "cpu": Machine.cpu(16, 32),
    "gpu": InterpreterRuntime().machine,
}


@pytest.fixture(autouse=True)
def _ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile kernels ahead, at once: what a second size needs where the first are built in.

    Not rehearsals, which leave a size of another class none to build: classes are counted here.
    """
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(ahead, "PAUSE", 0.0)
    monkeypatch.setattr(module, "rehearse", lambda *_: None)
    monkeypatch.setattr(convolution_rehearsal, "rehearse_windows", lambda *_: None)


@pytest.fixture(params=MACHINES)
def backend(request: pytest.FixtureRequest) -> CubeBackend:
    """A backend that has built nothing, on the interpreter, as a processor or a GPU."""
    return CubeBackend(InterpreterRuntime(MACHINES[request.param]))


Case = Callable[..., Any]


@pytest.fixture
def built(backend: CubeBackend) -> Callable[[Case, Sequence[Any]], list[int]]:
    """Return a function that tells how many kernels each of some sizes takes that come in turn.

    It calls ``case(device, size)`` for each, which gives a tensor of the device and the array that
    it should be, to within rounding.
    """
    return counting(backend)


@pytest.fixture
def cpu_built() -> Callable[[Case, Sequence[Any]], list[int]]:
    """Return the same for a processor."""
    return counting(CubeBackend(InterpreterRuntime(MACHINES["cpu"])))


def counting(backend: CubeBackend) -> Callable[[Case, Sequence[Any]], list[int]]:
    device = Device(backend)

    def counted(case: Case, sizes: Sequence[Any]) -> list[int]:
        found = []
        for size in sizes:
            before = backend.launcher.kernels
            result, wanted = case(device, size)
            np.testing.assert_allclose(result.numpy(), wanted, rtol=2e-5, atol=1e-5)
            backend.launcher.ahead.finish()
            found.append(backend.launcher.kernels - before)
        return found

    return counted


@pytest.fixture
def draw() -> Callable[..., Any]:
    """Return a function from a shape to an array of normal numbers."""
    random = np.random.default_rng(0)
    return lambda *shape: random.normal(size=shape).astype("float32")
