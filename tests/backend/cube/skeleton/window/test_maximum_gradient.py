"""Gradients of pools are NumPy's, whoever looks for whom, and the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import value_and_grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.window.axis import Sliding, sliding
from pyrite.backend.cube.skeleton.window.maximum_gradient import (
    by_element,
    by_window,
    candidates,
    select,
)
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType, float32

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)

#: Sizes, kernel_size, stride, padding, dilation.
WINDOWS: list[tuple[Any, ...]] = [
    ((23,), (2,), (2,), ((0, 0),), (1,)),
    ((9, 20), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((8, 21), (2, 3), (3, 2), ((0, 0), (1, 2)), (2, 3)),
    ((5, 4), (5, 4), (5, 4), ((0, 0), (0, 0)), (1, 1)),
    ((4, 5, 6), (2, 2, 2), (1, 2, 3), ((0, 0), (1, 0), (1, 1)), (1, 1, 1)),
]


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_both_forms_of_a_maximums_gradient_are_numpys(
    interpreter: Device, windows: tuple[Any, ...]
) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    sizes, *rest = windows
    rng = np.random.default_rng(0)
    x = tensor(rng.integers(0, 5, (2, 3, *sizes)).astype(np.float32))
    _, places = x.max_pool_with_indices(*rest)
    g = tensor(rng.normal(size=places.shape).astype(np.float32))
    want = g._max_pool_backward(places, sizes=sizes).numpy()
    gradient, indices = (tensor(t.numpy(), device=interpreter)._handle for t in (g, places))
    type = TensorType(x.shape, float32)
    axes = sliding(sizes, places.shape[2:], *rest)

    for got in (
        by_element(backend.launcher, gradient, indices, type, axes),
        by_window(backend.launcher, gradient, indices, type),
    ):
        np.testing.assert_allclose(backend.download(got), want, rtol=1e-6, atol=1e-6)


NEAR = (Sliding(8, 4, 3, 2, 1, 1),)
FAR = (Sliding(14, 2, 7, 7, 0, 1),)
WHOLE = (Sliding(7, 1, 7, 7, 0, 1),)


@pytest.mark.parametrize(
    ("axes", "machine", "by"),
    [
        (None, GPU, "window"), (NEAR, GPU, "element"), (FAR, GPU, "element"),
        (None, CPU, "window"), (NEAR, CPU, "element"), (FAR, CPU, "window"),
        (WHOLE, CPU, "element"),
    ],
)  # fmt: skip
def test_elements_look_for_their_windows_if_these_are_known_and_near(
    axes: Any, machine: Machine, by: str
) -> None:
    found = select(axes, machine)

    assert found in candidates(axes, machine)
    assert found.by == by


def test_an_index_outside_of_the_image_is_raised(fresh: Device) -> None:
    g = tensor(np.ones((1, 1, 2), np.float32), device=fresh)
    places = tensor(np.array([[[1, 4]]], np.int32), device=fresh)
    found = g._max_pool_backward(places, sizes=(4,))

    with pytest.raises(IndexRangeError, match="max_pool_backward requires -4 <= index < 4"):
        found.numpy()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_rounded_once(interpreter: Device, dtype: str) -> None:
    g = tensor(np.array([[[1.0] + [2.0**-12] * 64]], np.float32), device=interpreter)
    places = tensor(np.zeros((1, 1, 65), np.int32), device=interpreter)
    windows = ((65,), (1,), ((64, 64),), (1,))
    for given in (None, windows):
        found = g.astype(dtype)._max_pool_backward(places, sizes=(65,), windows=given)
        # One by one, each of them would be lost.
        assert found.astype("float32").numpy()[0, 0, 0] == 1.015625


def pooled(x: Tensor) -> Tensor:
    """Pools of every kind, one after another."""
    y = x.max_pool(3, 1, 1) + x.avg_pool(3, 1, 1, count_include_pad=False)
    y = y.avg_pool((2, 3), (2, 3), ceil_mode=True) * y.max_pool((2, 3), (2, 3), ceil_mode=True)
    y = y.adaptive_max_pool((5, 4)).square() + y.adaptive_avg_pool(1).sin()
    return y.unfold4d(2, stride=2, padding=1).tanh().sum()


def test_a_gradient_through_all_pools_is_that_of_numpy_in_machine_code() -> None:
    pytest.importorskip("llvmlite")
    from pyrite.backend.cube.cpu import Cpu

    array = np.random.default_rng(4).normal(size=(2, 3, 20, 41))
    cpu = Device(Cpu())
    (got, g), (want, w) = (value_and_grad(pooled)(tensor(array, device=d)) for d in (cpu, "numpy"))
    assert g.dtype.name == "float64"
    np.testing.assert_allclose(float(got), float(want), rtol=1e-12)
    np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-9, atol=1e-12)
    again = value_and_grad(pooled)(tensor(array, device=cpu))[1]
    assert again.numpy().tobytes() == g.numpy().tobytes()
