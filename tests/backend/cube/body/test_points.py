"""A step of an optimiser is one kernel, right for any size, and compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.device import Device
from pyrite.optim.adam import adam_update
from pyrite.optim.adamw import adamw_update
from pyrite.optim.lion import lion_update
from pyrite.optim.rmsprop import rmsprop_update
from pyrite.optim.sgd import sgd_update
from pyrite.tensor.creation import tensor

BETAS = {"beta1": 0.9, "beta2": 0.99}
STEPS: dict[str, Callable[..., Any]] = {
    "adam": lambda p, g, m, v, rate: adam_update(
        p, g, m, v, None, rate, 0.1, 0.01, eps=1e-8, weight_decay=0.1, **BETAS
    ),
    "amsgrad": lambda p, g, m, v, rate: adam_update(
        p, g, m, v, v + 1, rate, 0.1, 0.01, eps=1e-8, weight_decay=0.0, **BETAS
    ),
    "cautious": lambda p, g, m, v, rate: adamw_update(
        p, g, m, v, None, rate, 0.1, 0.01, 0.1, eps=1e-8, cautious=True, **BETAS
    ),
    "lion": lambda p, g, m, v, rate: lion_update(p, g, m, rate, 0.1, **BETAS),
    "rmsprop": lambda p, g, m, v, rate: rmsprop_update(
        p, g, v, m, None, rate, alpha=0.9, momentum=0.0, eps=1e-8, weight_decay=0.0
    ),
    "sgd": lambda p, g, m, v, rate: sgd_update(p, g, rate, weight_decay=0.1),
}


def step(name: str, device: Device | None, size: int, rate: float) -> list[Any]:
    rng = np.random.default_rng(size)
    given = [rng.uniform(0.5, 2.0, size).astype(np.float32) for _ in range(4)]
    found = STEPS[name](*(tensor(a, device=device) for a in given), rate)
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("size", [1, 64, 67])
def test_a_step_is_that_of_numpy(interpreter: Device, name: str, size: int) -> None:
    for got, want in zip(
        step(name, interpreter, size, 0.1), step(name, None, size, 0.1), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_another_learning_rate_compiles_nothing(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    step("adam", fresh, 64, 0.1)
    assert backend.launcher.kernels == 1
    step("adam", fresh, 64, 0.2)
    step("adam", fresh, 128, 0.2)

    assert backend.launcher.kernels == 1


def test_no_more_buffers_are_bound_than_every_gpu_has(
    fresh: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMSGrad reads five tensors and writes four: on a GPU that is two kernels."""
    bound: list[int] = []
    launch = RecordingLauncher.launch_for

    def counted(
        self: Any, problem: Any, key: Any, build: Any, bindings: Any, *rest: Any, **how: Any
    ) -> None:
        bound.append(sum(hasattr(b, "nbytes") for b in bindings))
        launch(self, problem, key, build, bindings, *rest, **how)

    monkeypatch.setattr(RecordingLauncher, "launch_for", counted)
    step("adam", fresh, 64, 0.1)
    assert bound == [7]
    step("amsgrad", fresh, 64, 0.1)
    # The first of them makes the greatest second moment that the caller has.
    assert len(bound) == 1 + 3
    assert max(bound) <= 8


def test_integers_are_those_of_numpy(interpreter: Device) -> None:
    p = np.array([5, 6], np.int32)
    got = sgd_update(
        tensor(p, device=interpreter), tensor(p, device=interpreter), 0.5, weight_decay=0.0
    )

    np.testing.assert_array_equal(got.numpy(), p - 0.5 * p)
