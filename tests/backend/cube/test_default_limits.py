"""The op suite on a device with WebGPU's default limits and no optional feature: a browser's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.autodiff import grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.runtime.wgpu import WgpuRuntime, open_device
from pyrite.runtime.wgpu.adapter import DEFAULT_LIMITS
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.types import Array, float32

#: WGSL: a quotient is right to 2.5 ulp, and functions made of several carry that on.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def browser() -> Iterator[Device]:
    try:
        runtime = WgpuRuntime(open_device(limits="default"))
    except DeviceError:
        pytest.skip("no WebGPU adapter: install mesa-vulkan-drivers")
    yield Device(CubeBackend(runtime))
    runtime.close()


@pytest.fixture(autouse=True)
def _fallbacks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "strict", True)


def test_the_device_has_what_every_device_has(browser: Device) -> None:
    runtime: Any = browser.backend.root.runtime  # type: ignore[attr-defined]

    assert runtime.device.features == frozenset()
    granted = runtime.device.gpu.limits
    beyond = {name: granted[name] for name, n in DEFAULT_LIMITS.items() if granted[name] != n}
    assert beyond.keys() <= {"max-bindings-per-bind-group"}, beyond


@pytest.mark.parametrize("example", list(examples()), ids=lambda e: e.id)
@pytest.mark.sample(20)
def test_values_are_those_of_numpy(browser: Device, example: Example) -> None:
    for got, want in zip(example.run(float32, browser), example.run(float32), strict=True):
        assert_close(got.numpy(), want.numpy())


@pytest.mark.parametrize("example", list(examples()), ids=lambda e: e.id)
@pytest.mark.sample(12)
def test_gradients_are_those_of_numpy(browser: Device, example: Example) -> None:
    arrays = example.arrays(float32)
    for position, array in enumerate(arrays):
        if example.is_differentiable(position) and is_float(array) and array.size:
            got, want = (gradient(example, position, where) for where in (browser, "numpy"))
            assert_close(got, want)


def is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == np.float32


def gradient(example: Example, position: int, where: Any) -> Array:
    """The gradient of a sum in which each element of each float result has its own weight."""
    inputs = [
        tensor(a, device=where) if isinstance(a, np.ndarray) else a for a in example.arrays(float32)
    ]

    def total(x: Tensor) -> Any:
        rng, found = np.random.default_rng(5), 0.0
        for result in example.call([*inputs[:position], x, *inputs[position + 1 :]], where):
            if result.dtype.is_float:
                weights = rng.uniform(-1, 1, result.shape).astype(np.float32)
                found = found + (result * tensor(weights, device=where)).sum()
        return found

    return grad(total)(inputs[position]).numpy()


def assert_close(got: Array, want: Array) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wide = want.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1.0)
    np.testing.assert_allclose(
        got.astype(np.float64), wide, rtol=TOLERANCE, atol=TOLERANCE * min(scale, 1e3)
    )
