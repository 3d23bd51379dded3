"""Folds go over memory as it lies: NumPy's values, and the bits of a dense tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

FOLDS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "sum": lambda x, axis: x.sum(axis),
    "mean that keeps axes": lambda x, axis: x.mean(axis, keepdims=True),
    "max": lambda x, axis: x.max(axis),
    "var": lambda x, axis: x.var(axis),
}
#: From numbers to the same as another array, whose last axis lies apart in memory.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.mT,
    "channels last": lambda x: x.moveaxis(-1, 1),
    "every second": lambda x: x[..., ::2],
    "backwards and offset": lambda x: x[1:, ..., :0:-1],
    "first axis last": lambda x: x.moveaxis(0, -1),
}


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("axis", [0, 1, 2, 3, (2, 3), (0, 2, 3), (0, 1)])
@pytest.mark.sample(50)
def test_the_bits_are_those_of_a_dense_tensor(
    cpu: Device,
    fold: Callable[[Tensor, Any], Tensor],
    layout: Callable[[Tensor], Tensor],
    axis: Any,
) -> None:
    for shape in ((3, 5, 9, 34), (2, 18, 7, 7)):
        x = layout(tensor(numbers(*shape), device=cpu))
        dense = tensor(np.ascontiguousarray(x.numpy()), device=cpu)

        np.testing.assert_array_equal(fold(x, axis).numpy(), fold(dense, axis).numpy())


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("axis", range(4))
def test_positions_are_those_along_the_axis(
    cpu: Device, layout: Callable[[Tensor], Tensor], axis: int
) -> None:
    x = layout(tensor(np.round(numbers(3, 5, 9, 34)), device=cpu))

    np.testing.assert_array_equal(x.argmax(axis).numpy(), x.numpy().argmax(axis))


@pytest.mark.parametrize("columns", [7, 8, 9, 31, 33, 63, 100])
def test_the_last_vectors_of_a_line_overlap_and_write_once(
    interpreter: Device, columns: int
) -> None:
    """The interpreter refuses an element that two workgroups write."""
    x = numbers(2, 40, columns)
    for of in (x, x[:, ::2], x[..., ::-1]):
        found = tensor(of, device=interpreter)
        np.testing.assert_allclose(found.sum(1).numpy(), of.sum(1), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found.max(1).numpy(), of.max(1))


def test_a_transposed_operand_is_turned_before_it_meets_others(cpu: Device) -> None:
    for shape in ((130, 97), (4, 50, 61)):
        x, y = numbers(*shape), numbers(*shape[:-2], shape[-1], shape[-2])
        found = tensor(x, device=cpu).mT * tensor(y, device=cpu) + tensor(x, device=cpu).mT

        np.testing.assert_array_equal(
            found.numpy(), np.swapaxes(x, -1, -2) * y + np.swapaxes(x, -1, -2)
        )
