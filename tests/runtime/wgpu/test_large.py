"""Tensors larger than one binding of the device: bound as several, on a device of small bindings.

With WebGPU's default limits a binding shows 128 MiB of a buffer of 256 MiB; here it is 8 KiB, so
that tensors of some thousand elements are large.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.fallback import fallbacks
from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.wgpu import Signature, WgpuRuntime, open_device
from pyrite.types import Array, float32

BINDING = 8192
ROWS, COLUMNS = 60, 50
MOST_BINDINGS = "max-storage-buffers-per-shader-stage"
SIZE = ROWS * COLUMNS  # 12,000 bytes as float32


@pytest.fixture
def small(device: Any) -> Iterator[WgpuRuntime]:
    """A device of which a binding shows 8 KiB, and which has the eight bindings of the default."""
    runtime = WgpuRuntime(open_device(limits={"max-storage-buffer-binding-size": BINDING}))
    assert runtime.device.gpu.limits["max-storage-buffer-binding-size"] == BINDING
    yield runtime
    runtime.close()


@pytest.fixture
def where(small: WgpuRuntime) -> Iterator[Device]:
    """The same as a device of tensors, on which nothing is left to NumPy."""
    before = fallbacks()
    yield Device(CubeBackend(small))
    assert fallbacks() == before


@pytest.fixture
def x() -> Array:
    return np.random.default_rng(0).normal(size=SIZE).astype(np.float32)


def test_elementwise_ops(where: Device, x: Array) -> None:
    a, b = pyrite.tensor(x, device=where), pyrite.tensor(x[::-1].copy(), device=where)

    np.testing.assert_allclose((a * b + 1.0).numpy(), x * x[::-1] + 1, rtol=1e-6)
    np.testing.assert_array_equal(pyrite.where(a > b, a, b).numpy(), np.maximum(x, x[::-1]))
    np.testing.assert_array_equal((a + pyrite.tensor(x[:1], device=where)).numpy(), x + x[:1])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions(where: Device, x: Array, axis: int | None) -> None:
    matrix = x.reshape(ROWS, COLUMNS)
    a = pyrite.tensor(matrix, device=where)

    np.testing.assert_allclose(a.sum(axis).numpy(), matrix.sum(axis), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(a.max(axis).numpy(), matrix.max(axis))
    np.testing.assert_array_equal(a.argmin(axis).numpy(), matrix.argmin(axis))


def test_copies_and_joins(where: Device, x: Array) -> None:
    a = pyrite.tensor(x.reshape(ROWS, COLUMNS), device=where)

    np.testing.assert_array_equal(a.mT.reshape(-1).numpy(), x.reshape(ROWS, COLUMNS).T.ravel())
    np.testing.assert_array_equal(a[1:, ::2].numpy(), x.reshape(ROWS, COLUMNS)[1:, ::2])
    np.testing.assert_array_equal(pyrite.cat([a, a]).numpy().ravel(), np.concatenate([x, x]))


def test_gathers(where: Device, x: Array) -> None:
    places = np.random.default_rng(1).permutation(SIZE).astype(np.int32)
    a, i = pyrite.tensor(x, device=where), pyrite.tensor(places, device=where)

    np.testing.assert_array_equal(a.take(i, 0).numpy(), x[places])


def test_sorts_and_scatters_need_more_bindings_than_the_default(device: Any, x: Array) -> None:
    bindings = {"max-storage-buffer-binding-size": BINDING, MOST_BINDINGS: 10}
    if device.gpu.adapter.limits[MOST_BINDINGS] < 10:
        pytest.skip("the adapter has no more bindings")
    runtime = WgpuRuntime(open_device(limits=bindings))
    where = Device(CubeBackend(runtime))
    places = np.random.default_rng(1).permutation(SIZE).astype(np.int32)
    a, i = pyrite.tensor(x, device=where), pyrite.tensor(places, device=where)

    np.testing.assert_array_equal(a.sort(0).numpy(), np.sort(x))
    added = pyrite.zeros((SIZE,), device=where).at[i].add(a)
    np.testing.assert_array_equal(added.numpy()[places], x)
    runtime.close()


@pytest.mark.parametrize(
    "shapes", [((60, 50), (50, 70)), ((3000, 1), (1, 3)), ((4, 900), (900, 4))]
)
def test_products(where: Device, shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in shapes)

    got = pyrite.tensor(x, device=where) @ pyrite.tensor(y, device=where)

    np.testing.assert_allclose(got.numpy(), x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "uint8"])
def test_elements_that_are_packed_in_words(where: Device, x: Array, dtype: str) -> None:
    whole = np.resize(x, 7000)
    a = pyrite.tensor(np.abs(whole) * 9, device=where).astype(dtype)
    want = pyrite.tensor(np.abs(whole) * 9).astype(dtype)

    np.testing.assert_array_equal(pyrite.cat([a, a]).numpy(), pyrite.cat([want, want]).numpy())
    assert (a == a).all().item()


def test_what_is_too_large_for_all_bindings_is_an_error_with_the_way_out(
    small: WgpuRuntime,
) -> None:
    b = KernelBuilder("sum_of_four", workgroup_size=64)
    operands = [b.buffer(f"x{i}", float32, "read") for i in range(4)]
    y = b.buffer("y", float32, "write")
    i = b.global_id()
    y[i] = operands[0][i] + operands[1][i] + operands[2][i] + operands[3][i]
    large = small.allocate(4 * SIZE)

    with pytest.raises(
        KernelError,
        match=r"'sum_of_four' requires at most 8 bindings of 8,192 bytes .*; part the tensors",
    ):
        small.launch(small.compile(b.build()), [large] * 5, [1])


def test_a_users_wgsl_sees_what_one_binding_shows(small: WgpuRuntime) -> None:
    source = """
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(1) fn main() { x[0] = 1.0; }
    """
    kernel = small.compile_wgsl(source, Signature("mine", (None,), (True,), 1))

    with pytest.raises(KernelError, match="'mine' requires buffers of at most 8,192 bytes"):
        small.launch(kernel, [small.allocate(4 * SIZE)], [1])


def test_a_buffer_of_one_binding_is_bound_once(small: WgpuRuntime, scale: Kernel) -> None:
    kernel = small.compile(scale)
    x = small.upload(np.ones(BINDING // 4, np.float32))

    small.launch(kernel, [x, x, BINDING // 4, 2.0], [BINDING // 256])

    assert kernel.fit([x, x], is_folded=False)[1] == [x, x]
    assert small.read(x, float32, (BINDING // 4,)).tolist() == [2.0] * (BINDING // 4)


def test_a_transaction_larger_than_a_buffer_takes_several(device: Any) -> None:
    limits = {**device.limits, "max-buffer-size": 64 << 10}
    runtime = WgpuRuntime(dataclasses.replace(device, limits=limits))
    values = [np.full(10_000, i, np.float32) for i in range(5)]
    buffers = [runtime.upload(v) for v in values]

    found = runtime.read_all([(b, float32, (10_000,)) for b in buffers])

    np.testing.assert_array_equal(found, values)
    assert runtime.report()["read_backs"] == 1
    runtime.close()


def test_a_buffer_may_be_as_large_as_the_device_allows(device: Any) -> None:
    limits = {**device.limits, "max-buffer-size": 70_000}
    runtime = WgpuRuntime(dataclasses.replace(device, limits=limits))

    assert runtime.allocate(69_888).storage.capacity == 69_888
    runtime.close()
