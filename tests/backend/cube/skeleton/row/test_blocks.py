"""Folds along columns of what lies along memory: one kernel, and the bits of a dense one."""

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

#: No whole vectors, one block of elements, some, as many as a vector has lanes, blocks of blocks.
LENGTHS = (1, 7, 31, 32, 33, 100, 300, 1000, 5000)

FOLDS: dict[str, Callable[[Tensor], Tensor]] = {
    "a softmax": lambda x: x.softmax(0),
    "several folds in one pass": lambda x: (x - x.mean(0)) * (x * x).sum(0),
    "a state of several numbers": lambda x: (x - x.mean(0)) / x.var(0),
    "a fold alone": lambda x: x.exp().sum(0),
    "a sum": lambda x: x.sum(0),
}


@pytest.fixture(scope="module")
def cpu() -> Device:
    return Device(CubeBackend(CpuRuntime(threads=2)))


def dense_and_turned(device: Device, rows: int, columns: int, dtype: str) -> tuple[Tensor, Tensor]:
    """The same numbers row by row, and column by column behind others."""
    x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    turned = np.pad(x.T, ((1, 1), (3, 2)))
    dense = tensor(x, device=device).astype(dtype)
    return dense, tensor(turned, device=device).astype(dtype)[1:-1, 3 : 3 + rows].mT


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.sample(20)
def test_the_bits_are_those_of_a_dense_tensor(
    cpu: Device, fold: Callable[[Tensor], Tensor], dtype: str, length: int
) -> None:
    for columns in (40, 3):
        dense, turned = dense_and_turned(cpu, length, columns, dtype)
        found, wanted = (fold(x).astype("float64").numpy() for x in (turned, dense))
        np.testing.assert_array_equal(found, wanted)


def test_a_softmax_along_memory_is_one_launch_on_whichever_axis(cpu: Device) -> None:
    backend: Any = cpu.backend
    _, x = dense_and_turned(cpu, 100, 40, "float32")
    y = tensor(np.zeros((2, 8, 8, 40), np.float32), device=cpu).moveaxis(-1, 1)
    for call in (lambda: x.softmax(0), lambda: y.softmax(1)):
        before = backend.runtime.report()["launches"]
        call()
        assert backend.runtime.report()["launches"] - before == 1


def test_every_access_lies_within_the_rows(interpreter: Device) -> None:
    """The interpreter checks each: the last vectors of a row end where it does."""
    for length in (5, 33, 70, 140):
        dense, turned = dense_and_turned(interpreter, length, 33, "float32")
        np.testing.assert_array_equal(turned.softmax(0).numpy(), dense.softmax(0).numpy())
