"""Columns side by side are rows of one kernel; what lies otherwise, or is long, is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor

CALLS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": lambda x, axis: x.softmax(axis),
    "log_softmax": lambda x, axis: x.log_softmax(axis),
    "layer_norm": lambda x, axis: x.layer_norm(axis=axis),
    "var": lambda x, axis: x.var(axis),
}


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    runtime = CpuRuntime(threads=1)
    yield Device(CubeBackend(runtime))
    runtime.close()


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def launches(device: Device, call: Callable[[], Tensor]) -> int:
    backend = device.backend.root
    assert isinstance(backend, CubeBackend)
    call().numpy()
    before: int = backend.runtime.report()["launches"]
    call().numpy()
    found: int = backend.runtime.report()["launches"]
    return found - before


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((40, 64), 0), ((40, 61), 0), ((3, 33, 40), 1), ((2, 70, 5, 9), 1), ((700, 33), 0)],
)
def test_columns_side_by_side_have_the_bits_of_columns_that_lie_along_memory(
    name: str, shape: tuple[int, ...], axis: int
) -> None:
    x = array(*shape)
    turned = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    order = [*range(len(shape) - 1)]
    order.insert(axis, len(shape) - 1)
    along = tensor(turned, device="cpu").permute(tuple(order))

    got = CALLS[name](tensor(x, device="cpu"), axis).numpy()

    np.testing.assert_array_equal(got, CALLS[name](along, axis).numpy())
    want = CALLS[name](tensor(x, device="numpy"), axis).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm"])
def test_short_columns_take_one_kernel_and_long_ones_several(cpu: Device, name: str) -> None:
    near, far = (tensor(array(n, 100), device=cpu) for n in (128, 2000))

    assert launches(cpu, lambda: CALLS[name](near, 0)) == 1
    assert launches(cpu, lambda: CALLS[name](far, 0)) > 1


def test_the_logarithm_of_a_sum_is_made_once_for_a_column(cpu: Device) -> None:
    x = tensor(array(2000, 96), device=cpu)

    assert launches(cpu, lambda: x.log_softmax(0)) == 5
