"""Histograms by kernels, judged by a search among the edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.device import Device
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array, DType, float32, float64, int32, uint8

#: On the interpreter, which has GPUs' kernels too and checks each access; and compiled.
DEVICES = {
    "processor": lambda: CubeBackend(InterpreterRuntime()),
    "GPU": lambda: CubeBackend(InterpreterRuntime(Machine.gpu())),
    "compiled": lambda: CubeBackend(CpuRuntime(threads=2)),
}


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Device:
    return Device(DEVICES[request.param]())


def counted(x: Array, edges: Array) -> list[int]:
    """How many elements lie in each bin, by the definition."""
    found = [int(((x >= low) & (x < high)).sum()) for low, high in pairwise(edges)]
    return [*found[:-1], int(((x >= edges[-2]) & (x <= edges[-1])).sum())]


def judge(device: Device, x: Array, edges: Array) -> None:
    given = pyrite.tensor(x, device=device)
    got = given._histogram_within(pyrite.tensor(edges, device=device))
    assert got.dtype is int32
    assert got.tolist() == counted(x, edges)


@pytest.mark.parametrize("dtype", [float32, float64, int32, uint8], ids=lambda d: d.name)
@pytest.mark.parametrize("count", [0, 1, 7, 3000])
def test_elements_are_in_the_bin_whose_lower_edge_they_reach(
    device: Device, count: int, dtype: DType
) -> None:
    """Many of them stand on edges."""
    x = np.random.default_rng(count).integers(0, 40, count) / (4 if dtype.is_float else 1)
    judge(device, x.astype(dtype.numpy), np.arange(1, 9).astype(dtype.numpy))


def test_nan_and_what_is_outside_are_in_no_bin(device: Device) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1.0000001, -1e-45], np.float32)
    judge(device, x, np.array([0.0, 0.5, 1.0], np.float32))


def test_infinite_edges_take_infinities(device: Device) -> None:
    x = np.array([-np.inf, -1.0, 0.0, 5.0, np.inf, np.nan], np.float32)
    judge(device, x, np.array([-np.inf, 0.0, np.inf], np.float32))


@pytest.mark.parametrize(
    "edges",
    [
        [0.0, 0.001, 0.002, 5.0, 5.5], [2.0, 2.0, 2.0], [1.0, 2.0, 2.0, 3.0], [0.0, 9.0],
        [-1e30, 0.0, 1e30],
    ],
)  # fmt: skip
def test_edges_need_no_one_distance(device: Device, edges: list[float]) -> None:
    x = np.random.default_rng(0).integers(-1, 12, 500).astype(np.float32) / 2
    judge(device, x, np.array(edges, np.float32))


def test_edges_far_from_zero_are_not_passed(device: Device) -> None:
    """There a quotient is the wrong bin: so few floats lie between them."""
    x = (1e6 + np.random.default_rng(0).normal(0, 0.3, 800)).astype(np.float32)
    judge(device, x, np.linspace(1e6 - 1, 1e6 + 1, 101).astype(np.float32))


def test_elements_that_lie_apart_are_found(device: Device) -> None:
    x = np.random.default_rng(0).normal(size=(60, 9)).astype(np.float32)
    edges = np.linspace(-2, 2, 18).astype(np.float32)
    given, far = (pyrite.tensor(a, device=device) for a in (x, edges))
    got = given[::-2, 3]._histogram_within(far[::-1][::-2])
    assert got.tolist() == counted(x[::-2, 3], edges[::-1][::-2])


def test_many_elements_are_counted_by_all_threads_and_workgroups() -> None:
    x = np.random.default_rng(0).normal(size=1 << 17).astype(np.float32)
    edges = np.linspace(-3, 3, 101).astype(np.float32)
    judge(Device(DEVICES["compiled"]()), x, edges)
    judge(Device(DEVICES["GPU"]()), x[: 1 << 15], edges[::10])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_widened_first(device: Device, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=300).astype(np.float32)
    given = pyrite.tensor(x, device=device).astype(dtype)

    counts, edges = pyrite.histogram(given, 7, (-2.0, 2.0))

    assert edges.dtype is float32
    assert counts.tolist() == counted(given.astype("float32").numpy(), edges.numpy())


def test_counts_within_numbers_are_those_of_numpy(device: Device) -> None:
    x = np.random.default_rng(0).integers(-5, 5, 400).astype(np.int32)
    counts, edges = pyrite.histogram(pyrite.tensor(x, device=device), 16, (-4.0, 4.0))
    want, bounds = np.histogram(x, 16, (-4.0, 4.0))
    assert counts.tolist() == want.tolist()
    np.testing.assert_array_equal(edges.numpy(), bounds)
