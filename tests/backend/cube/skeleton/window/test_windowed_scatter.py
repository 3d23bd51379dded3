"""Scatters that stay in windows, as gradients of pools, are NumPy's whoever looks for whom."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from pyrite.autodiff import value_and_grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.window.axis import Sliding, sliding
from pyrite.backend.cube.skeleton.window.windowed_scatter import (
    add_in_windows,
    is_better_than_writing,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
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
def test_sums_are_numpys_looked_for_or_written(
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
    gradient, indices = (tensor(t.numpy(), device=interpreter) for t in (g, places))
    found = add_in_windows(
        backend.launcher, "added", gradient._handle, indices._handle, TensorType(x.shape, float32),
        sliding(sizes, places.shape[2:], *rest),
    )  # fmt: skip
    written = gradient._max_pool_backward(indices, sizes=sizes)

    for got in (backend.download(found), written.numpy()):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


NEAR = (Sliding(8, 4, 3, 2, 1, 1),)
FAR = (Sliding(14, 2, 7, 7, 0, 1),)
WHOLE = (Sliding(7, 1, 7, 7, 0, 1),)


@pytest.mark.parametrize(
    ("axes", "machine", "stride", "looks"),
    [
        (NEAR, GPU, 1, True), (FAR, GPU, 3, True), (NEAR, CPU, 1, True), (FAR, CPU, 1, False),
        (NEAR, CPU, 3, False), (WHOLE, CPU, 3, True),
    ],
)  # fmt: skip
def test_elements_look_for_their_windows_if_what_they_look_at_is_near(
    axes: Any, machine: Machine, stride: int, looks: bool
) -> None:
    x = CubeTensor(cast(Any, None), TensorType((2, 8), float32), (24, stride))

    assert is_better_than_writing(axes, (x, x), machine) is looks


@pytest.fixture(scope="module")
def processor() -> Device:
    """A processor whose every access is checked."""
    return Device(CubeBackend(InterpreterRuntime(Machine.cpu(16, 32))))


@pytest.mark.parametrize("on", ["interpreter", "processor"])
@pytest.mark.parametrize("shape", [(1, 2, 5, 7), (2, 1, 3, 1)], ids=str)
def test_the_promise_of_windows_changes_nothing_however_operands_lie(
    request: pytest.FixtureRequest, on: str, shape: tuple[int, ...]
) -> None:
    device, rng = request.getfixturevalue(on), np.random.default_rng(1)
    windows = ((3, 2), (1, 1), ((1, 1), (1, 0)), (1, 1))
    indices = tensor(rng.normal(size=shape).astype(np.float32)).max_pool_with_indices(*windows)[1]
    drawn = rng.normal(size=indices.shape).astype(np.float32)

    for layout in LAYOUTS.values():
        if not layout.applies(drawn.shape):
            continue
        g, held = layout.settled(drawn), layout.settled(indices.numpy())
        # An index is as dense where elements that share a place would leave their windows.
        lay = layout if (held == indices.numpy()).all() else LAYOUTS["dense"]
        want = tensor(g)._max_pool_backward(indices, sizes=shape[2:]).numpy()
        got = layout(g, device)._max_pool_backward(
            lay(indices.numpy(), device), sizes=shape[2:], windows=windows
        )
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-6, err_msg=layout.name)


def test_an_index_outside_of_the_image_is_raised(fresh: Device) -> None:
    g = tensor(np.ones((1, 1, 2), np.float32), device=fresh)
    places = tensor(np.array([[[1, 4]]], np.int32), device=fresh)
    found = g._max_pool_backward(places, sizes=(4,))

    with pytest.raises(IndexRangeError, match="max_pool_backward requires 0 <= index < 4"):
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
