"""A step of Muon runs by its body, right for matrices of any shape and layout, compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.optim.muon import COEFFICIENTS, muon_update, newton_schulz
from pyrite.tensor.creation import tensor
from pyrite.types import Array

ITERATION: dict[str, Any] = {"coefficients": COEFFICIENTS, "steps": 3, "eps": 1e-7}


def matrices(shape: tuple[int, ...], count: int = 1) -> list[Array]:
    rng = np.random.default_rng(shape)
    return [rng.normal(size=shape).astype(np.float32) for _ in range(count)]


def step(
    device: Device | None, shape: tuple[int, ...], rate: float, **settings: Any
) -> list[Array]:
    p, g, mean = (tensor(a, device=device) for a in matrices(shape, 3))
    found = muon_update(p, g, mean, rate, 0.1, momentum=0.9, **{**ITERATION, **settings})
    return [t.numpy() for t in found]


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (1, 1), (17, 4)])
@pytest.mark.parametrize("nesterov", [True, False])
def test_a_step_is_that_of_numpy(
    interpreter: Device, shape: tuple[int, ...], nesterov: bool
) -> None:
    got = step(interpreter, shape, 0.1, nesterov=nesterov)
    want = step(None, shape, 0.1, nesterov=nesterov)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_view_is_taken_as_it_lies(interpreter: Device) -> None:
    (array,) = matrices((6, 9))
    got, want = (
        newton_schulz(tensor(array, device=device)[::2].permute_dims((1, 0)), **ITERATION)
        for device in (interpreter, None)
    )
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_matrix_of_zeros_stays_zero_and_one_of_nan_shows(interpreter: Device) -> None:
    zero, nan = (
        newton_schulz(tensor(np.full((2, 3), value, np.float32), device=interpreter), **ITERATION)
        for value in (0.0, np.nan)
    )
    np.testing.assert_array_equal(zero.numpy(), np.zeros((2, 3)))
    assert np.isnan(nan.numpy()).all()


def test_another_learning_rate_compiles_nothing(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    step(fresh, (4, 6), 0.1, nesterov=True)
    compiled = backend.launcher.kernels
    step(fresh, (4, 6), 0.2, nesterov=True)

    assert backend.launcher.kernels == compiled


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_its_body_is_one_recording(fresh: Device, dtype: str) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    arrays = [a.astype(dtype) for a in matrices((3, 5), 3)]
    muon_update(
        *(tensor(a, device=fresh) for a in arrays), 0.1, 0.1, momentum=0.9, nesterov=True,
        **ITERATION,
    )  # fmt: skip

    assert backend.recordings == 1
