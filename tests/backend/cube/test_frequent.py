"""Sizes that come back often get kernels in which they are built in."""

from collections.abc import Iterator

import numpy as np
import pytest

from pyrite import Tensor, tensor
from pyrite.backend.cube import CubeBackend, frequent
from pyrite.backend.cube import ahead as module
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime

FIRST, SECOND = (9, 11), (7, 13)


@pytest.fixture(params=[Machine.cpu(), Machine.gpu()], ids=["cpu", "gpu"])
def backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CubeBackend]:
    """Return a device whose kernels for second sizes are compiled."""
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(frequent, "OFTEN", 3)
    found = CubeBackend(InterpreterRuntime(request.param))
    group_norm(found, FIRST)
    found.launcher.ahead.finish()
    yield found
    found.launcher.ahead.stop()


def values(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def group_norm(backend: CubeBackend, image: tuple[int, int]) -> np.ndarray:
    device = Device(backend)
    x: Tensor = tensor(values((2, 4, *image)), device=device)
    weight = tensor(values((4,)), device=device)
    return x.group_norm(weight, num_groups=2).numpy()


def built(backend: CubeBackend, image: tuple[int, int]) -> int:
    """Return how many kernels a call has made, or had made in a pause after it."""
    before = backend.launcher.kernels
    group_norm(backend, image)
    backend.launcher.ahead.finish()
    return backend.launcher.kernels - before


def test_a_second_size_waits_for_no_kernel_and_has_its_own_after_it_came_often(
    backend: CubeBackend,
) -> None:
    assert [built(backend, SECOND) for _ in range(6)] == [0, 0, 1, 0, 0, 0]


def test_a_size_that_came_often_once_has_its_kernel_at_other_calls(backend: CubeBackend) -> None:
    for _ in range(5):
        built(backend, SECOND)
    wide = values((5, 4, *SECOND))
    x = tensor(wide, device=Device(backend))
    weight = tensor(values((4,)), device=Device(backend))
    before = backend.launcher.kernels
    for _ in range(6):
        x.group_norm(weight, num_groups=2).numpy()
        backend.launcher.ahead.finish()
    assert backend.launcher.kernels == before


def test_no_number_changes_with_the_kernel(backend: CubeBackend) -> None:
    found = [group_norm(backend, SECOND)]
    for _ in range(5):
        backend.launcher.ahead.finish()
        found.append(group_norm(backend, SECOND))
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_without_the_thread_it_stays_with_the_kernel_for_all_sizes(
    backend: CubeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "ahead", False)
    assert [built(backend, SECOND) for _ in range(6)] == [0] * 6
